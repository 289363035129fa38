"""Build a database of phases from structures, in parallel; what is there already is kept.

A build first writes parts, of a few dozen items each, to the folder OUT.parts. One that is killed loses the items that
were under way, and the next one finds the parts. At the end all parts are joined in one file, in the order of the
sources, so that the same sources give the same bytes.
"""

import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from vitreous.core.atomic import clear_temporaries, write_atomically
from vitreous.core.errors import InputError
from vitreous.core.lock import InUseError, lock_folder
from vitreous.core.terminal import track
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.embedding import current_model
from vitreous.powder.identify.joining import Parts, join_parts
from vitreous.powder.identify.parts import PART, write_parts
from vitreous.powder.identify.read_entries import Failures
from vitreous.powder.identify.sources import Item, check_sources, read_items

_BATCH = 64  # items of a part
_BATCH_BYTES = 8 << 20  # of their content


@dataclass(frozen=True)
class BuildSummary:
    """What a build did.

    Args:
        added: phases that are new in the database.
        kept: phases that were in it before.
        joined: structures that were read and joined with another one of the same phase.
        failed: sources that could not be read, in this build or before, and the reasons.
    """

    added: int
    kept: int
    joined: int
    failed: Failures

    @property
    def count(self) -> int:
        """Phases in the database."""
        return self.added + self.kept


class _Order(NamedTuple):
    """Identifiers of items: all that are not in the database yet, by their place, and those that are in parts."""

    new: dict[bytes, int]
    ready: set[bytes]


def build_database(
    sources: Sequence[Path | str], out: Path | str, jobs: int = 0, progress: bool = True
) -> BuildSummary:
    """Build a database of phases, or add to one.

    Args:
        sources: folders, .zip and .tar.gz archives of CIFs, single CIFs, .jsonl.gz files of structures, .csv lists of
            cells.
        out: the database file. `OUT.failed.csv` beside it lists what could not be read.
        jobs: processes; 0 for one on each core.
        progress: show a progress bar, if stderr is a terminal.
    """
    paths, out = [Path(source) for source in sources], Path(out)
    if jobs < 0:
        raise InputError(f"jobs: found {jobs}, expected 1 or more, or 0 for all cores")
    check_sources(paths)
    _check_out(out, paths)
    folder = out.with_name(f"{out.name}.parts")
    with _locked(folder, out):
        clear_temporaries(folder)
        with suppress(OSError):
            (folder / out.name).unlink()  # joined by a build that was killed before it was renamed
        before = Database.open(out) if out.exists() else None
        known = set(before.item_ids()) if before is not None else set()
        order = _find_new(paths, known, _open_parts(folder, known), progress)
        pending = len(order.new.keys() - order.ready)
        try:
            write_parts(_batches(paths, order), pending, folder, jobs, progress)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"stopped; the same command continues with what is in {folder}") from None
        parts = sorted(_open_parts(folder, known), key=lambda part: (_place(part, order), part.path.name))
        summary = _join(Parts(before, parts), folder / out.name, out, progress)
        for part in parts:
            part.path.unlink()
    if not summary.count:
        source, reason = summary.failed[0]
        raise InputError(f"{out}: found no structure that can be read; {source}: {reason}")
    return summary


def _join(parts: Parts, joined: Path, out: Path, progress: bool) -> BuildSummary:
    """Join the database with the parts in a file `joined`, which becomes `out`, if there is anything new."""
    before, failures = parts.before, parts.failures()
    kept = before.count if before is not None else 0
    duplicates = 0
    if parts.structures and (parts.new or (before is not None and before.model != current_model())):
        duplicates = join_parts(parts, joined, progress)
        os.replace(joined, out)
    _write_failures(out.with_name(f"{out.name}.failed.csv"), failures)
    return BuildSummary(parts.structures - kept - duplicates, kept, duplicates, failures)


def _check_out(out: Path, sources: Sequence[Path]) -> None:
    if out.is_dir() or not out.name:
        raise InputError(f"{out}: is a folder, expected the name of a database file")
    if any(out.exists() and out.samefile(source) for source in sources):
        raise InputError(f"{out}: is one of the sources, expected another file for the database")


@contextmanager
def _locked(folder: Path, out: Path) -> Iterator[None]:
    try:
        with lock_folder(folder):
            yield
    except InUseError:
        raise InputError(f"{out}: another build writes this database; wait for its end") from None
    with suppress(OSError):  # it holds parts of another build, or is gone
        folder.rmdir()


def _open_parts(folder: Path, known: set[bytes]) -> list[Database]:
    """The parts; those that a build had joined when it was killed are removed."""
    parts = []
    for path in sorted(folder.glob(f"*{PART}")):
        part = Database.open(path, may_be_empty=True)
        if known.issuperset(part.item_ids()):
            path.unlink()
        else:
            parts.append(part)
    return parts


def _find_new(paths: Sequence[Path], known: set[bytes], parts: Sequence[Database], progress: bool) -> _Order:
    """Read all sources once to learn what is new, before anything is computed."""
    new: dict[bytes, int] = {}
    items = read_items(paths)
    for item in track(items, "reading the sources") if progress else items:
        if item.id not in known:
            new.setdefault(item.id, len(new))
    return _Order(new, {item for part in parts for item in part.item_ids()})


def _batches(paths: Sequence[Path], order: _Order) -> Iterator[list[Item]]:
    """Items to compute; none of the parts that are ready lies between two of a batch."""
    batch: list[Item] = []
    size, seen = 0, set(order.ready)
    for item in read_items(paths):
        digest = item.id
        if batch and (digest in order.ready or len(batch) == _BATCH or size > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        if digest in order.new and digest not in seen:
            seen.add(digest)
            batch.append(item)
            size += len(item.content)
    if batch:
        yield batch


def _place(part: Database, order: _Order) -> int:
    """The place of a part's first item in the sources; those of other sources, from a build before, come last."""
    return order.new.get(part.item_ids()[0], len(order.new))


def _write_failures(path: Path, failures: Failures) -> None:
    """A table of what could not be read; none if there is nothing to tell."""
    if not failures:
        path.unlink(missing_ok=True)
        return
    text = io.StringIO(newline="")
    csv.writer(text).writerows([("source", "reason"), *failures])
    write_atomically(path, text.getvalue().encode())
