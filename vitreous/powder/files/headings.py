"""Column headings: which columns of a table hold angle and intensity, and which quantity the angle is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vitreous.core.errors import InputError
from vitreous.powder.files.axes import (
    ANGLE,
    ENERGY,
    EXPECTED,
    INVERSE,
    TWO_THETA,
    Axis,
    axis_or_none,
    find_axis,
    simplify,
)

_LONGEST = 200  # characters of a line of headings; longer lines are text
_LETTER = re.compile(r"\W*[dqse](?![a-z])|\W*1\s*/", re.IGNORECASE)  # of a quantity, in a unit that is not known
_UNIT = re.compile(rf"\(?(?:{ANGLE}|{INVERSE}|k?ev)")
_INTENSITY = re.compile(
    r"[iy](?![a-z])|.*(?:int|count|cts|cps|obs|signal|height|area|ampl|value|arb|norm)", re.IGNORECASE
)
_TEXT = re.compile(r"[=:]|\d[.,]\d|^[\s\d]*$")  # no names of columns
_NUMBERING = re.compile(r"(?:no|nr|n|index|\w*(?:point|peak|line|_id)|id|#|h|k|l|hkl)\W*", re.IGNORECASE)


@dataclass(frozen=True)
class Headings:
    """The names of the columns of a table, and which of them hold angle and intensity."""

    names: Sequence[str] = ()
    x: int = 0
    y: int | None = 1
    axis: Axis | None = None  # None if its name is unknown, as in a table without names: then it is 2θ
    sigma: int | None = None  # column of the standard errors, where the user or many headings name the columns
    is_chosen: bool = False  # then no other column is used


def read_headings(header: Sequence[str], columns: int) -> Headings:
    """The headings of a table with a number of columns, from the lines above it."""
    units: list[str] = []
    is_last = True
    for line in reversed([line for line in header if len(line) <= _LONGEST and not _TEXT.search(line)]):
        names = _split_names(line)
        if is_last and names and _UNIT.fullmatch(simplify(names[0])):  # a line of units below the names
            units = names
            continue
        may_be = names and not any(map(_is_number, names)) and (is_last or any(map(_INTENSITY.match, names[1:])))
        if may_be and (headings := _choose_columns(names, units, columns, line)):
            return headings
        if line.endswith((")", "]")) and (axis := axis_or_none(line)):  # FIT2D: a line for each column
            return Headings([line], axis=axis)
        is_last = False
    return _choose_columns(units, [], columns, ", ".join(units)) or Headings() if units else Headings()


def column_names(header: Sequence[str], columns: int) -> list[str]:
    """The last line above a table with as many names as there are columns, in any words; empty if there is none."""
    units: list[str] = []
    for line in reversed([line for line in header if len(line) <= _LONGEST and not _TEXT.search(line)]):
        names = _split_names(line)
        if not units and names and _UNIT.fullmatch(simplify(names[0])):
            units = names
        elif len(names) == columns and not any(map(_is_number, names)):
            return _with_units(names, units)
    return units if len(units) == columns else []


def is_intensity(name: str) -> bool:
    """Whether a heading names an intensity."""
    return _INTENSITY.match(name) is not None


def is_numbering(name: str) -> bool:
    """Whether a heading names the number of a point or the indices of a line."""
    return _NUMBERING.fullmatch(name) is not None


def _with_units(names: list[str], units: list[str]) -> list[str]:
    if len(units) != len(names):
        return names
    return [f"{name} ({unit.strip('()[] ')})" for name, unit in zip(names, units, strict=True)]


def _choose_columns(names: list[str], units: list[str], columns: int, line: str) -> Headings | None:
    """Angle and intensity by name; None if the line is text. `InputError` if it may be a quantity other than 2θ."""
    has_intensity = columns == 1 or any(map(_INTENSITY.match, names[1:]))
    angles = [index for index, name in enumerate(names) if _is_two_theta(name)]
    x = next((index for index, name in enumerate(names) if not _NUMBERING.fullmatch(name)), 0)
    x = angles[0] if angles and x not in angles else x
    names = _with_units(names, units)
    axis = find_axis(names[x]) if has_intensity else _axis_of_text(names[x])
    is_other = axis.quantity != TWO_THETA if axis else has_intensity and bool(_LETTER.match(names[x]))
    if is_other and not (axis and has_intensity and len(names) == columns):
        raise InputError(f"found {line!r} above {columns} column(s); {EXPECTED}, and intensity")
    if len(names) != columns:
        return None
    others = [index for index in range(columns) if index != x and not _NUMBERING.fullmatch(names[index])]
    y = next((index for index in others if _INTENSITY.match(names[index])), None)
    y = next((index for index in others if not axis_or_none(names[index])), None) if y is None else y
    return Headings(names, x, y, axis)


def _split_names(line: str) -> list[str]:
    """The names in a line, separated by tabs, commas and semicolons or else by spaces; units stay with their names."""
    line = re.sub(r"\b(2|two)[\s-]+(?=th|θ)", r"\1", line.strip(), flags=re.IGNORECASE)
    if re.search(r"[\t,;]", line):
        return [name.strip() for name in re.split(r"[\t,;]", line.rstrip("\t,; "))]
    names: list[str] = []
    is_open = False
    for word in re.sub(r"\b(d)\s+(?=spac|val)", r"\1-", line, flags=re.IGNORECASE).split():
        if names and (is_open or word[0] in "([/" or names[-1].endswith("/")):
            names[-1] += f" {word}"
        else:
            names.append(word)
        is_open = sum(map(names[-1].count, "([")) > sum(map(names[-1].count, ")]"))
    return names


def _is_number(word: str) -> bool:
    try:
        float(word.replace(",", "."))
    except ValueError:
        return False
    return True


def _axis_of_text(name: str) -> Axis | None:
    """The axis that a line without an intensity names; a word such as `energy` may stand in any text."""
    axis = axis_or_none(name)
    return None if axis is not None and axis.quantity == ENERGY else axis


def _is_two_theta(name: str) -> bool:
    axis = axis_or_none(name)
    return axis is not None and axis.quantity == TWO_THETA
