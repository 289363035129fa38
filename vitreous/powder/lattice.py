"""Lattices, whatever cell describes them: Niggli's reduced cell, derivative lattices, and which cells are one lattice.

Cells are batches `(B, 6)` float64: a, b, c in ångström, angles in degrees. The columns of a transformation P `(3, 3)`
are a new basis, (a', b', c') = (a, b, c) P, so that a metric becomes Pᵀ G P and a reflection, a row, becomes h P.
"""

import itertools
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from vitreous.errors import InputError, check_choice
from vitreous.powder import cell as unit_cell

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_EQUAL = 1e-9  # how near, relative to V^(2/3), two numbers of a metric count as equal
_PASSES = 100
PRIMITIVE: dict[str, tuple[tuple[float, ...], ...]] = {
    "P": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "A": ((1, 0, 0), (0, 0.5, 0.5), (0, -0.5, 0.5)),
    "B": ((0.5, 0, 0.5), (0, 1, 0), (-0.5, 0, 0.5)),
    "C": ((0.5, 0.5, 0), (-0.5, 0.5, 0), (0, 0, 1)),
    "I": ((-0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.5, 0.5, -0.5)),
    "F": ((0, 0.5, 0.5), (0.5, 0, 0.5), (0.5, 0.5, 0)),
    "R": ((2 / 3, 1 / 3, 1 / 3), (-1 / 3, 1 / 3, 1 / 3), (-1 / 3, -2 / 3, 1 / 3)),
}
"""Primitive vectors by rows, of R obverse in hexagonal axes."""


