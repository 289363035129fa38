"""A database of some entries of another one."""

from collections.abc import Sequence

import numpy as np

from vitreous.powder.identify.database import FIXED, RAGGED, Database


def chosen_entries(database: Database, entries: Sequence[int]) -> Database:
    """The database of these entries alone, in this order, without embeddings."""
    places = np.asarray(entries, dtype=np.int64)
    arrays = dict(database.arrays)
    for name in FIXED:
        arrays[name] = database.arrays[name][places]
    arrays["embedding"] = arrays["embedding"][:, :0]
    for name, (_, _, lengths) in RAGGED.items():
        size = database.arrays[lengths].reshape(len(database), -1).sum(axis=1)
        end = np.cumsum(size)
        parts = [database.arrays[name][end[place] - size[place] : end[place]] for place in places]
        arrays[name] = np.concatenate([database.arrays[name][:0], *parts])
    return Database(database.path, arrays, {"builder": database.builder})
