"""Files of diffractometer makers: Panalytical, Rigaku and Bruker.

geddes reads angles and intensities of all of them but not the wavelengths, which are read here. It reads the first scan
or range; `scan_parts` gives it the others. geddes compares the number of points with the one that RAS and RAW files
state; an XRDML file states none.
"""

import re
import struct
from collections.abc import Callable

from vitreous.powder.files.content import Content, check_count, first_number, in_angstrom, read_xml
from vitreous.powder.files.gsas import read_gsas
from vitreous.powder.pattern import Pattern
from vitreous.powder.radiation import X_RAYS, Radiation, radiation_from_file

_RAW1_WAVELENGTHS = 624  # byte offset in a RAW1.01 file
_BRML_COUNT = ("MeasurementPoints",)
_RAW4_FIRST_SEGMENT = 61
_RAW4_SOURCE_SEGMENT, _RAW4_RANGE_SEGMENTS = 30, (0, 160)


def read_diffractometer(content: Content) -> Pattern:
    """Panalytical XRDML, Rigaku RAS and RASX, and Bruker BRML."""
    radiation = _RADIATION[content.kind](content)
    x, y = content.counts()
    if content.kind == ".brml":
        _check_brml_count(content, len(x))
    return Pattern(x, y, radiation=X_RAYS).with_radiation(radiation)


def _xrdml_radiation(content: Content) -> Radiation:
    """`usedWavelength` holds the doublet, and which of its lines was intended."""
    doublet = ("kAlpha1", "kAlpha2", "ratioKAlpha2KAlpha1")
    elements = read_xml(content.data, ("usedWavelength", "kBeta", *doublet))
    used = elements["usedWavelength"]
    is_beta = bool(used) and "beta" in used[0].get("intended", "").lower()
    return radiation_from_file(*(first_number(elements[name]) for name in (("kBeta",) if is_beta else doublet)))


def _ras_radiation(content: Content) -> Radiation:
    """Lines `*KEY "value"` above the points hold the wavelengths."""
    pairs = dict(re.findall(r'^\*HW_XG_(\w++)[ \t]++"([^"\n]*+)"', content.text(), re.MULTILINE))
    unit = pairs.get("WAVE_LENGTH_UNIT")
    first, second = (in_angstrom(pairs.get(f"WAVE_LENGTH_ALPHA{line}"), unit) for line in (1, 2))
    return _rigaku_radiation(first, second, pairs.get("WAVE_TYPE"))


def _rasx_radiation(content: Content) -> Radiation:
    """The conditions of the first scan hold the wavelengths."""
    conditions = content.member(lambda path: path.startswith("data0/") and "conditions" in path)
    elements = read_xml(conditions, ("WaveType", "WavelengthKalpha1", "WavelengthKalpha2"))
    wave_type = next((element.text for element in elements["WaveType"]), None)
    first, second = (first_number(elements[f"WavelengthKalpha{line}"]) for line in (1, 2))
    return _rigaku_radiation(first, second, wave_type)


def _rigaku_radiation(first: float | None, second: float | None, wave_type: str | None) -> Radiation:
    """The wave type `Ka1` means a monochromator that passes Kα1 only."""
    single = (wave_type or "").strip().lower() in ("ka1", "kalpha1")
    return radiation_from_file(first, None if single else second)


def _brml_radiation(content: Content) -> Radiation:
    """The file of the points also holds the wavelengths."""
    names = ("WaveLengthAlpha1", "WaveLengthAlpha2", "WaveLengthRatio")
    elements = read_xml(content.member(_has_brml_points), names)
    return radiation_from_file(*(first_number(elements[name]) for name in names))


def _has_brml_points(path: str) -> bool:
    return path.endswith("rawdata0.xml")


def _check_brml_count(content: Content, count: int) -> None:
    """Every route of the data may state its number of points; one of them must be that of the pattern."""
    stated = [first_number([each]) for each in read_xml(content.member(_has_brml_points), _BRML_COUNT)[_BRML_COUNT[0]]]
    if stated and stated[0] is not None and count not in stated:
        check_count(int(stated[0]), count)


_RADIATION: dict[str, Callable[[Content], Radiation]] = {
    ".xrdml": _xrdml_radiation,
    ".ras": _ras_radiation,
    ".rasx": _rasx_radiation,
    ".brml": _brml_radiation,
}


def read_raw(content: Content) -> Pattern:
    """Bruker binary, versions RAW1.01 and RAW4.00; GSAS text has the same suffix."""
    if not content.data.startswith(b"RAW"):
        return read_gsas(content)
    pattern = Pattern(*content.counts(), radiation=X_RAYS)  # also verifies all lengths in the file
    return pattern.with_radiation(_raw_radiation(content.data))


def _raw_radiation(data: bytes) -> Radiation:
    if data.startswith(b"RAW1.01"):
        return _raw_doublet(data, _RAW1_WAVELENGTHS)
    offset = _RAW4_FIRST_SEGMENT
    while offset + 8 <= len(data):
        segment, length = struct.unpack_from("<II", data, offset)
        if segment == _RAW4_SOURCE_SEGMENT and length >= 112:
            return _raw_doublet(data, offset + 80)
        if segment in _RAW4_RANGE_SEGMENTS or length < 8:
            break
        offset += length
    return Radiation()


def _raw_doublet(data: bytes, offset: int) -> Radiation:
    """Kα1, Kα2, Kβ and the ratio of Kα2 to Kα1 as float64."""
    first, second, _, ratio = struct.unpack_from("<4d", data, offset)
    return radiation_from_file(first, second, ratio)
