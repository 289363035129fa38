"""Target columns of spectra files, and CSV and Parquet tables.

In a table, the columns with a numeric header hold the spectrum and the other columns hold targets.
"""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.core.memory import check_memory
from vitreous.data.source import PARTS, Target
from vitreous.data.uploads import InputFile

CLASS = "class"
"""In place of a unit, marks numbers as class labels: `kind:class`."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}  # bytes of a value, by its type in Parquet; 8 for the others
_COPIES = 4  # of the values while a table is read, at most: those of the parser, of pandas and our own
_MISSING = ["", "nan", "NaN", "NA"]  # not `None` or `null`, which may be class names


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
        return np.array([not str(value).strip() for value in self.values], dtype=bool)

    def class_numbers(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Class numbers and class names, sorted as numbers if all labels are numbers, else alphabetically."""
        values, missing, name = self.values, self.missing(), self.target.name
        if missing.any():
            count, row = missing.sum(), missing.argmax()
            raise InputError(f"target {name!r} has {count} missing label(s), the first in row {row}")
        if values.dtype.kind == "f" and np.all(values == np.round(values)):
            values = values.astype(np.int64)
        elif values.dtype.kind == "O":
            check_memory(4 * len(values) * max(map(len, values), default=0), f"target {name!r}")
            values = values.astype(str)  # pads all labels to the longest
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


def parse_target(word: str, names: Iterable[str]) -> Target:
    """Parse `assay` or `assay:mg`; a colon that is part of one of the names is no separator."""
    name, colon, unit = word.rpartition(":")
    return Target(name, unit) if colon and word not in names else Target(word)


def find_targets(words: Sequence[str], names: Sequence[str]) -> list[Target]:
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


def encode_targets(columns: Sequence[Column]) -> tuple[NDArray[Any] | None, tuple[str, ...], tuple[Target, ...]]:
    """`y`, class names and quantities: class numbers `(n,)`, or float64 `(n, targets)`."""
    if not columns:
        return None, (), ()
    label = next((column for column in columns if column.is_class), None)
    if label is None:
        y = np.stack([column.values.astype(np.float64) for column in columns], axis=1)
        return y, (), tuple(column.target for column in columns)
    if len(columns) > 1:
        raise InputError(
            f"target {label.target.name!r} is a class label, one of {len(columns)} targets; "
            "expected one class label or any number of quantities"
        )
    return *label.class_numbers(), ()


def read_csv(path: InputFile) -> Any:
    """A pandas frame from a table with one header line, separated by commas, semicolons or tabs."""
    separator, headers = _scan(path)
    with path.open("rb") as file:
        frame = load_extra("pandas").read_csv(
            file, sep=separator, header=0, index_col=False, encoding="utf-8-sig", skipinitialspace=True,
            keep_default_na=False, na_values=_MISSING, low_memory=False,
        )  # fmt: skip
    frame.columns = headers  # pandas renames repeated headers
    return frame


def read_parquet(path: InputFile) -> Any:
    """A pandas frame whose column names are the headers."""
    load_extra("pyarrow")
    with path.open("rb") as file:
        metadata = load_extra("pyarrow.parquet").read_metadata(file)
        check_memory(_COPIES * _decoded_size(metadata), "table")
        columns = (metadata.schema.column(index) for index in range(metadata.num_columns))
        texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
        file.seek(0)
        # repeated texts stay references to a dictionary, which may be much smaller
        frame = load_extra("pandas").read_parquet(file, engine="pyarrow", read_dictionary=texts)
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame


def _decoded_size(metadata: Any) -> int:
    """Bytes of the values of a Parquet file, which stores repeated ones as a count."""
    schemas = [metadata.schema.column(index) for index in range(metadata.num_columns)]
    widths = [max(schema.length or 0, _WIDTHS.get(schema.physical_type, 8)) for schema in schemas]
    total = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for index, width in enumerate(widths):
            column = group.column(index)
            total += max(column.num_values * width, column.total_uncompressed_size)
    return total


