"""Contents of a spectra file before they become a `Source`: spectra, target columns and predefined parts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.data.source import PARTS, Target

CLASS = "class"
"""In place of a unit, marks numbers as class labels: `kind:class`."""


@dataclass(frozen=True)
class Column:
    """Values `(n,)` of one target: class labels if `is_class`, else a quantity."""

    target: Target
    values: NDArray[Any]
    is_class: bool

    def missing(self) -> NDArray[np.bool_]:
        """True in rows without a value."""
        if self.values.dtype.kind == "f":
            return np.asarray(~np.isfinite(self.values), dtype=bool)
        return np.array([value is None or not str(value).strip() for value in self.values], dtype=bool)

    def class_numbers(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Class numbers and class names, sorted as numbers if all labels are numbers, else alphabetically."""
        values, missing = self.values, self.missing()
        if missing.any():
            row = np.flatnonzero(missing)[0]
            raise InputError(
                f"target {self.target.name!r} has {missing.sum()} missing label(s), the first in row {row}"
            )
        if values.dtype.kind == "f" and np.all(values == np.round(values)):
            values = values.astype(np.int64)
        elif values.dtype.kind == "O":
            values = values.astype(str)
        names, numbers = np.unique(values, return_inverse=True)
        return numbers.astype(np.int64), tuple(str(name) for name in names)

    def filled(self) -> NDArray[Any]:
        """Labels with empty strings, or numbers with NaN, in rows without a value."""
        present = ~self.missing()
        if not self.is_class:
            return np.where(present, self.values.astype(np.float64), np.nan)
        index = np.zeros(len(present), dtype=np.intp)  # 0 is the empty string
        numbers, classes = Column(self.target, self.values[present], is_class=True).class_numbers()
        index[present] = numbers + 1
        return np.array(["", *classes])[index]


@dataclass(frozen=True)
class Contents:
    """Spectra `(n, points)` or `(n, channels, points)`, the values of their axis, and their targets."""

    x: NDArray[Any]
    columns: Sequence[Column] = ()
    parts: Mapping[str, NDArray[np.intp]] = field(default_factory=dict)
    points: NDArray[Any] | None = None
    axis: str = ""
    unit: str = ""


def join_names(names: Iterable[str], most: int = 12) -> str:
    """Names separated by commas for a message; a long list is shortened."""
    words = list(names)
    return ", ".join(words[:most]) + (f", … ({len(words)} in all)" if len(words) > most else "") or "none"


def parse_target(word: str, names: Iterable[str] = ()) -> Target:
    """Parse `assay` or `assay:mg`; a colon that is part of one of the names is no separator."""
    name, colon, unit = word.rpartition(":")
    return Target(name, unit) if colon and word not in names else Target(word)


def select_targets(words: Sequence[str], names: Sequence[str]) -> list[Target]:
    """Parse the requested targets; each must occur exactly once among the names."""
    targets = [parse_target(word, names) for word in words]
    for target in targets:
        if target.name not in names:
            raise InputError(f"no target {target.name!r}; found: {join_names(names)}")
        if names.count(target.name) > 1:
            raise InputError(f"found {names.count(target.name)} columns named {target.name!r}, expected one")
        if sum(target.name == other.name for other in targets) > 1:
            raise InputError(f"target {target.name!r} is named twice")
    return targets


def rows_by_part(words: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """Rows of each part from a column of the words `train`, `validation` (or `val`) and `test`."""
    parts = np.array([{"val": "validation"}.get(word.strip().lower(), word.strip().lower()) for word in words])
    unknown = np.flatnonzero(~np.isin(parts, PARTS))
    if len(unknown):
        row = unknown[0]
        raise InputError(f"column 'split': found {words[row]!r} in row {row}, expected {', '.join(PARTS)}")
    return {part: np.flatnonzero(parts == part) for part in PARTS if part in parts}


def encode_targets(columns: Sequence[Column]) -> tuple[NDArray[Any] | None, tuple[str, ...], tuple[Target, ...]]:
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
        y, classes = labels[0].class_numbers()
        return y, classes, ()
    y = np.stack([column.values.astype(np.float64) for column in columns], axis=1)
    return y, (), tuple(column.target for column in columns)