def metrics(cells: ArrayLike) -> Floats:
    """The metric tensors `(B, 3, 3)` of cells `(B, 6)`; a row that is no cell is an `InputError`."""
    values = np.array(cells, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != 6:
        raise InputError(f"cells: found an array of shape {values.shape}, expected (B, 6)")
    found: Floats = unit_cell.metric(torch.from_numpy(values)).numpy()
    with np.errstate(all="ignore"):
        good = np.isfinite(found).all((1, 2)) & (values > 0).all(1) & (values[:, 3:] < 180).all(1)
        good &= np.linalg.det(found) > 1e-9 * values[:, :3].prod(1) ** 2
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        raise InputError(f"cells: no lattice has the cell {' '.join(f'{v:g}' for v in values[row])} (row {row})")
    return found


def parameters(metric: Floats) -> Floats:
    """Cells `(B, 6)` from metric tensors `(B, 3, 3)`."""
    found: Floats = unit_cell.of_metric(torch.from_numpy(metric)).numpy()
    return found


def volumes(cells: ArrayLike) -> Floats:
    """Volumes `(B,)` in Å³."""
    return np.asarray(np.sqrt(np.linalg.det(metrics(cells))))


def primitive(conventional: ArrayLike, centring: str) -> Floats:
    """Primitive cells `(B, 6)`, not reduced, of conventional ones `(B, 6)`; R is obverse, in hexagonal axes."""
    check_choice("centring", centring, PRIMITIVE)
    columns = np.array(PRIMITIVE[centring], dtype=np.float64).T
    return parameters(columns.T @ metrics(conventional) @ columns)


def niggli(cells: ArrayLike) -> Floats:
    """Niggli's reduced cells `(B, 6)`."""
    return reduction(cells)[0]


def reduction(cells: ArrayLike) -> tuple[Floats, Integers]:
    """Niggli's reduced cells `(B, 6)` and the transformations to them `(B, 3, 3)`, whose determinants are 1.

    The steps of Křivý and Gruber (1976), with a tolerance as Grosse-Kunstleve, Sauter and Adams (2004) advise,
    for all cells at once; a vector is shortened by as many of another as it takes.
    """
    metric = metrics(cells)
    near = _EQUAL * np.cbrt(np.linalg.det(metric))
    total = np.tile(np.eye(3, dtype=np.int64), (len(metric), 1, 1))
    rows = np.arange(len(metric))
    for _ in range(_PASSES):
        order = _normal_form(metric[rows], near[rows])
        part = _apply(order, metric[rows])
        step, moved = _shorter(part, near[rows])
        metric[rows] = _apply(step, part)
        total[rows] = total[rows] @ order @ step
        rows = rows[moved]
        if not len(rows):
            break
    return parameters(metric), total


def _apply(transformation: Integers, metric: Floats) -> Floats:
    """Pᵀ G P."""
    changed: Floats = transformation.transpose(0, 2, 1) @ metric @ transformation
    return changed


def _normal_form(metric: Floats, near: Floats) -> Integers:
    """The transformations `(B, 3, 3)` that sort the axes and make the angles all acute or none acute: steps 1 to 4."""
    axis = np.tile(np.arange(3), (len(metric), 1))  # (B, 3), which axis stands at each place
    length = metric[:, [0, 1, 2], [0, 1, 2]]
    other = 2 * np.abs(metric[:, [1, 0, 0], [2, 2, 1]])  # |ξ|, |η|, |ζ|, each opposite to its axis
    for i, j in ((0, 1), (1, 2), (0, 1)):
        longer = length[:, i] - length[:, j]
        swap = (longer > near) | ((longer >= -near) & (other[:, i] > other[:, j] + near))
        for column in (axis, length, other):
            column[:, [i, j]] = np.where(swap[:, None], column[:, [j, i]], column[:, [i, j]])
    product = np.take_along_axis(metric[:, [1, 0, 0], [2, 2, 1]], axis, axis=1)  # still with their signs
    above, below = 2 * product > near[:, None], 2 * product < -near[:, None]
    acute = (above | below).all(1) & (below.sum(1) % 2 == 0)
    sign = np.where(np.where(acute[:, None], below, above), -1, 1)
    odd = np.flatnonzero(sign.prod(1) < 0)  # some product is zero then, and its axis may take any sign
    sign[odd, np.abs(product[odd]).argmin(1)] *= -1
    sign *= np.where(_odd(axis), -1, 1)[:, None]
    matrix = np.zeros((len(metric), 3, 3), dtype=np.int64)
    matrix[np.arange(len(metric))[:, None], axis, np.arange(3)] = sign
    return matrix


def _odd(axis: Integers) -> NDArray[np.bool_]:
    """Whether permutations `(B, 3)` are odd."""
    return np.asarray((axis[:, 1] - axis[:, 0]) % 3 == 2)


def _shorter(metric: Floats, near: Floats) -> tuple[Integers, NDArray[np.bool_]]:
    """The first of the steps 5 to 8 that applies, as transformations `(B, 3, 3)`, and whether any does `(B,)`."""
    a, b = metric[:, 0, 0], metric[:, 1, 1]
    xi, eta, zeta = 2 * metric[:, 1, 2], 2 * metric[:, 0, 2], 2 * metric[:, 0, 1]
    step = np.tile(np.eye(3, dtype=np.int64), (len(metric), 1, 1))
    moved = np.zeros(len(metric), dtype=np.bool_)
    for to, by, product, square, first, second in (  # vector `to` becomes shorter by vector `by`
        (2, 1, xi, b, eta, zeta), (2, 0, eta, a, xi, zeta), (1, 0, zeta, a, xi, eta)
    ):  # fmt: skip
        does = np.abs(product) > square + near
        does |= (product >= square - near) & (2 * first < second - near)
        does |= (product <= near - square) & (second < -near)
        times = np.copysign(np.maximum(1, np.rint(np.abs(product) / (2 * square))), product)
        step[:, by, to] = np.where(does & ~moved, -times, 0)
        moved |= does
    total = xi + eta + zeta + a + b
    does = ((total < -near) | ((total <= near) & (2 * (a + eta) + zeta > near))) & ~moved
    step[does, 0, 2] = step[does, 1, 2] = 1
    return step, moved | does


def derivatives(cell: ArrayLike, up_to: int = 4) -> Floats:
    """Niggli cells `(n, 6)` of the lattices that contain this one, or that it contains, with an index of 2 to `up_to`.

    Those that differ are given once, smallest volumes first: a cell of 1/4 of the volume has four times the points.
    An indexing that one of the smaller cells explains as well was found too large.
    """
    metric = metrics(np.atleast_2d(np.asarray(cell, dtype=np.float64)))
    found = []
    for index in (*range(up_to, 1, -1), *range(-2, -up_to - 1, -1)):
        forms: Floats = _hermite(abs(index)).astype(np.float64)
        if index > 0:  # a lattice contains ours just as its dual is contained in the dual of ours
            forms = np.asarray(np.linalg.inv(forms).transpose(0, 2, 1), dtype=np.float64)
        cells = niggli(parameters(forms.transpose(0, 2, 1) @ metric @ forms))
        found.append(cells[distinct(cells, 1e-6)])
    return np.concatenate(found) if found else np.empty((0, 6))


def _hermite(index: int) -> Integers:
    """Hermite normal forms `(n, 3, 3)` of a determinant: one basis, by columns, of every sublattice of that index."""
    forms = []
    for p, q in itertools.product(range(1, index + 1), repeat=2):
        if index % (p * q) == 0:
            r = index // (p * q)
            shifts = itertools.product(range(q), range(r), range(r))
            forms += [((p, 0, 0), (x, q, 0), (y, z, r)) for x, y, z in shifts]
    return np.array(forms, dtype=np.int64)


def same_lattice(cell_a: ArrayLike, cell_b: ArrayLike, tolerance: float = 1e-3) -> bool:
    """Whether two primitive cells describe one lattice, within a relative tolerance on lengths.

    Compared are the seven Voronoi lengths, see `voronoi_lengths`: no boundary between reduced forms disturbs them.
    """
    pair = np.stack([np.asarray(cell_a, dtype=np.float64), np.asarray(cell_b, dtype=np.float64)])
    return len(distinct(pair, tolerance)) == 1


def distinct(cells: ArrayLike, tolerance: float = 1e-3) -> Integers:
    """Indices of cells `(B, 6)` of which no earlier representative is the same lattice, see `same_lattice`.

    Cells in rank order leave the best of each lattice.
    """
    logs = np.log(voronoi_lengths(cells))  # (B, 7)
    sorted_ = np.sort(logs, axis=1)
    left = np.arange(len(logs))
    chosen = []
    while len(left):
        first, left = left[0], left[1:]
        chosen.append(first)
        alike = np.abs(sorted_[left] - sorted_[first]).max(1, initial=0) <= tolerance  # must hold, and is quick
        near = np.flatnonzero(alike)
        labelled = logs[first][_relabellings()]  # (168, 7)
        for rows in np.array_split(near, len(near) // 1024 + 1):  # memory: 1024 x 168 x 7 numbers
            distance = np.abs(logs[left[rows]][:, None] - labelled).max(2).min(1)
            alike[rows] = distance <= tolerance
        left = left[~alike]
    return np.array(chosen, dtype=np.int64)


def voronoi_lengths(cells: ArrayLike) -> Floats:
    """The shortest vector (Å) of each of the seven classes of lattice vectors modulo 2, other than 0: `(B, 7)`.

    They are the roots of Conway and Sloane's vonorms (1992): they change continuously with the lattice, each by no more
    than the strain, and determine it up to a relabelling of the classes. A reduced cell has them among ±a ± b ± c.
    """
    vectors, classes = _short_vectors()
    metric = metrics(niggli(cells))
    squares = np.einsum("ni,bij,nj->bn", vectors, metric, vectors)  # (B, 13)
    return np.asarray(np.sqrt(np.stack([squares[:, classes == k].min(1) for k in range(1, 8)], axis=1)))


@lru_cache(maxsize=1)
def _short_vectors() -> tuple[Floats, Integers]:
    """The vectors `(13, 3)` with coordinates -1, 0 and 1, of ±v one, and the class `(13,)` of each, 1 to 7."""
    vectors = np.array([v for v in itertools.product((-1, 0, 1), repeat=3) if v > (0, 0, 0)])
    return vectors.astype(np.float64), vectors % 2 @ np.array([4, 2, 1])


@lru_cache(maxsize=1)
def _relabellings() -> Integers:
    """The 168 permutations `(168, 7)` of the classes that a change of basis makes: the invertible matrices modulo 2."""
    classes = np.array(list(itertools.product((0, 1), repeat=3)))[1:]
    found = [classes @ np.array(m).reshape(3, 3) % 2 @ np.array([4, 2, 1]) for m in itertools.product((0, 1), repeat=9)]
    return np.array([f - 1 for f in found if len(set(f.tolist()) - {0}) == 7])
