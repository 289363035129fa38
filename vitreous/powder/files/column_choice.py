"""Which columns of a table are angle, intensity and standard error: by the user, or by the headings of many columns."""

import re
from collections.abc import Sequence
from dataclasses import replace

from vitreous.core.errors import InputError
from vitreous.powder.files.axes import TWO_THETA, axis_from_user, axis_or_none, find_axis, simplify
from vitreous.powder.files.headings import Headings, column_names, is_intensity, is_numbering, read_headings
from vitreous.powder.files.reading import ReadOptions

_MOST = 3  # columns whose order says what they are
_ERROR = re.compile(r"sig|σ|e\.?s\.?d|s\.?u\.?$|err|std|unc|dev|^d[yi]$", re.IGNORECASE)
_NOT_MEASURED = re.compile(r"calc|diff|res|back|bkg|bg|fit|model|weight", re.IGNORECASE)
_UNIT = re.compile(r"\s*[(\[].*$")
_LONGEST_LIST = 8  # names of columns in an error message


def choose_columns(header: Sequence[str], columns: int, options: ReadOptions, is_list: bool = False) -> Headings:
    """Headings of a table of a number of columns, from the lines above it and what the user states.

    `is_list` is for lists of lines, of which the first two columns count unless headings or the user say otherwise.
    """
    if options.columns:
        return _columns_from_user(header, columns, options, is_list)
    if options.axis is not None:
        return _columns_with_axis(header, columns, options, is_list)
    if columns > _MOST and not is_list:
        return _columns_by_name(column_names(header, columns), columns)
    return read_headings(header, columns)


def _columns_from_user(header: Sequence[str], columns: int, options: ReadOptions, is_list: bool) -> Headings:
    names = column_names(header, columns)
    chosen = [_find_column(word, names, columns) for word in options.columns]
    if len(set(chosen)) < len(chosen):
        raise InputError(f"columns: found one column twice in {_listed(map(str, options.columns))}")
    if is_list and len(chosen) > 2:
        raise InputError(f"columns: found {len(chosen)}, expected angle and intensity of a list of lines")
    if not is_list and len(chosen) < 2:
        raise InputError("columns: found 1, expected angle and intensity")
    x, y, sigma = (*chosen, None, None)[:3]
    assert x is not None
    name = names[x] if names else ""
    axis = find_axis(name) if options.axis is None else axis_from_user(options.axis, name)
    return Headings(names, x, y, axis, sigma, is_chosen=True)


def _find_column(word: str | int, names: Sequence[str], columns: int) -> int:
    """The index of a column by its number from 1 or by its name, with or without its unit."""
    if isinstance(word, int) or word.isdecimal():
        if not 1 <= int(word) <= columns:
            raise InputError(f"columns: found {word}, expected 1 to {columns}")
        return int(word) - 1
    if not names:
        raise InputError(f"columns: found {word!r}, but no headings; expected numbers from 1 to {columns}")
    keys = (str, str.casefold, simplify, lambda name: simplify(_UNIT.sub("", name)))
    for key in keys:
        matches = [index for index, name in enumerate(names) if key(name) == key(word) != ""]
        if matches:
            break
    if len(matches) != 1:
        count = "several" if matches else "no"
        raise InputError(f"columns: found {count} columns {word!r}, expected one of: {_listed(names)}")
    return matches[0]


def _columns_with_axis(header: Sequence[str], columns: int, options: ReadOptions, is_list: bool) -> Headings:
    """The column of the stated quantity, else the first that is no numbering, and the intensity by name or after it."""
    assert options.axis is not None
    names = column_names(header, columns)
    if columns > _MOST and not is_list and not names:
        raise InputError(_too_many(names, columns))
    stated = axis_from_user(options.axis)
    axes = [axis_or_none(name) for name in names]
    same = [index for index, axis in enumerate(axes) if axis is not None and axis.quantity == stated.quantity]
    free = [index for index in range(columns) if not names or not is_numbering(names[index])]
    x = next(iter((*same, *free)), 0)
    others = [index for index in free if index != x]
    if columns > _MOST and not is_list:
        headings = _columns_by_name(names, columns, x)
    else:
        y = next((index for index in others if names and is_intensity(names[index])), None)
        headings = Headings(names, x, next(iter(others), None) if y is None else y)
    return replace(headings, axis=axis_from_user(options.axis, names[x] if names else ""))


def _columns_by_name(names: Sequence[str], columns: int, x: int | None = None) -> Headings:
    """Angle, intensity and standard errors among more than three columns; `InputError` unless one can be meant."""
    axes = {index: axis for index, name in enumerate(names) if (axis := axis_or_none(name)) and not is_numbering(name)}
    angles = [index for index, axis in axes.items() if axis.quantity == TWO_THETA] or list(axes)
    angles = angles if x is None else [x]
    measured = [index for index, name in enumerate(names) if index not in (*axes, x) and _is_measured(name)]
    if len(angles) != 1 or len(measured) != 1:
        raise InputError(_too_many(names, columns))
    errors = [index for index, name in enumerate(names) if index not in (*angles, *measured) and _ERROR.search(name)]
    sigma = errors[0] if len(errors) == 1 else None
    return Headings(names, angles[0], measured[0], axes.get(angles[0]), sigma, is_chosen=True)


def _is_measured(name: str) -> bool:
    is_other = is_numbering(name) or _ERROR.search(name) or _NOT_MEASURED.search(name)
    return is_intensity(name) and not is_other


def _too_many(names: Sequence[str], columns: int) -> str:
    expected = "expected 2θ, intensity and optionally its standard error"
    words = f"; their names: {_listed(names)}" if names else ""
    return f"found {columns} columns, {expected}; choose them by number or name, e.g. --columns 1 2{words}"


def _listed(names: "Sequence[str] | map[str]") -> str:
    words = list(names)
    return ", ".join(words[:_LONGEST_LIST]) + ", …" * (len(words) > _LONGEST_LIST)
