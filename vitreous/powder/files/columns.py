"""Tables as text: patterns in columns, which are also written, and lists of peaks."""

import re
from array import array
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import numpy as np

from vitreous.core.atomic import write_atomically
from vitreous.core.errors import InputError, check_choice
from vitreous.powder.files.content import Content, check_count
from vitreous.powder.files.header import radiation_from_header
from vitreous.powder.files.headings import Headings, read_headings
from vitreous.powder.pattern import MIN_POINTS, Floats, Pattern

_COMMENTS = "#!'/%*;<"
_DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")
_ERROR = re.compile(r"sig|σ|e\.?s\.?d|s\.?u\.?$|err|std|unc|dev|d?[ysei]$", re.IGNORECASE)
_MAX_HEADER = 1_000_000  # characters


def read_columns(content: Content) -> Pattern:
    """Two or three columns (2θ, intensity, standard error) below any number of header lines.

    A heading may name another quantity for 2θ, such as d or Q, which is converted.
    """
    header, above, stated, columns = _read_table(content.text())
    headings = read_headings(header[:above], len(columns))
    if headings.y is None or len(columns) < 2:
        raise InputError(f"found no column of intensities, expected 2θ and intensity; headings: {headings.names}")
    radiation = radiation_from_header(header)
    wavelength = content.wavelength or radiation.wavelength
    x, y = headings.two_theta(columns[headings.x], wavelength), columns[headings.y]
    if stated >= MIN_POINTS and stated == int(stated):
        check_count(int(stated), len(x))
    return Pattern(x, y, _standard_errors(columns, headings)).with_radiation(radiation)


def _read_table(text: str) -> tuple[list[str], int, float, Floats]:
    """Header lines, how many of them are above the numbers, the stated count or 0, and numbers `(columns, points)`."""
    header: list[str] = []
    numbers, width, above, stated, room = array("d"), 0, 0, 0.0, _MAX_HEADER
    for line, place in _lines(text):
        is_comment = line[0] in _COMMENTS
        values = [] if is_comment else _parse_numbers(line)
        if not values or (not width and len(values) == 1):
            if width and not is_comment:
                raise InputError(f"line {_line_number(text, place)}: found {line[:40]!r}, expected numbers")
            stated = values[0] if values else stated  # a single number is the count of points
            header.append(line.lstrip(_COMMENTS + " ") if is_comment else line)
            room -= len(line)
            if room < 0:
                raise InputError(f"found more than {_MAX_HEADER} characters of text, expected a header and numbers")
            continue
        width, above = width or len(values), above if width else len(header)
        if len(values) != width:
            number = _line_number(text, place)
            raise InputError(f"line {number}: found {len(values)} columns, the lines before it have {width}")
        numbers.extend(values)
    if not width:
        raise InputError("found no rows of numbers, expected 2θ and intensity")
    if width > 3:
        raise InputError(f"found {width} columns, expected 2θ, intensity and optionally its standard error")
    return header, above, stated, np.array(numbers, dtype=np.float64).reshape(-1, width).T


def _standard_errors(columns: Floats, headings: Headings) -> Floats | None:
    """The third column, unless it is 0 or its name tells of a background or a calculated pattern."""
    rest = [index for index in range(len(columns)) if index not in (headings.x, headings.y)]
    if not rest or not np.any(columns[rest[0]] != 0):
        return None
    is_named = headings.axis is not None and len(headings.names) == len(columns)
    return None if is_named and not _ERROR.search(headings.names[rest[0]]) else columns[rest[0]]


def parse_peak_list(text: str, wavelength: float) -> tuple[Floats, Floats | None]:
    """2θ in degrees, and intensities if there are any: one line per row, below headings if there are any."""
    header: list[str] = []
    rows: list[list[str]] = []
    for line, _ in _lines(text):
        if line[0] in _COMMENTS or not (rows or _parse_numbers(" ".join(_split(line)[:2]))):
            header.append(line.lstrip(_COMMENTS + " "))
        else:
            rows.append(_split(line))
    if not rows and not any(header):
        raise InputError("is empty, expected 2θ and intensity, one line per row")
    expected = "expected numbers, 2θ and intensity, one line per row"
    if not rows:
        raise InputError(f"found {header[-1][:40]!r}, {expected}")
    headings = read_headings(header, len(rows[0]))
    used = [headings.x] if headings.y is None or headings.y >= len(rows[0]) else [headings.x, headings.y]
    try:
        columns = np.array([[float(row[index]) for index in used] for row in rows]).T
    except (ValueError, IndexError):
        raise InputError(expected) from None
    return headings.two_theta(columns[0], wavelength), columns[1] if len(used) > 1 else None


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """Lines that are not blank, without spaces at their ends and quotation marks, and their places."""
    for match in re.finditer(r"[^\r\n]+", text):
        if line := match[0].replace('"', "").strip():
            yield line, match.start()


def _line_number(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _parse_numbers(line: str) -> list[float]:
    """The numbers in a line; empty if one of its words is not a number."""
    try:
        return [float(word) for word in _split(line)]
    except ValueError:
        return []


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
