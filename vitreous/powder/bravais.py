"""Bravais lattices: the symmetry of a cell's metric within a tolerance, and its conventional cell.

Every two-fold rotation of a lattice is, in its reduced basis, one of 81 matrices with elements -1, 0 and 1 (Le Page
1982; Grosse-Kunstleve, Sauter and Adams 2004). They generate the rotations of each holohedry, so all symmetries of
reduced cells form one table of groups, and a cell is tested against all of them at once.
"""

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from vitreous.core.errors import InputError
from vitreous.powder.cell import PAIRS, cells_of, free_indices, full_cell, metrics_of, symmetric_matrices
from vitreous.powder.reduction import Floats, Integers, niggli_reduction, reduce_plane

_SYSTEMS = {  # by the number of rotations of the holohedry
    1: "triclinic", 2: "monoclinic", 4: "orthorhombic", 6: "trigonal", 8: "tetragonal", 12: "hexagonal", 24: "cubic"
}  # fmt: skip
_IDENTITY = np.eye(3, dtype=np.int64)


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
    best = next(k for k in np.lexsort((strains, -orders)) if good[k])
    group, average = groups[best], averages[best]
    axes = _SETTINGS[group.system](group, average) if group.system in _SETTINGS else group.axes
    axes = axes if np.linalg.det(axes) > 0 else -axes
    free = cells_of((axes.T @ average @ axes)[None])[:, free_indices(group.system)]
    conventional = full_cell(group.system, torch.from_numpy(free))[0].numpy()  # fixed parameters are exact
    return Bravais(group.system, group.centring, conventional, transformations[0] @ axes, float(strains[best]))


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


@lru_cache(maxsize=1)
def _table() -> tuple[list[_Group], Floats, Integers]:
    """All symmetries of reduced cells, triclinic first: groups, projections `(K, 6, 6)`, numbers of rotations `(K,)`.

    A projection averages the six elements of a metric over its group.
    """
    groups, projections, orders = [_Group("triclinic", "P", _IDENTITY)], [np.eye(6)], [1]
    two_folds = _two_folds()
    generic = np.array([1.0, 1.13, 1.31, 0.07, 0.11, 0.17])  # a metric without symmetry
    for rotations in _rotation_groups(two_folds):
        units = np.einsum("nji,kjl,nlm->kim", rotations, symmetric_matrices(np.eye(6)), rotations) / len(rotations)
        projection = np.array([units[:, i, j] for i, j in PAIRS])
        average = symmetric_matrices((projection @ generic)[None])[0]
        symmetries = np.isclose(two_folds.transpose(0, 2, 1) @ average @ two_folds, average).all((1, 2)).sum()
        if symmetries > sum(_order(r) == 2 for r in rotations):
            continue  # 32 of a hexagonal lattice, whose metric always has 622
        system = _SYSTEMS[len(rotations)]
        groups.append(_Group(system, *_centring(system, _axes(rotations))))
        projections.append(projection)
        orders.append(len(rotations))
    return groups, np.array(projections), np.array(orders)


def _two_folds() -> Integers:
    """The 81 matrices `(81, 3, 3)` with elements -1, 0 and 1 that are rotations by 180°."""
    matrices = np.array(list(itertools.product((-1, 0, 1), repeat=9))).reshape(-1, 3, 3)
    self_inverse = (matrices @ matrices == _IDENTITY).all((1, 2))
    return np.asarray(matrices[self_inverse & (matrices.trace(axis1=1, axis2=2) == -1)])


def _rotation_groups(two_folds: Integers) -> list[Integers]:
    """The groups `(n, 3, 3)` of 2 to 24 rotations that two-fold rotations generate, all with elements -1, 0 and 1."""
    groups: dict[frozenset[bytes], Integers] = {}

    def add(*generators: Integers) -> None:
        group = _closure(generators)
        if group is not None:
            groups.setdefault(frozenset(rotation.tobytes() for rotation in group), group)

    for rotation in two_folds:
        add(rotation)
    inside = (np.abs(two_folds[:, None] @ two_folds) <= 1).all((2, 3))  # other pairs generate no such group
    for i, j in np.argwhere(np.triu(inside, 1)):
        add(two_folds[i], two_folds[j])
    fourfold = [(names, group) for names, group in groups.items() if len(group) == 8]
    for (names, group), (others, other) in itertools.combinations(fourfold, 2):
        if len(names & others) == 4:  # two axes of a cube share the rotations by 180° about all three
            add(*group, *other)
    return list(groups.values())


def _closure(generators: tuple[Integers, ...]) -> Integers | None:
    """The group `(n, 3, 3)` that rotations generate; None if a matrix element is outside -1 to 1."""
    members, new = {_IDENTITY.tobytes(): _IDENTITY}, [_IDENTITY]
    while new:
        last = new.pop()
        for generator in generators:
            product = last @ generator
            if np.abs(product).max() > 1 or len(members) > 24:
                return None
            if product.tobytes() not in members:
                members[product.tobytes()] = product
                new.append(product)
    return np.stack(list(members.values()))


def _order(rotation: Integers) -> int:
    """The order of a rotation, from its trace."""
    return {3: 1, -1: 2, 0: 3, 1: 4, 2: 6}[int(np.trace(rotation))]


def _axis(rotation: Integers) -> Integers:
    """The shortest lattice vector along the axis of a rotation."""
    along = sum(np.linalg.matrix_power(rotation, n) for n in range(_order(rotation)))
    column = np.asarray(along)[:, np.abs(along).sum(0).argmax()]
    return np.asarray(column // np.gcd.reduce(column))


def _axes(rotations: Integers) -> Integers:
    """Conventional axes by columns: the smallest cell with axes along the symmetry elements."""
    by_order = {n: [r for r in rotations if _order(r) == n] for n in (2, 3, 4)}
    if len(rotations) == 2:
        return _plane(by_order[2][0])
    if len(rotations) in (4, 24):
        about = [r @ r for r in by_order[4]] or by_order[2]  # cubic axes are the four-fold ones
        return np.stack([_axis(r) for r in np.unique(about, axis=0)], axis=1)
    turn = (by_order[3] or by_order[4])[0]
    c = _axis(turn)
    sets = [np.stack([_axis(r), turn @ _axis(r), c], axis=1) for r in by_order[2] if not (r @ c == c).all()]
    return min(sets, key=lambda axes: abs(round(np.linalg.det(axes))))


def _plane(two_fold: Integers) -> Integers:
    """The axes a, b, c of a monoclinic lattice: b along a two-fold axis, a and c a basis of the plane across it."""
    vectors = [np.array(v) for v in itertools.product((0, 1, -1, 2, -2), repeat=3)]
    across = [v for v in vectors if v.any() and (two_fold @ v == -v).all()]
    a, c = next((a, c) for a, c in itertools.combinations(across, 2) if np.gcd.reduce(np.cross(a, c)) == 1)
    return np.stack([a, _axis(two_fold), c], axis=1)


def _centring(system: str, axes: Integers) -> tuple[str, Integers]:
    """The centring letter for these axes, and the axes in the order and sense of its standard setting."""
    points = abs(round(np.linalg.det(axes)))
    if points == 3:  # obverse setting
        return "R", axes * np.array([-1, -1, 1]) if (axes @ np.array([2, 1, 1]) % 3).any() else axes
    if points != 2 or system == "monoclinic":
        return {1: "P", 2: "C", 4: "F"}[points], axes
    for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        if not ((axes[:, a] + axes[:, b]) % 2).any():
            return "C", axes[:, [a, b, c]]
    return "I", axes
