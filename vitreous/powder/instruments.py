"""Patterns in the files of diffractometers, GSAS and powder CIF: counts by geddes and gemmi, radiation by ourselves.

geddes reads angles and intensities of every format here and leaves out wavelengths and standard errors. One file is
one pattern: the first scan, range or bank.
"""

import io
import re
import struct
import zipfile
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from vitreous.data.extras import load_extra
from vitreous.errors import InputError
from vitreous.powder.columns import Measured, Radiation, decode, radiation, stated_radiation

LARGEST = 200_000_000  # bytes: more than any pattern, less than memory

_EXTRA = "powder"


def _counts(data: bytes, kind: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """2θ in degrees and intensity, by geddes."""
    found = load_extra("geddes", _EXTRA).read_bytes(data, f"pattern{kind}")
    return np.array(found.x, dtype=np.float64), np.array(found.y, dtype=np.float64)


def read_xrdml(data: bytes, kind: str) -> Measured:
    """Malvern Panalytical: `usedWavelength` names the doublet and which of its lines was meant."""
    for used in _named(_xml(data), "usedWavelength"):
        lines = {name: _number(used, name) for name in ("kAlpha1", "kAlpha2", "kBeta", "ratioKAlpha2KAlpha1")}
        if "beta" in used.get("intended", "").lower():
            return Measured(*_counts(data, kind), radiation=radiation(lines["kBeta"]))
        stated = radiation(lines["kAlpha1"], lines["kAlpha2"], lines["ratioKAlpha2KAlpha1"])
        return Measured(*_counts(data, kind), radiation=stated)
    return Measured(*_counts(data, kind))


def read_ras(data: bytes, kind: str) -> Measured:
    """Rigaku text: `*KEY "value"` lines above the points."""
    pairs = dict(re.findall(r'^\*HW_XG_(\w+)\s+"([^"]*)"', decode(data), re.MULTILINE))
    unit = pairs.get("WAVE_LENGTH_UNIT")
    first, second = (_in_angstrom(pairs.get(f"WAVE_LENGTH_ALPHA{line}"), unit) for line in (1, 2))
    return Measured(*_counts(data, kind), radiation=_rigaku(first, second, pairs.get("WAVE_TYPE")))


def read_rasx(data: bytes, kind: str) -> Measured:
    """Rigaku zip: the conditions of the first scan name the generator's lines."""
    for content in _members(data, r"Data0/.*Conditions.*\.xml"):
        root = _xml(content)
        wave = next((element.text for element in _named(root, "WaveType")), None)
        stated = _rigaku(_number(root, "WavelengthKalpha1"), _number(root, "WavelengthKalpha2"), wave)
        return Measured(*_counts(data, kind), radiation=stated)
    return Measured(*_counts(data, kind))


def _rigaku(first: float | None, second: float | None, wave: str | None) -> Radiation:
    """A monochromator that leaves Kα1 alone is told by the wave type `Ka1`."""
    single = (wave or "").strip().lower() in ("ka1", "kalpha1")
    return radiation(first, None if single else second)


def read_brml(data: bytes, kind: str) -> Measured:
    """Bruker zip: the tube's lines stand beside the points."""
    for content in _members(data, r".*RawData0\.xml"):
        root = _xml(content)
        stated = radiation(*(_number(root, f"WaveLength{name}") for name in ("Alpha1", "Alpha2", "Ratio")))
        return Measured(*_counts(data, kind), radiation=stated)
    return Measured(*_counts(data, kind))


def read_raw(data: bytes, kind: str) -> Measured:
    """Bruker binary, versions RAW1.01 and RAW4.00; the same suffix is also used for GSAS text."""
    if not data.startswith(b"RAW"):
        return read_gsas(data, kind)
    x, y = _counts(data, kind)  # has walked the whole file: lengths are right from here on
    if data.startswith(b"RAW1.01"):
        return Measured(x, y, radiation=_doublet(data, 624))
    at = 61
    while at + 8 <= len(data):
        segment, length = struct.unpack_from("<II", data, at)
        if segment == 30 and length >= 112:  # the X-ray source
            return Measured(x, y, radiation=_doublet(data, at + 80))
        if segment in (0, 160) or length < 8:  # the first range
            break
        at += length
    return Measured(x, y)


def _doublet(data: bytes, at: int) -> Radiation:
    """Kα1, Kα2, Kβ and the ratio of the first two, one float64 each; the mean stands before them."""
    first, second, _, ratio = struct.unpack_from("<4d", data, at)
    return radiation(first, second, ratio)


def read_gsas(data: bytes, kind: str) -> Measured:
    """GSAS text: hundredths of a degree in a BANK, which may hold standard errors (ESD, FXYE)."""
    x, y = _counts(data, kind)
    lines = decode(data).splitlines()
    bank = next(index for index, line in enumerate(lines) if line.startswith("BANK"))
    body = [line for line in lines[bank + 1 :] if line.strip() and line[0] not in "#!"]
    end = next((index for index, line in enumerate(body) if line.startswith("BANK")), len(body))
    stated = stated_radiation(lines[:bank])
    if re.search(r"\sFXYE\b", lines[bank]):
        return Measured(x, y, np.loadtxt(body[:end], usecols=2, ndmin=1), stated)
    if re.search(r"\sESD\b", lines[bank]):
        return Measured(x, y, _errors(body[:end], y), stated)
    return Measured(x, y, None, stated)


def _errors(body: list[str], y: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Standard errors that alternate with the intensities, in fields of eight characters or between spaces."""
    for split in (lambda line: re.findall(".{1,8}", line), str.split):
        try:
            values = np.array([float(word) for line in body for word in split(line) if word.strip()])
        except ValueError:
            continue
        if len(values) >= 2 * len(y) and np.array_equal(values[: 2 * len(y) : 2], y):
            return values[1 : 2 * len(y) : 2]
    return None


_ANGLES = ("_pd_proc_2theta_corrected", "_pd_meas_2theta_scan")
_RANGES = ("_pd_proc_2theta_range_", "_pd_meas_2theta_range_")
_INTENSITIES = (
    "_pd_proc_intensity_total", "_pd_meas_intensity_total", "_pd_meas_counts_total", "_pd_proc_intensity_net",
)  # fmt: skip
_WAVELENGTH = "_diffrn_radiation_wavelength"


def read_cif(data: bytes, kind: str) -> Measured:
    """Powder CIF: the first block with a profile; errors in parentheses, or from the weights of the refinement."""
    document = load_extra("gemmi", _EXTRA).cif.read_string(decode(data))
    blocks = [_columns(block) for block in document]
    for block in blocks:
        intensity = next((block[name] for name in _INTENSITIES if name in block), None)
        if intensity is None:
            continue
        y, sigma = _with_errors(intensity)
        x = _two_theta(block, len(y))
        if x is None:
            continue
        if sigma is None and len(block.get("_pd_proc_ls_weight", [])) == len(y):
            weight, _ = _with_errors(block["_pd_proc_ls_weight"])
            sigma = 1 / np.sqrt(weight) if np.all(weight > 0) else None
        return Measured(x, y, sigma, _cif_radiation([block, *blocks]))
    raise InputError(f"found no powder profile, expected {_ANGLES[1]} and {_INTENSITIES[1]} or the like")


def _columns(block: Any) -> dict[str, list[str]]:
    """Every tag of a block, single values as columns of one; `_pd_meas.counts_total` is the newer spelling."""
    found: dict[str, list[str]] = {}
    for item in block:
        if item.pair is not None:
            found[item.pair[0]] = [item.pair[1]]
        elif item.loop is not None:
            width = item.loop.width()
            found |= {tag: list(item.loop.values[k::width]) for k, tag in enumerate(item.loop.tags)}
    return {tag.lower().replace(".", "_"): values for tag, values in found.items()}


def _two_theta(block: dict[str, list[str]], count: int) -> NDArray[np.float64] | None:
    for name in _ANGLES:
        if name in block:
            x, _ = _with_errors(block[name])
            if len(x) != count:
                raise InputError(f"{name} has {len(x)} values and the intensities {count}")
            return x
    for name in _RANGES:
        if f"{name}min" in block and f"{name}max" in block:
            (low, high), _ = _with_errors(block[f"{name}min"] + block[f"{name}max"])
            return np.linspace(low, high, count)
    return None


def _with_errors(words: list[str]) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Values, and what stands in parentheses, in units of the last digit, if it does throughout: 12.5(3) is ±0.3."""
    values, errors = np.empty(len(words)), np.full(len(words), np.nan)
    for index, word in enumerate(words):
        number, _, error = word.rstrip(")").partition("(")
        try:
            values[index] = float(number)
            if error:
                errors[index] = int(error) * 10.0 ** -len(number.partition(".")[2])
        except ValueError:
            raise InputError(f"found {word!r} in value {index + 1} of a profile, expected a number") from None
    return values, errors if np.all(np.isfinite(errors)) else None


def _cif_radiation(blocks: list[dict[str, list[str]]]) -> Radiation:
    """Of the profile's block or, failing that, of any other; weights of several lines are relative to the first."""
    for block in blocks:
        known = [word for word in block.get(_WAVELENGTH, []) if word[:1].isdigit() or word[:1] == "."]
        if known:
            lines, _ = _with_errors(known)
            weights = [word for word in block.get(f"{_WAVELENGTH}_wt", []) if word not in ("?", ".")]
            shares = _with_errors(weights)[0] if len(weights) == len(lines) > 1 else None
            ratio = None if shares is None or shares[0] <= 0 else float(shares[1] / shares[0])
            return radiation(float(lines[0]), float(lines[1]) if len(lines) > 1 else None, ratio)
    return Radiation()


class _NoDoctype(ElementTree.TreeBuilder):
    """Entities, which can swell a small file without end, need a document type to be declared in."""

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        raise InputError("found a document type declaration, expected plain XML")


def _xml(data: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(data, ElementTree.XMLParser(target=_NoDoctype()))


def _named(root: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    return (element for element in root.iter() if element.tag.rpartition("}")[2] == name)  # whatever its namespace


def _number(root: ElementTree.Element, name: str) -> float | None:
    """A length in ångström, or a plain number, from an element's attribute `Value` or its text."""
    for element in _named(root, name):
        return _in_angstrom(element.get("Value", element.text), element.get("unit", element.get("Unit")))
    return None


def _in_angstrom(word: str | None, unit: str | None) -> float | None:
    try:
        return float(word or "") * (10 if (unit or "").strip().lower() in ("nm", "nanometer") else 1)
    except ValueError:
        return None


def _members(data: bytes, name: str) -> Iterator[bytes]:
    """Contents of the members of a zip whose path fits, none of which may swell beyond reason."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            if member.file_size > LARGEST:
                raise InputError(
                    f"{member.filename!r} would unpack to {member.file_size} bytes, expected {LARGEST} at most"
                )
        for path in sorted(archive.namelist()):
            if re.fullmatch(name, path, re.IGNORECASE):
                yield archive.read(path)
