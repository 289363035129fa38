"""Text files of patterns: columns, which are also written, and GSAS; wavelengths stated in header lines."""

import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

import numpy as np

from vitreous.core.atomic import write_atomically
from vitreous.core.errors import InputError, check_choice
from vitreous.powder.files.content import Content
from vitreous.powder.pattern import Floats, Pattern
from vitreous.powder.radiation import Radiation, radiation_from_file

_K = r"k[-_ ]?(?:alpha|α|a(?![a-z]))"
_LABEL = rf"(?<![a-z])(?:{_K}|wave[-_ ]?length|lambda|wl|alpha(?=[12]))"
_GAP = r"(?:[\s=:,()\[\]\"']|is|in|wave[-_ ]?length|angstroms?|å|a(?![a-z])|nm)*"
_NUMBER = r"(\d*\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+)"
_FIRST = re.compile(rf"{_LABEL}(?:[-_ ]*1(?![.\d]))?+{_GAP}{_NUMBER}")
_SECOND = re.compile(rf"{_LABEL}[-_ ]*2(?![.\d]){_GAP}{_NUMBER}")
_RATIO = re.compile(rf"ratio(?:\W*{_K}[-_ ]*2\W*{_K}[-_ ]*1)?{_GAP}{_NUMBER}")

_COMMENTS = "#!'/%*;<"
_DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")
_ANGLE = re.compile(r"2?[\W_]*(two)?[\W_]*(th|θ)|tth|angle|deg|pos|x$", re.IGNORECASE)
_ERROR = re.compile(r"sig|σ|e\.?s\.?d|s\.?u\.?$|err|std|unc|dev|d?[ysei]$", re.IGNORECASE)


def _radiation_from_header(lines: Iterable[str]) -> Radiation:
    """The first wavelength, Kα2 and ratio stated by lines such as `# wavelength = 1.5406 Å` or `_WL2 = 1.5444`."""
    values: dict[re.Pattern[str], float] = {}
    for part in (part.lower() for line in lines for part in line.split(";")):
        kinds = (_RATIO,) if "ratio" in part else () if re.search("beta|β", part) else (_SECOND, _FIRST)
        for kind in kinds:
            if match := kind.search(part):
                value = float(match[1])
                if kind is not _RATIO:
                    value *= 1e10 if value < 1e-8 else 10 if re.search(r"(?<![a-z])nm\b", part) else 1  # metres, nm
                values.setdefault(kind, value)
    return radiation_from_file(values.get(_FIRST), values.get(_SECOND), values.get(_RATIO))


def read_columns(content: Content) -> Pattern:
    """Two or three columns (2θ, intensity, standard error) below any number of header lines."""
    header: list[str] = []
    rows: list[list[float]] = []
    for number, text in enumerate(content.text().splitlines(), 1):
        line = text.replace('"', "").strip()
        if not line:
            continue
        if line[0] in _COMMENTS:
            header.append(line.lstrip(_COMMENTS + " "))
            continue
        try:
            values = [float(word) for word in _split(line)]
        except ValueError:
            values = []
        if not values or (not rows and len(values) == 1):  # a single number is the count of points
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
        raise InputError(f"found {len(rows[0])} columns, expected 2θ, intensity and optionally its standard error")
    columns = np.array(rows, dtype=np.float64).T  # (columns, points)
    names = _split(header[-1]) if header else []
    if len(names) == len(columns) and re.match(r"q([\W_]|$)", names[0], re.IGNORECASE):
        raise InputError(f"found {names[0]!r} as first column, expected 2θ in degrees")
    has_sigma = len(columns) == 3 and np.any(columns[2] != 0)
    if len(names) == 3 and _ANGLE.match(names[0]) and not _ERROR.search(names[2]):
        has_sigma = False  # a background or a calculated pattern
    sigma = columns[2] if has_sigma else None
    return Pattern(columns[0], columns[1], sigma).with_radiation(_radiation_from_header(header))


def _split(line: str) -> list[str]:
    line = line.rstrip(",; \t")
    if "," in line:
        words = re.split(r"\s*;\s*|\s+", line)
        if len(words) > 1 and all(_DECIMAL_COMMA.fullmatch(word) for word in words):
            return [word.replace(",", ".") for word in words]
    return re.split(r"\s*[,;]\s*|\s+", line)


def write_pattern(path: str | PathLike[str], pattern: Pattern) -> None:
    """Write `.xy` (2θ, intensity), `.xye` (also standard errors) or `.csv` (standard errors if available)."""
    path = Path(path)
    kind = path.suffix.lower()
    check_choice(f"{path}: file type", kind, (".xy", ".xye", ".csv"))
    if kind == ".xye" and pattern.sigma is None:
        raise InputError(f"{path}: {pattern.name} has no standard errors for an .xye file; expected .xy or .csv")
    names, columns = ["two_theta", "intensity"], [pattern.two_theta, pattern.intensity]
    if pattern.sigma is not None and kind != ".xy":
        names, columns = [*names, "sigma"], [*columns, pattern.sigma]
    separator = "," if kind == ".csv" else " "
    lines = [separator.join(names) if kind == ".csv" else f"# {separator.join(names)}"]
    if pattern.wavelength is not None:
        doublet = f"; wavelength2 = {float(pattern.wavelength2)!r} angstrom" if pattern.wavelength2 else ""
        ratio = f"; ratio = {float(pattern.ratio)!r}" if doublet else ""
        lines.insert(0, f"# wavelength = {float(pattern.wavelength)!r} angstrom{doublet}{ratio}")
    lines += [separator.join(map(repr, row)) for row in np.stack(columns, axis=1).tolist()]
    write_atomically(path, "\n".join([*lines, ""]).encode())


def read_gsas(content: Content) -> Pattern:
    """The first BANK of points, some with standard errors (ESD, FXYE); geddes reads the points."""
    x, y = content.counts()
    lines = content.text().splitlines()
    bank = next(index for index, line in enumerate(lines) if line.startswith("BANK"))
    body = [line for line in lines[bank + 1 :] if line.strip() and line[0] not in "#!"]
    end = next((index for index, line in enumerate(body) if line.startswith("BANK")), len(body))
    sigma: Floats | None = None
    if re.search(r"\sFXYE\b", lines[bank]):
        sigma = np.loadtxt(body[:end], usecols=2, ndmin=1)
    elif re.search(r"\sESD\b", lines[bank]):
        sigma = _standard_errors(body[:end], y)
    return Pattern(x, y, sigma).with_radiation(_radiation_from_header(lines[:bank]))


def _standard_errors(body: list[str], y: Floats) -> Floats | None:
    """Standard errors that alternate with the intensities, in fields of eight characters or separated by spaces."""
    for split in (lambda line: re.findall(".{1,8}", line), str.split):
        try:
            values = np.array([float(word) for line in body for word in split(line) if word.strip()])
        except ValueError:
            continue
        if len(values) >= 2 * len(y) and np.array_equal(values[: 2 * len(y) : 2], y):
            return values[1 : 2 * len(y) : 2]
    return None
