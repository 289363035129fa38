"""`Results`: the rows that are finished, in a table and in journals, and how they are joined."""

import heapq
import os
from collections.abc import Container, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

from vitreous.core.atomic import clear_temporaries, make_folder
from vitreous.core.errors import InputError
from vitreous.core.lock import InUseError, lock_folder
from vitreous.powder.batch.journal import read_journal, read_row
from vitreous.powder.batch.row import Row
from vitreous.powder.batch.shard import WHOLE, Shard
from vitreous.powder.batch.summary import BatchSummary
from vitreous.powder.batch.table import read_table, write_table

JOURNAL = "results.jsonl"
"""File of the rows of a shard, in the folder of the shard in OUT.parts."""


class _Place(NamedTuple):
    """Where a row is."""

    journal: Path | None  # None: the table
    offset: int  # in the journal


_IN_TABLE = _Place(None, 0)
_Digests = Mapping[str, str | None]


class Results:
    """Where the row of each file is, by name and digest."""

    def __init__(self, out: Path, settings: str) -> None:
        self.out = out
        self.settings = settings
        self._places: dict[str, dict[str | None, _Place]] = {}

    @classmethod
    def read(cls, out: Path, settings: str) -> Self:
        """The rows of the table and of all journals; `InputError` if one was made with other settings."""
        results = cls(out, settings)
        if out.exists():
            for row in read_table(out):
                results._add(row, _IN_TABLE, out)
        for path in sorted(_parts(out).glob(f"*/{JOURNAL}")):
            for offset, row in read_journal(path):
                results._add(row, _Place(path, offset), path)
        return results

    def add(self, row: Row, journal: Path, offset: int) -> None:
        """Remember a row that was just written."""
        self._add(row, _Place(journal, offset), journal)

    def _add(self, row: Row, place: _Place, path: Path) -> None:
        if row["settings"] != self.settings:
            found = f"found results of other settings ({row['settings']}), expected {self.settings}"
            raise InputError(f"{path}: {found}; choose another --out, or delete {self.out} and {_parts(self.out)}")
        digests = self._places.setdefault(row["file"], {})
        digests.pop(row["sha256"], None)  # the last one is the newest
        digests[row["sha256"]] = place

    def has(self, name: str, *digest: str | None) -> bool:
        """Whether there is a row of a file, with this digest if one is given."""
        digests = self._places.get(name, {})
        return all(each in digests for each in digest) if digest else bool(digests)

    def rows(self, digests: _Digests, only: Container[str] | None = None) -> Iterator[Row]:
        """One row of each file by ascending name: the one with the digest that is stated, else the newest."""
        places: dict[str, _Place] = {}
        for name, known in self._places.items():
            if only is None or name in only:
                digest = digests.get(name)
                places[name] = known[digest] if digest in known else next(reversed(known.values()))
        in_table = {name for name, place in places.items() if place is _IN_TABLE}
        new = sorted(name for name in places if name not in in_table)
        table = (row for row in read_table(self.out) if row["file"] in in_table) if in_table else iter(())
        return heapq.merge(table, _from_journals(new, places), key=lambda row: row["file"])

    def join(self, digests: _Digests, summary: BatchSummary) -> None:
        """Write the table, count its rows, and delete the journals."""
        journals = list(_parts(self.out).glob(f"*/{JOURNAL}"))
        rows = summary.count(self.rows(digests))
        if any(path.stat().st_size for path in journals) or not self.out.exists():
            joined = _parts(self.out) / self.out.name  # a temporary one lies beside it, not among the patterns
            write_table(joined, rows)
            os.replace(joined, self.out)
        else:
            for _ in rows:
                pass
        for path in journals:
            path.unlink()


def _from_journals(names: list[str], places: Mapping[str, _Place]) -> Iterator[Row]:
    with ExitStack() as stack:
        files: dict[Path, BinaryIO] = {}
        for name in names:
            path, offset = places[name]
            assert path is not None
            if path not in files:
                files[path] = stack.enter_context(path.open("rb"))
            yield read_row(files[path], offset)


def _parts(out: Path) -> Path:
    return out.with_name(f"{out.name}.parts")


@contextmanager
def locked(out: Path, shard: Shard) -> Iterator[Path]:
    """The path of the shard's journal; inside the block no other process writes to it, or to any if it is the whole."""
    parts = _parts(out)
    make_folder(parts)
    own = parts / shard.folder
    folders = {own} | ({path.parent for path in parts.glob(f"*/{JOURNAL}")} if shard == WHOLE else set())
    try:
        with ExitStack() as stack:
            for folder in sorted(folders):
                stack.enter_context(lock_folder(folder))
            if shard == WHOLE:
                clear_temporaries(parts)
                with suppress(OSError):
                    (parts / out.name).unlink()  # joined by a process that was killed before it was renamed
            yield own / JOURNAL
    except InUseError:
        raise InputError(f"{out}: another process writes these results; wait for its end") from None
    finally:
        for folder in (*folders, parts):  # those without a journal
            with suppress(OSError):
                folder.rmdir()
