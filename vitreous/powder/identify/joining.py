"""Join a database with parts: duplicates become one entry, and all entries have embeddings of the same model."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitreous.core.terminal import track
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.database_file import Selection, write_database
from vitreous.powder.identify.duplicates import join_duplicates
from vitreous.powder.identify.embedding import current_model, embed_entries
from vitreous.powder.identify.read_entries import Failures

_BATCH = 256  # entries to embed at once


class Parts(NamedTuple):
    """A database, if there is one, and the parts that are new, in the order of their entries."""

    before: Database | None
    new: Sequence[Database]

    @property
    def tables(self) -> list[Database]:
        return [table for table in (self.before, *self.new) if table is not None]

    @property
    def structures(self) -> int:
        """Their number."""
        return sum(table.count for table in self.tables)

    def failures(self) -> Failures:
        """Sources that could not be read, and the reasons."""
        reasons: dict[str, str] = {}
        for table in self.tables:
            if reasons:  # a file that was damaged may have been replaced
                for i in range(table.count):
                    reasons.pop(table.source(i), None)
            reasons |= dict(json.loads(table.arrays["failures"].tobytes()))
        return list(reasons.items())


def join_parts(parts: Parts, path: Path, progress: bool) -> int:
    """Write the joined database; the number of structures that were duplicates of others."""
    tables = parts.tables
    table = np.repeat(np.arange(len(tables)), [each.count for each in tables])
    row = np.concatenate([np.empty(0, np.int64), *(np.arange(each.count) for each in tables)])
    owner = join_duplicates(tables, table, row, parts.before.count if parts.before is not None else 0)
    chosen = np.flatnonzero(owner == np.arange(len(owner)))
    selections = [Selection(each.arrays, row[chosen[table[chosen] == k]]) for k, each in enumerate(tables)]
    structures = np.concatenate([np.empty(0, np.int32), *(each.sources for each in tables)])
    sources = np.bincount(owner, structures, len(owner))[chosen]
    embedding = _embeddings(tables, selections, progress)
    items = np.concatenate([each.arrays["item"] for each in tables])
    replaced: dict[str, NDArray[Any]] = {"sources": sources, "embedding": embedding}
    write_database(path, selections, items, parts.failures(), current_model(), replaced)
    return len(owner) - len(chosen)


def _embeddings(tables: Sequence[Database], selections: Sequence[Selection], progress: bool) -> NDArray[np.float16]:
    """Of all selected entries `(n, d)`; those of another model are computed again."""
    model = current_model()
    old = [
        (k, rows)
        for k, (table, selection) in enumerate(zip(tables, selections, strict=True))
        if table.model != model
        for rows in np.array_split(selection.rows, range(_BATCH, len(selection.rows), _BATCH))
    ]
    again: dict[int, list[NDArray[np.float16]]] = {}
    for k, rows in track(old, "computing embeddings") if progress and old else old:
        again.setdefault(k, []).append(embed_entries([tables[k].lines(int(i)) for i in rows]))
    width = embed_entries([]).shape[1]
    found = [np.empty((0, width), np.float16)]
    for k, (table, selection) in enumerate(zip(tables, selections, strict=True)):
        found += again[k] if k in again else [table.embedding[selection.rows]]
    return np.concatenate(found)
