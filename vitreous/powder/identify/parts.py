"""Read items into entries in several processes; each batch of items becomes one small database file, a part."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import torch

from vitreous.core.errors import InputError
from vitreous.core.terminal import track
from vitreous.powder.identify.database_file import Selection, entry_arrays, write_database
from vitreous.powder.identify.embedding import current_model, embed_entries
from vitreous.powder.identify.entry import Entry
from vitreous.powder.identify.read_entries import Failures, entries_of_item
from vitreous.powder.identify.sources import Item
from vitreous.powder.processes import map_unordered

PART = ".part"
"""Suffix of the file of a part."""
_ITEMS_PER_PROCESS = 200  # below that, a process is not worth its start


def write_parts(batches: Iterable[list[Item]], count: int, folder: Path, jobs: int, progress: bool) -> None:
    """Write a part for each batch of `count` items in all; `jobs` is the number of processes, 0 for all cores."""
    processes = min(jobs or os.cpu_count() or 1, count // _ITEMS_PER_PROCESS)
    sizes = _in_processes(batches, folder, processes) if processes > 1 else _in_this_process(batches, folder)
    steps = (None for size in sizes for _ in range(size))
    for _ in track(steps, "computing patterns", count) if progress else steps:
        pass


def write_part(batch: list[Item], folder: Path) -> int:
    """Write the part of one batch; the number of its items."""
    entries: list[Entry] = []
    failures: Failures = []
    for item in batch:
        read, failed = entries_of_item(item)
        entries += read
        failures += failed
    embedding = embed_entries([entry.lines for entry in entries])
    arrays = entry_arrays(entries, embedding)
    items = np.frombuffer(b"".join(item.id for item in batch), np.uint8)
    rows = np.arange(len(entries))
    write_database(folder / f"{batch[0].id.hex()}{PART}", [Selection(arrays, rows)], items, failures, current_model())
    return len(batch)


def _in_this_process(batches: Iterable[list[Item]], folder: Path) -> Iterator[int]:
    with one_thread():
        for batch in batches:
            yield write_part(batch, folder)


def _in_processes(batches: Iterable[list[Item]], folder: Path, processes: int) -> Iterator[int]:
    try:
        yield from map_unordered(partial(write_part, folder=folder), batches, processes)
    except BrokenProcessPool:
        message = "a process ended unexpectedly, perhaps for lack of memory; the same command continues"
        raise InputError(f"{folder}: {message}, with --jobs 1 in one process") from None


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside the block torch computes in one thread: the arrays are small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
