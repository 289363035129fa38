"""A journal: rows as JSON Lines that are appended one by one, each on the disk before the next."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Self

from vitreous.core.errors import InputError
from vitreous.core.json_text import parse_json
from vitreous.powder.batch.row import COLUMNS, Row


class Journal:
    """A journal that is open for writing; a line that a killed process left unfinished is removed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("a+b", buffering=0)
            self._file.truncate(_whole_lines(self._file))
            self._file.seek(0, os.SEEK_END)
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror})") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, row: Row) -> int:
        """Write a row to the disk; the offset of its line. On a disk that is full the journal stays as it was."""
        offset = self._file.tell()
        line = memoryview(json.dumps(row, ensure_ascii=False).encode(errors="backslashreplace") + b"\n")
        try:
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except BaseException as error:
            with suppress(OSError):
                self._file.truncate(offset)
            if not isinstance(error, OSError):
                raise
            message = "the same command continues with the patterns that are finished"
            raise InputError(f"{self.path}: cannot be written ({error.strerror}); {message}") from None
        return offset


def read_journal(path: Path) -> Iterator[tuple[int, Row]]:
    """Offsets and rows; a last line that is not finished is left out."""
    try:
        with path.open("rb") as file:
            offset = 0
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield offset, _parse(line, f"{path}: line {number}")
                offset += len(line)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def read_row(file: BinaryIO, offset: int) -> Row:
    """The row at an offset of an open journal."""
    file.seek(offset)
    return _parse(file.readline(), f"{file.name}: row at {offset}")


def _parse(line: bytes, place: str) -> Row:
    try:
        row: Any = parse_json(line)
    except InputError as error:
        raise InputError(f"{place} {error}") from None
    if not isinstance(row, dict) or not COLUMNS.keys() <= row.keys():
        raise InputError(f"{place} is damaged, expected a row of vitreous index")
    return row


def _whole_lines(file: BinaryIO) -> int:
    """The number of bytes up to the end of the last line."""
    size = end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - (1 << 16))
        file.seek(start)
        if (last := file.read(end - start).rfind(b"\n")) >= 0:
            return start + last + 1
        end = start
    return 0 if size else size
