"""What the symmetry operations of a crystal say: its system, its space group, and its reduced cell."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vitreous.core.extras import load_extra
from vitreous.powder.cell import cells_of
from vitreous.powder.lattice import niggli
from vitreous.powder.sim.structure import Cell, Operations, metric

_DENOMINATOR = 24  # translations of space groups are multiples of 1/24


def crystal_system(rotations: NDArray[np.int64]) -> str:
    """The crystal system of operations `(n, 3, 3)`, by the orders of their rotations; R groups are trigonal."""
    proper = np.unique(rotations * np.rint(np.linalg.det(rotations)).astype(np.int64)[:, None, None], axis=0)
    traces = np.trace(proper, axis1=1, axis2=2).tolist()  # -1, 0, 1, 2: axes of order 2, 3, 4, 6
    if traces.count(0) == 8:
        return "cubic"
    for trace, system in ((2, "hexagonal"), (0, "trigonal"), (1, "tetragonal")):
        if trace in traces:
            return system
    return {0: "triclinic", 1: "monoclinic"}.get(traces.count(-1), "orthorhombic")


def space_group_number(operations: Operations, symbol: str | int | None = None) -> int:
    """The number of the space group of the operations in any usual setting, else that of the symbol, else 0."""
    rotations, translations = operations
    whole = np.rint(translations * _DENOMINATOR).astype(np.int64) % _DENOMINATOR
    number = _number_of_operations(rotations.astype(np.int8).tobytes(), whole.astype(np.int8).tobytes())
    if number:
        return number
    if isinstance(symbol, int):
        return symbol if 1 <= symbol <= 230 else 0
    group = load_extra("gemmi", "powder").find_spacegroup_by_name(symbol or "")
    return int(group.number) if group is not None else 0


@lru_cache(maxsize=1024)
def _number_of_operations(rotations: bytes, translations: bytes) -> int:
    """0 if no usual setting of a space group has these operations."""
    gemmi = load_extra("gemmi", "powder")
    operations = []
    shifts = np.frombuffer(translations, np.int8).reshape(-1, 3).tolist()
    for rotation, shift in zip(np.frombuffer(rotations, np.int8).reshape(-1, 3, 3).tolist(), shifts, strict=True):
        operation = gemmi.Op()
        operation.rot = [[gemmi.Op.DEN * x for x in row] for row in rotation]
        operation.tran = [gemmi.Op.DEN // _DENOMINATOR * x for x in shift]
        operations.append(operation)
    group = gemmi.find_spacegroup_by_ops(gemmi.GroupOps(operations))
    return int(group.number) if group is not None else 0


def reduced_cell(cell: Cell, operations: Operations) -> Cell:
    """The Niggli-reduced cell of a crystal, from its cell in any centring."""
    basis = _primitive_basis(operations)
    a, b, c, alpha, beta, gamma = niggli(cells_of((basis @ metric(cell) @ basis.T)[None]))[0].tolist()
    return a, b, c, alpha, beta, gamma


def _primitive_basis(operations: Operations) -> NDArray[np.float64]:
    """Rows: a basis of the lattice of the cell's corners and its centring vectors, in fractions of the cell."""
    rotations, translations = operations
    pure = translations[(rotations == np.eye(3)).all((1, 2))]
    rows = [[_DENOMINATOR * (i == j) for j in range(3)] for i in range(3)]
    rows += np.rint(pure * _DENOMINATOR).astype(np.int64).tolist()
    basis = []
    for column in range(3):  # Euclid's algorithm, column by column, leaves a triangular basis
        while True:
            rows.sort(key=lambda row: (row[column] == 0, abs(row[column])))
            pivot, *others = rows
            times = [row[column] // pivot[column] for row in others]
            reduced = [
                [x - n * y for x, y in zip(row, pivot, strict=True)] for n, row in zip(times, others, strict=True)
            ]
            rows = [pivot, *reduced]
            if not any(row[column] for row in reduced):
                break
        basis.append(pivot)
        rows = reduced
    return np.array(basis, dtype=np.float64) / _DENOMINATOR
