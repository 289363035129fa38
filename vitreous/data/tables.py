"""CSV and Parquet: a column whose header is a number is a point of the spectrum, the others are what is known of it."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.data.contents import CLASS, Column, Contents, choose, listed, part_rows
from vitreous.data.extras import load_extra
from vitreous.data.held import File
from vitreous.data.source import Target
from vitreous.errors import InputError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MISSING = ["", "nan", "NaN", "NA"]  # a class may well be called `None` or `null`


@dataclass(frozen=True)
class Table:
    """A pandas frame and its headers as the file spells them: pandas would rename those that repeat."""

    headers: list[str]
    frame: Any

    @property
    def names(self) -> list[str]:
        """Headers that are no number."""
        return [name for name in self.headers if name and not _NUMBER.fullmatch(name)]

    def column(self, name: str) -> Any:
        return self.frame.iloc[:, self.headers.index(name)]


def read_csv(path: File) -> Table:
    """A table with one line of headers, separated by commas, semicolons or tabs."""
    pandas = load_extra("pandas")
    separator, headers = _scan(path)
    with path.open("rb") as file:
        frame = pandas.read_csv(
            file, sep=separator, header=0, index_col=False, encoding="utf-8-sig", skipinitialspace=True,
            keep_default_na=False, na_values=_MISSING, low_memory=False,
        )  # fmt: skip
    return Table(headers, frame)


def read_parquet(path: File) -> Table:
    """A table whose column names are the headers."""
    load_extra("pyarrow")
    with path.open("rb") as file:
        frame = load_extra("pandas").read_parquet(file, engine="pyarrow")
    return Table([str(name).strip() for name in frame.columns], frame)


def _scan(path: File) -> tuple[str, list[str]]:
    """Separator and headers; every row is counted here, for pandas fills short ones up in silence."""
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
    """The spectra of a table, with the targets asked for."""
    if not len(table.frame):
        raise InputError("found headers and no rows")
    found = [index for index, name in enumerate(table.headers) if _NUMBER.fullmatch(name)]
    if not found:
        raise InputError(
            f"found no column whose header is a number, only {listed(table.headers)}; "
            "expected the points of the spectrum as headers, e.g. 1100, 1102, 1104"
        )
    for index in found:
        _check_numbers(table.headers[index], table.frame.iloc[:, index])
    with np.errstate(over="ignore"):  # becomes infinite, which the check of the spectra names
        x = table.frame.iloc[:, found].to_numpy(dtype=np.float32, na_value=np.nan)
    x = np.array(x, order="C")  # pandas keeps a column in one piece, training reads rows
    columns, parts = known_of(table, words)
    return Contents(x, columns, parts, np.array([float(table.headers[index]) for index in found]))


def known_of(table: Table, words: Sequence[str]) -> tuple[list[Column], dict[str, NDArray[np.intp]]]:
    """Target columns, and the parts of the column `split` where there is one."""
    targets = choose(words, table.names)
    columns = [_column(target, table.column(target.name)) for target in targets]
    if "split" not in table.names or "split" in (target.name for target in targets):
        return columns, {}
    values = table.column("split")
    return columns, part_rows(["" if gone else str(value) for value, gone in zip(values, values.isna(), strict=True)])


def _column(target: Target, values: Any) -> Column:
    """A number is a quantity unless it is said to be a class; everything else is a class."""
    if _is_number(values):
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return Column(target, numbers, is_class=target.unit == CLASS)
    if target.unit != CLASS:
        stray = _strays(values)
        if 0 < len(stray) < values.notna().sum() / 2:
            raise InputError(
                f"target {target.name!r}: found {values.iloc[stray[0]]!r} in row {stray[0]} among numbers; "
                f"expected numbers, or {target.name}:{CLASS} for labels"
            )
    labels = [None if gone else str(value) for value, gone in zip(values, values.isna(), strict=True)]
    return Column(target, np.array(labels, dtype=object), is_class=True)


def _check_numbers(header: str, values: Any) -> None:
    if not _is_number(values):
        row = next(iter(_strays(values)), 0)
        raise InputError(f"column {header}: found {values.iloc[row]!r} in row {row}, expected a number")


def _is_number(values: Any) -> bool:
    types = load_extra("pandas").api.types
    return bool(types.is_numeric_dtype(values.dtype) and not types.is_bool_dtype(values.dtype))


def _strays(values: Any) -> NDArray[np.intp]:
    """Rows of a text column that hold something other than a number."""
    numbers = load_extra("pandas").to_numeric(values.astype(object).astype(str), errors="coerce")
    return np.flatnonzero((numbers.isna() & values.notna()).to_numpy())
