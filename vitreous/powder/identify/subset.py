"""A database of some entries of another one, with other cells if these are known."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.powder.identify.database import FIXED, RAGGED, Database
from vitreous.powder.sim.structure import metric

Cells = Mapping[int, tuple[float, ...]]
"""Cells by the place of their entry: a, b, c in Å and α, β, γ in degrees."""


def chosen_entries(database: Database, entries: Sequence[int], cells: Cells | None = None) -> Database:
    """The database of these entries alone, in this order, without embeddings.

    Entries in `cells` have these cells, and their lines where these cells have them.
    """
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
    _change_cells(arrays, {place: cells[entry] for place, entry in enumerate(entries) if cells and entry in cells})
    return Database(database.path, arrays, {"builder": database.builder})


def _change_cells(arrays: dict[str, NDArray[Any]], cells: Cells) -> None:
    """Replace cells, volumes and 1/d of the lines."""
    end = np.cumsum(arrays["line_count"])
    for place, cell in cells.items():
        rows = slice(end[place] - arrays["line_count"][place], end[place])
        hkl, before = arrays["line_hkl"][rows].astype(float), arrays["line_s"][rows].copy()
        a, b, c, alpha, beta, gamma = cell
        inverse = np.linalg.inv(metric((a, b, c, alpha, beta, gamma)))
        arrays["line_s"][rows] = s = np.sqrt(np.einsum("mi,ij,mj->m", hkl, inverse, hkl))
        arrays["cell"][place] = cell
        arrays["volume"][place] = 1 / np.sqrt(np.linalg.det(inverse))
        arrays["strongest"][place] = np.interp(arrays["strongest"][place], [0.0, *before], [0.0, *s])