def _scan(path: InputFile) -> tuple[str, list[str]]:
    """Separator and headers. Also checks the length of every row, because pandas fills short rows silently."""
    with path.open("r", encoding="utf-8-sig", newline="") as file:
        first = next((line for line in file if line.strip()), "")
        if not first:
            raise InputError("empty file")
        separator = max(",;\t", key=first.count)
        file.seek(0)
        rows = csv.reader(file, delimiter=separator, skipinitialspace=True)
        headers = next(row for row in rows if row)
        count = 0
        for row in rows:
            count += 1
            if row and len(row) != len(headers):
                raise InputError(f"ragged: line {rows.line_num} has {len(row)} cells, the header has {len(headers)}")
    check_memory(_COPIES * 8 * count * len(headers), "table")
    return separator, [name.strip() for name in headers]


def table_contents(frame: Any, words: Sequence[str]) -> Contents:
    """Spectra of a table with the requested targets."""
    if not len(frame):
        raise InputError("found headers and no rows")
    points = [index for index, name in enumerate(frame.columns) if _NUMBER.fullmatch(name)]
    if not points:
        raise InputError(
            f"found no column whose header is a number, only {join_names(frame.columns)}; "
            "expected the points of the spectrum as headers, e.g. 1100, 1102, 1104"
        )
    for index in points:
        values = frame.iloc[:, index]
        if not _is_number(values):
            row = next(iter(_non_numeric_rows(values)), 0)
            raise InputError(f"column {values.name}: found {values.iloc[row]!r} in row {row}, expected a number")
    with np.errstate(over="ignore"):  # overflow gives infinity, which the check of the spectra reports
        x = frame.iloc[:, points].to_numpy(dtype=np.float32, na_value=np.nan)
    x = np.array(x, order="C")  # pandas stores columns contiguously, training reads rows
    return Contents(x, *read_targets(frame, words), np.array([float(frame.columns[index]) for index in points]))


def read_targets(frame: Any, words: Sequence[str]) -> tuple[list[Column], dict[str, NDArray[np.intp]]]:
    """Target columns, and the rows of each part from a column `split` of the words of `PARTS` (or `val`)."""
    names = [name for name in frame.columns if name and not _NUMBER.fullmatch(name)]
    targets = find_targets(words, names)
    columns = [_column(target, frame[target.name]) for target in targets]
    if "split" not in names or "split" in (target.name for target in targets):
        return columns, {}
    labels = _labels(frame.iloc[:, list(frame.columns).index("split")])  # the first, if there are several
    parts = np.array([{"val": "validation"}.get(label.strip().lower(), label.strip().lower()) for label in labels])
    unknown = np.flatnonzero(~np.isin(parts, PARTS))
    if len(unknown):
        row = unknown[0]
        raise InputError(f"column 'split': found {labels[row]!r} in row {row}, expected {', '.join(PARTS)}")
    return columns, {part: np.flatnonzero(parts == part) for part in PARTS if part in parts}


def _column(target: Target, values: Any) -> Column:
    """Numbers are a quantity unless the target is marked as a class; anything else is a class."""
    if _is_number(values):
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return Column(target, numbers, is_class=target.unit == CLASS)
    if target.unit != CLASS:
        text_rows = _non_numeric_rows(values)
        if 0 < len(text_rows) < values.notna().sum() / 2:
            raise InputError(
                f"target {target.name!r}: found {values.iloc[text_rows[0]]!r} in row {text_rows[0]} among numbers; "
                f"expected numbers, or {target.name}:{CLASS} for labels"
            )
    return Column(target, np.array(_labels(values), dtype=object), is_class=True)


def _labels(values: Any) -> list[str]:
    """Values as text, empty where one is missing."""
    return ["" if missing else str(value) for value, missing in zip(values, values.isna(), strict=True)]


def _is_number(values: Any) -> bool:
    types = load_extra("pandas").api.types
    return bool(types.is_numeric_dtype(values.dtype) and not types.is_bool_dtype(values.dtype))


def _non_numeric_rows(values: Any) -> NDArray[np.intp]:
    """Rows of a text column whose value is not a number."""
    numbers = load_extra("pandas").to_numeric(values.astype(object).astype(str), errors="coerce")
    return np.flatnonzero((numbers.isna() & values.notna()).to_numpy())
