"""Index many patterns; what is finished stays finished, however the process ends.

Each row is appended to a journal in the folder OUT.parts as soon as it is computed. At the end the table OUT is written
from its former rows and the journals. A job of an array (a shard) writes a journal only; the command without a shard
computes what is missing and joins all journals. A file is finished if there is a row with its name and its digest.
"""

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path

from vitreous.core.errors import InputError
from vitreous.powder.batch.journal import Journal
from vitreous.powder.batch.results import Results, locked
from vitreous.powder.batch.row import Row, Task, file_digest, index_row, settings_fingerprint
from vitreous.powder.batch.shard import WHOLE, Shard
from vitreous.powder.batch.summary import BatchSummary
from vitreous.powder.batch.table import check_table
from vitreous.powder.batch.workers import index_in_processes
from vitreous.powder.index_options import DEFAULT_OPTIONS, IndexOptions
from vitreous.powder.pipeline import single_thread
from vitreous.powder.processes import core_count, end_on_sigterm

Progress = Callable[[Iterable[Row], int], Generator[Row, None, None]]

_FILES_PER_PROCESS = 4  # fewer files are not worth the start of a process


def index_batch(
    files: Sequence[Path],
    out: Path,
    options: IndexOptions = DEFAULT_OPTIONS,
    shard: Shard = WHOLE,
    jobs: int = 0,
    progress: Progress | None = None,
) -> BatchSummary:
    """Index files and write a table with a row for each; the same call continues after an interruption.

    Args:
        files: patterns; the table itself is left out.
        out: the table: .csv, .jsonl or .parquet.
        shard: the part of the files to index; all parts are joined by a call without it.
        jobs: processes; 0 for one on each core.
        progress: wraps the iterator over rows that are computed, with their number.
    """
    check_table(out)
    if jobs < 0:
        raise InputError(f"jobs: found {jobs}, expected 1 or more, or 0 for all cores")
    settings, full = settings_fingerprint(options), out.suffix.lower() == ".jsonl"
    names = {_name(path, out): path for path in files if not _is_same(path, out)}
    chosen = {name: names[name] for name in shard.select(sorted(names))}
    with locked(out, shard) as journal_path, end_on_sigterm():
        results = Results.read(out, settings)
        pending, digests = _find_pending(chosen, results)
        tasks = [Task(chosen[name], name, options, settings, full) for name in pending]
        rows = _index(tasks, jobs)
        shown = rows if progress is None else progress(rows, len(tasks))
        with Journal(journal_path) as journal, closing(rows), closing(shown):  # an interruption ends the processes
            finished = 0
            try:
                for row in shown:
                    results.add(row, journal_path, journal.append(row))
                    digests[row["file"]] = row["sha256"]
                    finished += 1
            except KeyboardInterrupt:
                done = len(chosen) - len(tasks) + finished
                message = f"stopped; {done} of {len(chosen)} patterns are finished, the same command continues"
                raise KeyboardInterrupt(message) from None
        summary = BatchSummary(finished, len(chosen) - len(tasks))
        if shard == WHOLE:
            results.join(digests, summary)
        else:
            for _ in summary.count(results.rows(digests, only=digests.keys())):
                pass
    return summary


def _find_pending(files: dict[str, Path], results: Results) -> tuple[list[str], dict[str, str | None]]:
    """The names of files without a row, and the digests of those that have one by name."""
    pending: list[str] = []
    digests: dict[str, str | None] = {}
    for name, path in files.items():
        digest = file_digest(path) or None if results.has(name) else None
        if results.has(name, digest):
            digests[name] = digest
        else:
            pending.append(name)
    return pending, digests


def _index(tasks: Sequence[Task], jobs: int) -> Generator[Row, None, None]:
    """The rows, each as soon as it is ready."""
    processes = min(jobs or core_count(), len(tasks) // _FILES_PER_PROCESS)
    if processes > 1:
        yield from index_in_processes(tasks, processes)
    else:
        with single_thread():
            yield from map(index_row, tasks)


def _name(path: Path, out: Path) -> str:
    """A file's path relative to the folder of the table: it is the same from any working directory."""
    full = os.path.abspath(path)
    with suppress(ValueError):  # another drive
        full = os.path.relpath(full, os.path.abspath(out.parent))
    return Path(full).as_posix().encode(errors="backslashreplace").decode()


def _is_same(path: Path, out: Path) -> bool:
    return os.path.abspath(path) == os.path.abspath(out)
