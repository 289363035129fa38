"""What a spectra file holds before it becomes a `Source`, and its target columns as class numbers or quantities."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.data.source import PARTS, Target
from vitreous.errors import InputError

CLASS = "class"  # where a unit could stand, says that numbers are class labels: `kind:class`


@dataclass(frozen=True)
class Column:
    """Values `(n,)` of one target: labels if `is_class`, else a quantity."""

    target: Target
    values: NDArray[Any]
    is_class: bool


@dataclass(frozen=True)
class Contents:
    """Spectra `(n, points)` or `(n, channels, points)`, where their points lie, and what belongs to them."""

    x: NDArray[Any]
    columns: Sequence[Column] = ()
    parts: Mapping[str, NDArray[np.intp]] = field(default_factory=dict)
    points: NDArray[Any] | None = None
    axis: str = ""
    unit: str = ""


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names for a message, the tail of a long list left out."""
    words = list(names)
    return ", ".join(words[:most]) + (f", … ({len(words)} in all)" if len(words) > most else "") or "none"


def parse_target(word: str, names: Iterable[str] = ()) -> Target:
    """`assay` or `assay:mg`; a colon that belongs to one of the names stays there."""
    name, colon, unit = word.rpartition(":")
    return Target(name, unit) if colon and word not in names else Target(word)


def choose(words: Sequence[str], names: Sequence[str]) -> list[Target]:
    """The targets asked for, each found once among the names."""
    targets = [parse_target(word, names) for word in words]
    for target in targets:
        if target.name not in names:
            raise InputError(f"no target {target.name!r}; found: {listed(names)}")
        if names.count(target.name) > 1:
            raise InputError(f"found {names.count(target.name)} columns named {target.name!r}, expected one")
        if sum(target.name == other.name for other in targets) > 1:
            raise InputError(f"target {target.name!r} is named twice")
    return targets


def part_rows(words: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """Rows of each part from a column of `train`, `validation` (or `val`) and `test`."""
    parts = np.array([{"val": "validation"}.get(word.strip().lower(), word.strip().lower()) for word in words])
    bad = np.flatnonzero(~np.isin(parts, PARTS))
    if len(bad):
        raise InputError(f"column 'split': found {words[bad[0]]!r} in row {bad[0]}, expected {', '.join(PARTS)}")
    return {part: np.flatnonzero(parts == part) for part in PARTS if part in parts}


def encode(columns: Sequence[Column]) -> tuple[NDArray[Any] | None, tuple[str, ...], tuple[Target, ...]]:
    """`y`, class names and quantities: class numbers `(n,)`, or float64 `(n, targets)`."""
    if not columns:
        return None, (), ()
    labels = [column for column in columns if column.is_class]
    if labels and len(columns) > 1:
        raise InputError(
            f"target {labels[0].target.name!r} is a class label, one of {len(columns)} targets; "
            "expected one class label or any number of quantities"
        )
    if labels:
        y, classes = _number(labels[0])
        return y, classes, ()
    y = np.stack([column.values.astype(np.float64) for column in columns], axis=1)
    return y, (), tuple(column.target for column in columns)


def with_gaps(column: Column) -> NDArray[Any]:
    """Its words, empty where there is none, or its numbers, NaN where there is none."""
    there = ~_missing(column)
    if not column.is_class:
        return np.where(there, column.values.astype(np.float64), np.nan)
    place = np.zeros(len(there), dtype=np.intp)
    y, classes = _number(Column(column.target, column.values[there], is_class=True))
    place[there] = y + 1
    return np.array(["", *classes])[place]


def _missing(column: Column) -> NDArray[np.bool_]:
    if column.values.dtype.kind == "f":
        return np.asarray(~np.isfinite(column.values), dtype=bool)
    return np.array([value is None or not str(value).strip() for value in column.values], dtype=bool)


def _number(column: Column) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class numbers in the order of the names, or of the values where they are numbers."""
    values, missing = column.values, _missing(column)
    if missing.any():
        row = np.flatnonzero(missing)[0]
        raise InputError(f"target {column.target.name!r} has {missing.sum()} missing label(s), the first in row {row}")
    if values.dtype.kind == "f" and np.all(values == np.round(values)):
        values = values.astype(np.int64)
    elif values.dtype.kind == "O":
        values = values.astype(str)
    names, y = np.unique(values, return_inverse=True)
    return y.astype(np.int64), tuple(str(name) for name in names)
