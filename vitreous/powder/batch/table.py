"""Tables of rows as .csv, .jsonl and .parquet, read and written row by row."""

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from vitreous.core.atomic import open_atomically
from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.core.json_text import parse_json
from vitreous.powder.batch.row import COLUMNS, Row

_ROWS = 4096  # of a row group of Parquet


def check_table(path: Path) -> None:
    """Raise `InputError` if no table can be written to a file of this name."""
    if path.suffix.lower() not in _FORMATS:
        raise InputError(f"out: found {path.name!r}, expected a name that ends with {', '.join(_FORMATS)}")
    if path.is_dir():
        raise InputError(f"{path}: is a folder, expected the name of a table")
    if path.suffix.lower() == ".parquet":
        load_extra("pyarrow.parquet")


def write_table(path: Path, rows: Iterable[Row]) -> None:
    """Write all rows, or leave the file as it was."""
    with open_atomically(path) as file:
        _FORMATS[path.suffix.lower()][1](file, rows)


def read_table(path: Path) -> Iterator[Row]:
    """The rows of a table that `write_table` wrote."""
    try:
        for row in _FORMATS[path.suffix.lower()][0](path):
            if not isinstance(row, dict) or not COLUMNS.keys() <= row.keys():
                raise ValueError("columns are missing")
            yield row
    except InputError:
        raise
    except OSError as error:
        if error.strerror is not None:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
        raise _foreign(path) from None
    except (ValueError, KeyError, TypeError, csv.Error):  # those of pyarrow are ValueErrors
        raise _foreign(path) from None


def _foreign(path: Path) -> InputError:
    return InputError(f"{path}: is no table of vitreous index; choose another name, or delete it")


def _read_csv(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        if reader.fieldnames != list(COLUMNS):
            raise ValueError("other columns")
        for texts in reader:
            yield {name: kind(texts[name]) if texts[name] != "" else None for name, kind in COLUMNS.items()}


def _write_csv(file: BinaryIO, rows: Iterable[Row]) -> None:
    text = io.TextIOWrapper(file, "utf-8", newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    text.flush()
    text.detach()


def _read_jsonl(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        for line in file:
            try:
                yield parse_json(line)
            except InputError:
                raise ValueError("not JSON") from None


def _write_jsonl(file: BinaryIO, rows: Iterable[Row]) -> None:
    for row in rows:
        file.write(json.dumps(row, ensure_ascii=False).encode(errors="backslashreplace") + b"\n")


def _read_parquet(path: Path) -> Iterator[Row]:
    parquet = load_extra("pyarrow.parquet")
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS):
            yield from batch.to_pylist()


def _write_parquet(file: BinaryIO, rows: Iterable[Row]) -> None:
    arrow, parquet = load_extra("pyarrow"), load_extra("pyarrow.parquet")
    types: dict[type, Any] = {str: arrow.string(), float: arrow.float64(), int: arrow.int64()}
    schema = arrow.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
    source = iter(rows)
    with parquet.ParquetWriter(file, schema) as writer:
        while group := list(itertools.islice(source, _ROWS)):
            writer.write_table(arrow.Table.from_pylist(group, schema))


_FORMATS: dict[str, tuple[Callable[[Path], Iterator[Row]], Callable[[BinaryIO, Iterable[Row]], None]]] = {
    ".csv": (_read_csv, _write_csv),
    ".jsonl": (_read_jsonl, _write_jsonl),
    ".parquet": (_read_parquet, _write_parquet),
}
