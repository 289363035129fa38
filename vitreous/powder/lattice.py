"""Lattices independent of the cell that describes them: primitive and reduced cells, derivative lattices, comparison.

Cells are batches `(B, 6)` float64: a, b, c in ångström, angles in degrees.
"""

import itertools
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from vitreous.core.errors import check_choice
from vitreous.powder.cell import cells_of, metrics_of
from vitreous.powder.reduction import Floats, Integers, niggli_reduction

# Primitive vectors by rows; R is obverse in hexagonal axes.
PRIMITIVE: dict[str, tuple[tuple[float, ...], ...]] = {
    "P": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "A": ((1, 0, 0), (0, 0.5, 0.5), (0, -0.5, 0.5)),
    "B": ((0.5, 0, 0.5), (0, 1, 0), (-0.5, 0, 0.5)),
    "C": ((0.5, 0.5, 0), (-0.5, 0.5, 0), (0, 0, 1)),
    "I": ((-0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.5, 0.5, -0.5)),
    "F": ((0, 0.5, 0.5), (0.5, 0, 0.5), (0.5, 0.5, 0)),
    "R": ((2 / 3, 1 / 3, 1 / 3), (-1 / 3, 1 / 3, 1 / 3), (-1 / 3, -2 / 3, 1 / 3)),
}
# The vectors (13, 3) with coordinates -1, 0 and 1, one of each ±v, and the class (13,) of each, 1 to 7.
_SHORT = np.array([v for v in itertools.product((-1, 0, 1), repeat=3) if v > (0, 0, 0)])
_CLASSES = _SHORT % 2 @ np.array([4, 2, 1])


def primitive(conventional: ArrayLike, centring: str) -> Floats:
    """Primitive cells `(B, 6)`, not reduced, of conventional cells `(B, 6)`; R is obverse in hexagonal axes."""
    check_choice("centring", centring, PRIMITIVE)
    columns = np.array(PRIMITIVE[centring], dtype=np.float64).T
    return cells_of(columns.T @ metrics_of(conventional) @ columns)


def niggli(cells: ArrayLike) -> Floats:
    """Niggli-reduced cells `(B, 6)`."""
    return cells_of(niggli_reduction(metrics_of(cells))[0])


def derivatives(cell: ArrayLike, up_to: int = 4) -> Floats:
    """Niggli cells `(n, 6)` of all superlattices and sublattices of a lattice with an index of 2 to `up_to`.

    Each lattice appears once, smallest volumes first.
    """
    forms = _derivative_bases(up_to)
    if not len(forms):
        return np.empty((0, 6))
    metric = metrics_of(np.atleast_2d(np.asarray(cell, dtype=np.float64)))
    cells = niggli(cells_of(forms.transpose(0, 2, 1) @ metric @ forms))
    return np.asarray(cells[distinct(cells, 1e-6)])


@lru_cache(maxsize=16)
def _derivative_bases(up_to: int) -> Floats:
    """Bases `(n, 3, 3)`, by columns, of the lattices of `derivatives`, smallest volumes first."""
    forms = [np.asarray(_hermite(index), dtype=np.float64) for index in range(2, up_to + 1)]
    duals = [np.linalg.inv(each).transpose(0, 2, 1) for each in forms[::-1]]  # a superlattice's dual is a sublattice's
    return np.concatenate([*duals, *forms]) if forms else np.empty((0, 3, 3))


def _hermite(index: int) -> Integers:
    """Hermite normal forms `(n, 3, 3)` of a determinant: a basis, by columns, of every sublattice of that index."""
    forms = []
    for p, q in itertools.product(range(1, index + 1), repeat=2):
        if index % (p * q) == 0:
            r = index // (p * q)
            shifts = itertools.product(range(q), range(r), range(r))
            forms += [((p, 0, 0), (x, q, 0), (y, z, r)) for x, y, z in shifts]
    return np.array(forms, dtype=np.int64)


def same_lattice(cell_a: ArrayLike, cell_b: ArrayLike, tolerance: float = 1e-3) -> bool:
    """Whether two primitive cells have the same lattice: equal `voronoi_lengths` within a relative tolerance."""
    return len(distinct(np.stack([np.asarray(cell_a), np.asarray(cell_b)]), tolerance)) == 1


def distinct(cells: ArrayLike, tolerance: float = 1e-3) -> Integers:
    """Indices of the first cell of each lattice among cells `(B, 6)`, see `same_lattice`."""
    logs = np.log(voronoi_lengths(cells))  # (B, 7)
    sorted_ = np.sort(logs, axis=1)
    left = np.arange(len(logs))
    chosen = []
    while len(left):
        first, left = left[0], left[1:]
        chosen.append(first)
        alike = np.abs(sorted_[left] - sorted_[first]).max(1, initial=0) <= tolerance  # necessary, quick
        near = np.flatnonzero(alike)
        if not len(near):
            continue
        labelled = logs[first][_relabellings()]  # (168, 7)
        for rows in np.array_split(near, len(near) // 1024 + 1):  # memory: 1024 x 168 x 7 numbers
            alike[rows] = np.abs(logs[left[rows]][:, None] - labelled).max(2).min(1) <= tolerance
        left = left[~alike]
    return np.array(chosen, dtype=np.int64)


def voronoi_lengths(cells: ArrayLike) -> Floats:
    """The shortest vector (Å) of each of the seven classes of lattice vectors modulo 2, other than 0: `(B, 7)`.

    The roots of Conway and Sloane's vonorms (1992): they change continuously with the lattice, each by no more than the
    strain, and determine it up to a relabelling of the classes. In a reduced cell they are among ±a ± b ± c.
    """
    metric, vectors = metrics_of(niggli(cells)), _SHORT.astype(np.float64)
    squares = np.einsum("ni,bij,nj->bn", vectors, metric, vectors)  # (B, 13)
    return np.asarray(np.sqrt(np.stack([squares[:, k == _CLASSES].min(1) for k in range(1, 8)], axis=1)))


@lru_cache(maxsize=1)
def _relabellings() -> Integers:
    """The 168 permutations `(168, 7)` of the classes under a change of basis: the invertible matrices modulo 2."""
    classes = np.array(list(itertools.product((0, 1), repeat=3)))[1:]
    matrices = np.array(list(itertools.product((0, 1), repeat=9))).reshape(-1, 3, 3)
    images = classes @ matrices % 2 @ np.array([4, 2, 1])  # (512, 7)
    return np.array([image - 1 for image in images if len(set(image.tolist()) - {0}) == 7])
