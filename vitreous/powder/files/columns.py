"""Tables as text: patterns in columns, which are also written, and lists of peaks."""

import re
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vitreous.core.atomic import write_atomically
from vitreous.core.errors import InputError, check_choice
from vitreous.powder.files.axes import to_angles
from vitreous.powder.files.column_choice import choose_columns
from vitreous.powder.files.content import Content
from vitreous.powder.files.header import radiation_from_header
from vitreous.powder.files.headings import Headings
from vitreous.powder.files.reading import AS_IN_FILE, ReadOptions
from vitreous.powder.files.scan_choice import merge_scans
from vitreous.powder.files.tables import COMMENTS, lines, parse_numbers, read_table, split_words
from vitreous.powder.pattern import Floats, Pattern
from vitreous.powder.radiation import Radiation

_ERROR = re.compile(r"sig|σ|e\.?s\.?d|s\.?u\.?$|err|std|unc|dev|d?[ysei]$", re.IGNORECASE)


def read_columns(content: Content) -> Pattern:
    """Columns (2θ, intensity, standard error) below any number of header lines; several scans if the file has them.

    A heading or the user may name another quantity for 2θ, such as d or Q, which is converted, and choose columns.
    """
    table, options = read_table(content.text()), content.options
    width = len(table.numbers)
    headings = choose_columns(table.header[: table.above], width, options)
    if headings.y is None or width < 2:
        raise InputError(f"found no column of intensities, expected 2θ and intensity; headings: {headings.names}")
    stated = radiation_from_header(table.header)
    scans = []
    for rows in table.scans(headings.x, options):
        columns = table.numbers[:, rows]
        angles = to_angles(headings.axis, columns[headings.x], content.radiation, stated.wavelength, options)
        pattern = Pattern(angles.two_theta, columns[headings.y], _standard_errors(columns, headings))
        radiation = stated if angles.equivalent is None else Radiation(angles.equivalent, name=stated.name)
        scans.append(replace(pattern, notes=angles.notes).with_radiation(radiation))
    return merge_scans(scans)


def _standard_errors(columns: Floats, headings: Headings) -> Floats | None:
    """The third column, unless it is 0 or its name tells of a background or a calculated pattern."""
    if headings.is_chosen:
        return None if headings.sigma is None else columns[headings.sigma]
    rest = [index for index in range(len(columns)) if index not in (headings.x, headings.y)]
    if not rest or not np.any(columns[rest[0]] != 0):
        return None
    is_named = headings.axis is not None and len(headings.names) == len(columns)
    return None if is_named and not _ERROR.search(headings.names[rest[0]]) else columns[rest[0]]


class PeakList(NamedTuple):
    """Lines of a pattern: 2θ in degrees, intensities if known; of energies also the wavelength in ångström of 2θ."""

    two_theta: Floats
    intensity: Floats | None
    equivalent: float | None = None
    notes: tuple[str, ...] = ()


def parse_peak_list(text: str, radiation: Radiation, options: ReadOptions = AS_IN_FILE) -> PeakList:
    """Angles, and intensities if there are any: one line per row, below headings if there are any."""
    header: list[str] = []
    rows: list[list[str]] = []
    for line, _, _ in lines(text):
        if line[0] in COMMENTS or not (rows or parse_numbers(" ".join(split_words(line)[:2]))):
            header.append(line.lstrip(COMMENTS + " "))
        else:
            rows.append(split_words(line))
    if not rows and not any(header):
        raise InputError("is empty, expected 2θ and intensity, one line per row")
    expected = "expected numbers, 2θ and intensity, one line per row"
    if not rows:
        raise InputError(f"found {header[-1][:40]!r}, {expected}")
    headings = choose_columns(header, len(rows[0]), options, is_list=True)
    used = [headings.x] if headings.y is None or headings.y >= len(rows[0]) else [headings.x, headings.y]
    try:
        columns = np.array([[float(row[index]) for index in used] for row in rows]).T
    except (ValueError, IndexError):
        raise InputError(expected) from None
    angles = to_angles(headings.axis, columns[0], radiation, None, options)
    return PeakList(angles.two_theta, columns[1] if len(used) > 1 else None, angles.equivalent, angles.notes)


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
