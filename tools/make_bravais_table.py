"""Write `vitreous/powder/bravais.npz`: all symmetries of reduced cells, as groups of rotations.

    python tools/make_bravais_table.py

Every two-fold rotation of a lattice is, in its reduced basis, one of 81 matrices with elements -1, 0 and 1 (Le Page
1982; Grosse-Kunstleve, Sauter and Adams 2004). They generate the rotations of each holohedry. Arrays: crystal system,
centring, conventional axes by columns, the projection `(6, 6)` that averages the elements of a metric over the group,
and the number of rotations.
"""

import itertools
from typing import Any

import numpy as np

from vitreous.powder.bravais import TABLE, TABLE_ARRAYS
from vitreous.powder.cell import PAIRS, symmetric_matrices
from vitreous.powder.reduction import Integers

_SYSTEMS = {  # by the number of rotations of the holohedry
    1: "triclinic", 2: "monoclinic", 4: "orthorhombic", 6: "trigonal", 8: "tetragonal", 12: "hexagonal", 24: "cubic"
}  # fmt: skip
_IDENTITY = np.eye(3, dtype=np.int64)


def symmetries_of_reduced_cells() -> dict[str, Any]:
    """The arrays of the table, each `(K, …)`, triclinic first."""
    groups, projections, orders = [("triclinic", "P", _IDENTITY)], [np.eye(6)], [1]
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
        groups.append((system, *_centring(system, _axes(rotations))))
        projections.append(projection)
        orders.append(len(rotations))
    columns = (*zip(*groups, strict=True), projections, orders)
    return {name: np.array(column) for name, column in zip(TABLE_ARRAYS, columns, strict=True)}


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


if __name__ == "__main__":
    np.savez_compressed(TABLE, **symmetries_of_reduced_cells())
