"""Bravais lattices: the symmetry of a cell's metric within a tolerance, and its conventional cell.

Every two-fold rotation of a lattice is, in its reduced basis, one of 81 matrices with elements -1, 0 and 1 (Le Page
1982; Grosse-Kunstleve, Sauter and Adams 2004). They generate the rotations of each holohedry, so all symmetries of
reduced cells form one table of groups, and a cell is tested against all of them at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from vitreous.core.errors import InputError
from vitreous.powder.cell import PAIRS, cells_of, free_indices, full_cell, metrics_of, symmetric_matrices
from vitreous.powder.reduction import Floats, Integers, niggli_reduction, reduce_plane

TABLE = Path(__file__).with_name("bravais.npz")
"""All symmetries of reduced cells."""
TABLE_ARRAYS = ("system", "centring", "axes", "projection", "order")


@dataclass(frozen=True)
class Bravais:
    """A lattice symmetry and the cell in its standard form."""

    system: str  # of the lattice: rhombohedral lattices are trigonal, hexagonal P is hexagonal
    centring: str  # P, C, I, F or R
    conventional: Floats  # (6,), the cell with the metric averaged over the symmetry, so that its angles are exact
    transformation: Integers  # (3, 3), from the input cell: its columns are the conventional basis
    strain: float  # the largest relative change of any length by the averaging


def bravais(cell: ArrayLike, tolerance: float = 0.002) -> Bravais:
    """The highest symmetry of a primitive cell `(6,)`; of several, the one with the smallest strain.

    A symmetry counts if imposing it changes no length by more than the relative `tolerance`: 0.002 moves an angle by
    0.23° at most.
    """
    return next(_options(cell, tolerance))


def bravais_options(cell: ArrayLike, tolerance: float) -> list[Bravais]:
    """Every Bravais lattice that describes a primitive cell `(6,)` within a tolerance, highest symmetry first.

    Of several settings of one Bravais lattice, the one with the smallest strain. Triclinic is always the last.
    """
    return list(_options(cell, tolerance))


def _options(cell: ArrayLike, tolerance: float) -> Iterator[Bravais]:
    """The lattices of `bravais_options`, one after another."""
    values = np.asarray(cell, dtype=np.float64)
    if values.shape != (6,):
        raise InputError(f"cell: found an array of shape {values.shape}, expected (6,)")
    if not 0 <= tolerance < 0.1:
        raise InputError(f"tolerance: found {tolerance:g}, expected a relative change of length from 0 to 0.1")
    reduced, transformations = niggli_reduction(metrics_of(values[None]))
    groups, projections, orders = _table()
    metric = metrics_of(cells_of(reduced))[0]
    averages = symmetric_matrices(projections @ np.array([metric[pair] for pair in PAIRS]))  # (K, 3, 3)
    inverse = np.linalg.inv(np.linalg.cholesky(metric))
    changes = np.linalg.eigvalsh(inverse @ (averages - metric) @ inverse.T)  # of squared lengths, relative
    strains = np.abs(changes).max(1) / 2  # (K,)
    good = strains <= max(tolerance, 1e-9)
    good[0] = True  # triclinic: nothing is averaged
    options: dict[tuple[str, str], int] = {}
    for place in np.lexsort((strains, -orders)):
        if good[place]:
            options.setdefault((groups[place].system, groups[place].centring), int(place))
    for place in options.values():
        yield _in_standard_form(groups[place], averages[place], transformations[0], float(strains[place]))


class _Group(NamedTuple):
    """One symmetry of a reduced cell, with conventional axes by columns; for some, the metric decides their setting."""

    system: str
    centring: str
    axes: Integers


def _by_length(group: _Group, metric: Floats) -> Integers:
    """Orthorhombic axes a ≤ b ≤ c, or a ≤ b in a C-centred cell."""
    squares = np.einsum("ik,ij,jk->k", group.axes, metric, group.axes)
    if group.centring == "C":
        squares[2] = np.inf
    return group.axes[:, np.argsort(squares)]


def _obtuse(group: _Group, metric: Floats) -> Integers:
    """Monoclinic axes, b unique, β ≥ 90°. P: the shortest a ≤ c. C: the shortest a that the centring allows, then c."""
    a, unique, c = group.axes.T
    products = (v @ metric @ w for v, w in ((a, a), (c, c), (a, c)))
    factors = reduce_plane(*(torch.tensor([float(value)], dtype=torch.float64) for value in products))[3]
    a, c = factors[0].numpy().astype(np.int64) @ np.stack([a, c])
    c = c if a @ metric @ c <= 0 else -c
    if group.centring == "C":
        three = sorted([a, c, -a - c], key=lambda v: float(v @ metric @ v))  # no two at an acute angle
        place = next(i for i, v in enumerate(three) if not ((v + unique) % 2).any())
        a, c = three.pop(place), three[0]
    return np.stack([a, unique, c], axis=1)


_SETTINGS = {"monoclinic": _obtuse, "orthorhombic": _by_length}


def _in_standard_form(group: _Group, average: Floats, transformation: Integers, strain: float) -> Bravais:
    """A symmetry of a reduced cell with the averaged metric `(3, 3)`; `transformation` leads to the reduced cell."""
    axes = _SETTINGS[group.system](group, average) if group.system in _SETTINGS else group.axes
    axes = axes if np.linalg.det(axes) > 0 else -axes
    free = cells_of((axes.T @ average @ axes)[None])[:, free_indices(group.system)]
    conventional = full_cell(group.system, torch.from_numpy(free))[0].numpy()  # fixed parameters are exact
    return Bravais(group.system, group.centring, conventional, transformation @ axes, strain)


@lru_cache(maxsize=1)
def _table() -> tuple[list[_Group], Floats, Integers]:
    """All symmetries of reduced cells, triclinic first: groups, projections `(K, 6, 6)`, numbers of rotations `(K,)`.

    A projection averages the six elements of a metric over its group. `tools/make_bravais_table.py` writes the file.
    """
    with np.load(TABLE, allow_pickle=False) as table:
        system, centring, axes, projections, orders = (table[name] for name in TABLE_ARRAYS)
    groups = [_Group(*each) for each in zip(system.tolist(), centring.tolist(), axes, strict=True)]
    return groups, projections, orders
