"""Patterns in columns of text, and the wavelength that the lines above them state."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vitreous.errors import InputError

WAVELENGTHS = (0.1, 10.0)  # ångström: what a powder pattern is measured with
_STATISTICAL = 0.5  # Kα2 to Kα1, two electrons of 2p1/2 to four of 2p3/2, where only the doublet is named


@dataclass(frozen=True)
class Radiation:
    """Wavelength in ångström, Kα1 of a doublet, with Kα2 and its intensity relative to Kα1."""

    wavelength: float | None = None
    wavelength2: float | None = None
    ratio: float = 0.0


@dataclass(frozen=True)
class Measured:
    """What a file holds, not checked yet."""

    two_theta: NDArray[np.float64]
    intensity: NDArray[np.float64]
    sigma: NDArray[np.float64] | None = None
    radiation: Radiation = Radiation()


def radiation(first: float | None, second: float | None = None, ratio: float | None = None) -> Radiation:
    """What a file states of its radiation; zeros and the like, which stand for unknown, are left out."""
    low, high = WAVELENGTHS
    if first is None or not low <= first <= high:
        return Radiation()
    ratio = _STATISTICAL if ratio is None else ratio
    if second is None or not 1 < second / first < 1.05 or not 0 < ratio <= 1:  # 2.3 % for W
        return Radiation(first)
    return Radiation(first, second, ratio)


_K = r"k[-_ ]?(?:alpha|α|a(?![a-z]))"
_LABEL = rf"(?<![a-z])(?:{_K}|wave[-_ ]?length|lambda|wl|alpha(?=[12]))"
_GAP = r"(?:[\s=:,()\[\]\"']|is|in|wave[-_ ]?length|angstroms?|å|a(?![a-z])|nm)*"
_NUMBER = r"(\d*\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+)"
_FIRST = re.compile(rf"{_LABEL}(?:[-_ ]*1(?![.\d]))?+{_GAP}{_NUMBER}")
_SECOND = re.compile(rf"{_LABEL}[-_ ]*2(?![.\d]){_GAP}{_NUMBER}")
_RATIO = re.compile(rf"ratio(?:\W*{_K}[-_ ]*2\W*{_K}[-_ ]*1)?{_GAP}{_NUMBER}")


def stated_radiation(lines: Iterable[str]) -> Radiation:
    """The first wavelength, Kα2 and ratio that lines such as `# wavelength = 1.5406 Å` or `_WL2 = 1.5444` state."""
    found: dict[re.Pattern[str], float] = {}
    for part in (part.lower() for line in lines for part in line.split(";")):
        kinds = (_RATIO,) if "ratio" in part else () if re.search("beta|β", part) else (_SECOND, _FIRST)
        for kind in kinds:
            if match := kind.search(part):
                value = float(match[1])
                if kind is not _RATIO:
                    value *= 1e10 if value < 1e-8 else 10 if re.search(r"(?<![a-z])nm\b", part) else 1  # metres, nm
                found.setdefault(kind, value)
    return radiation(found.get(_FIRST), found.get(_SECOND), found.get(_RATIO))


_COMMENTS = "#!'/%*;<"
_DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")
_ANGLE = re.compile(r"2?[\W_]*(two)?[\W_]*(th|θ)|tth|angle|deg|pos|x$", re.IGNORECASE)
_ERROR = re.compile(r"sig|σ|e\.?s\.?d|s\.?u\.?$|err|std|unc|dev|d?[ysei]$", re.IGNORECASE)


def decode(data: bytes) -> str:
    """Text of any usual encoding."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16")
    if b"\0" in data:
        raise InputError("found binary content, expected text")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def read_columns(data: bytes, kind: str) -> Measured:
    """Two or three columns, 2θ, intensity and its standard error, below any lines of words."""
    header: list[str] = []
    rows: list[list[float]] = []
    for number, text in enumerate(decode(data).splitlines(), 1):
        line = text.replace('"', "").strip()
        if not line:
            continue
        if line[0] in _COMMENTS:
            header.append(line.lstrip(_COMMENTS + " "))
            continue
        words = _split(line)
        values = _numbers(words)
        if values is None or (not rows and len(values) == 1):  # a line may count the points
            if rows:
                raise InputError(f"line {number}: found {line[:40]!r}, expected numbers")
            header.append(line)
            continue
        if rows and len(values) != len(rows[0]):
            raise InputError(f"line {number}: found {len(values)} columns, the lines before it have {len(rows[0])}")
        rows.append(values)
    if not rows:
        raise InputError("found no rows of numbers, expected 2θ and intensity")
    if len(rows[0]) > 3:
        raise InputError(f"found {len(rows[0])} columns, expected 2θ, intensity and, if known, its standard error")
    columns = np.array(rows, dtype=np.float64).T  # (columns, points)
    names = _split(header[-1]) if header else []
    if len(names) == len(columns) and re.match(r"q([\W_]|$)", names[0], re.IGNORECASE):
        raise InputError(f"found {names[0]!r} as first column, expected 2θ in degrees")
    has_sigma = len(columns) == 3 and np.any(columns[2] != 0)
    if len(names) == 3 and _ANGLE.match(names[0]) and not _ERROR.search(names[2]):
        has_sigma = False  # a background or a calculated pattern
    return Measured(columns[0], columns[1], columns[2] if has_sigma else None, stated_radiation(header))


def _split(line: str) -> list[str]:
    line = line.rstrip(",; \t")
    if "," in line:
        words = re.split(r"\s*;\s*|\s+", line)
        if len(words) > 1 and all(_DECIMAL_COMMA.fullmatch(word) for word in words):
            return [word.replace(",", ".") for word in words]
    return re.split(r"\s*[,;]\s*|\s+", line)


def _numbers(words: list[str]) -> list[float] | None:
    try:
        return [float(word) for word in words]
    except ValueError:
        return None
