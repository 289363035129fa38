"""CSV and Parquet tables: columns with a numeric header hold the spectrum, the other columns hold targets."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.data.contents import CLASS, Column, Contents, join_names, rows_by_part, select_targets
from vitreous.data.source import Target
from vitreous.data.uploads import InputFile

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MISSING = ["", "nan", "NaN", "NA"]  # not `None` or `null`, which may be class names


@dataclass(frozen=True)
class Table:
    """A pandas frame and the headers as they are in the file; pandas renames repeated headers."""

    headers: list[str]
    frame: Any

    @property
    def names(self) -> list[str]:
        """Headers that are not numbers."""
        return [name for name in self.headers if name and not _NUMBER.fullmatch(name)]

    def column(self, name: str) -> Any:
        return self.frame.iloc[:, self.headers.index(name)]


def read_csv(path: InputFile) -> Table:
    """Read a table with one header line, separated by commas, semicolons or tabs."""
    pandas = load_extra("pandas")
    separator, headers = _scan(path)
    with path.open("rb") as file:
        frame = pandas.read_csv(
            file, sep=separator, header=0, index_col=False, encoding="utf-8-sig", skipinitialspace=True,
            keep_default_na=False, na_values=_MISSING, low_memory=False,
        )  # fmt: skip
    return Table(headers, frame)


def read_parquet(path: InputFile) -> Table:
    """Read a table whose column names are the headers."""
    load_extra("pyarrow")
    with path.open("rb") as file:
        frame = load_extra("pandas").read_parquet(file, engine="pyarrow")
    return Table([str(name).strip() for name in frame.columns], frame)


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
        for row in rows:
            if row and len(row) != len(headers):
                raise InputError(f"ragged: line {rows.line_num} has {len(row)} cells, the header has {len(headers)}")
    return separator, [name.strip() for name in headers]


def table_contents(table: Table, words: Sequence[str]) -> Contents:
    """Spectra of a table with the requested targets."""
    if not len(table.frame):
        raise InputError("found headers and no rows")
    points = [index for index, name in enumerate(table.headers) if _NUMBER.fullmatch(name)]
    if not points:
        raise InputError(
            f"found no column whose header is a number, only {join_names(table.headers)}; "
            "expected the points of the spectrum as headers, e.g. 1100, 1102, 1104"
        )
    for index in points:
        _check_numbers(table.headers[index], table.frame.iloc[:, index])
    with np.errstate(over="ignore"):  # overflow gives infinity, which the check of the spectra reports
        x = table.frame.iloc[:, points].to_numpy(dtype=np.float32, na_value=np.nan)
    x = np.array(x, order="C")  # pandas stores columns contiguously, training reads rows
    columns, parts = table_targets(table, words)
    return Contents(x, columns, parts, np.array([float(table.headers[index]) for index in points]))


def table_targets(table: Table, words: Sequence[str]) -> tuple[list[Column], dict[str, NDArray[np.intp]]]:
    """Target columns, and the parts from the column `split` if there is one."""
    targets = select_targets(words, table.names)
    columns = [_column(target, table.column(target.name)) for target in targets]
    if "split" not in table.names or "split" in (target.name for target in targets):
        return columns, {}
    values = table.column("split")
    return columns, rows_by_part(
        ["" if missing else str(value) for value, missing in zip(values, values.isna(), strict=True)]
    )


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
    labels = [None if missing else str(value) for value, missing in zip(values, values.isna(), strict=True)]
    return Column(target, np.array(labels, dtype=object), is_class=True)


def _check_numbers(header: str, values: Any) -> None:
    if not _is_number(values):
        row = next(iter(_non_numeric_rows(values)), 0)
        raise InputError(f"column {header}: found {values.iloc[row]!r} in row {row}, expected a number")


def _is_number(values: Any) -> bool:
    types = load_extra("pandas").api.types
    return bool(types.is_numeric_dtype(values.dtype) and not types.is_bool_dtype(values.dtype))


def _non_numeric_rows(values: Any) -> NDArray[np.intp]:
    """Rows of a text column whose value is not a number."""
    numbers = load_extra("pandas").to_numeric(values.astype(object).astype(str), errors="coerce")
    return np.flatnonzero((numbers.isna() & values.notna()).to_numpy())
