"""Random lattices of every type, other bases of a lattice, and the peer that reduces them."""

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.data import data_folder
from vitreous.powder.cell import cells_of, metrics_of
from vitreous.powder.lattice import primitive

Cells = NDArray[np.float64]

REAL = data_folder() / "crystals" / "cells.npz"
ROTATIONS = {
    "triclinic": 1, "monoclinic": 2, "orthorhombic": 4, "trigonal": 6, "tetragonal": 8, "hexagonal": 12, "cubic": 24
}  # fmt: skip
CENTRINGS = {
    "cubic": "PIF", "tetragonal": "PI", "hexagonal": "P", "trigonal": "R", "orthorhombic": "PCIF", "monoclinic": "PC",
    "triclinic": "P",
}  # fmt: skip
TYPES = [(system, letter) for system, letters in CENTRINGS.items() for letter in letters]
POINTS = {"P": 1, "A": 2, "C": 2, "I": 2, "R": 3, "F": 4}
BORDERS = [  # conventional cells, of which the reduced ones have equal lengths or angles of 60, 90 and 120°
    ("P", (4, 4, 4, 90, 90, 90)), ("I", (4, 4, 4, 90, 90, 90)), ("F", (4, 4, 4, 90, 90, 90)),
    ("P", (3, 3, 5, 90, 90, 120)), ("P", (5, 5, 3, 90, 90, 120)), ("P", (4, 4, 4, 90, 90, 60)),
    ("R", (4, 4, 9, 90, 90, 120)), ("R", (9, 9, 4, 90, 90, 120)), ("R", (4, 4, 4 * math.sqrt(6), 90, 90, 120)),
    ("R", (4, 4, 4 * math.sqrt(3 / 8), 90, 90, 120)), ("P", (4, 4, 7, 90, 90, 90)), ("P", (7, 7, 4, 90, 90, 90)),
    ("I", (4, 4, 7, 90, 90, 90)), ("I", (7, 7, 4, 90, 90, 90)), ("I", (4, 4, 4 * math.sqrt(2), 90, 90, 90)),
    ("C", (3, 3 * math.sqrt(3), 5, 90, 90, 90)), ("C", (4, 6, 9, 90, 90, 90)), ("I", (4, 6, 9, 90, 90, 90)),
    ("F", (4, 6, 9, 90, 90, 90)), ("A", (4, 6, 9, 90, 90, 90)), ("C", (9, 4, 6, 90, 117, 90)),
    ("P", (4, 6, 9, 90, 90 + math.degrees(math.asin(2 / 9)), 90)), ("P", (5, 5, 5, 75, 75, 75)),
    ("P", (5, 5, 5, 117, 117, 117)), ("P", (5, 5, 8, 60, 60, 60)), ("P", (6, 5, 5, 120, 90, 90)),
]  # fmt: skip


def draw(system: str, count: int, random: np.random.Generator) -> Cells:
    """Conventional cells `(count, 6)` of a lattice, 3 to 20 Å."""
    a, b, c = np.exp(random.uniform(math.log(3), math.log(20), (3, count)))
    right = np.full(count, 90.0)
    alpha, beta, gamma = random.uniform(65, 115, (3, count))
    return np.stack(
        {
            "cubic": (a, a, a, right, right, right),
            "tetragonal": (a, a, c, right, right, right),
            "hexagonal": (a, a, c, right, right, right + 30),
            "trigonal": (a, a, c, right, right, right + 30),
            "orthorhombic": (a, b, c, right, right, right),
            "monoclinic": (a, b, c, right, random.uniform(92, 130, count), right),
            "triclinic": (a, b, c, alpha, beta, gamma),
        }[system],
        axis=1,
    )


def other_bases(cells: Cells, random: np.random.Generator) -> Cells:
    """Skew cells of the same lattices."""
    total = np.tile(np.eye(3), (len(cells), 1, 1))
    for i, j in itertools.permutations(range(3), 2):
        step = np.tile(np.eye(3), (len(cells), 1, 1))
        step[:, i, j] = random.integers(-1, 2, len(cells))
        total = total @ step
    return cells_of(total.transpose(0, 2, 1) @ metrics_of(cells) @ total)


def strained(cells: Cells, size: float, random: np.random.Generator) -> Cells:
    """Cells after a random strain that changes no length by more than this share."""
    strain = random.normal(size=(len(cells), 3, 3))
    strain += strain.transpose(0, 2, 1)
    strain *= size / np.abs(np.linalg.eigvalsh(strain)).max(1)[:, None, None]
    basis = np.linalg.cholesky(metrics_of(cells)) @ (np.eye(3) + strain)
    return cells_of(basis @ basis.transpose(0, 2, 1))


def reduced_by(gemmi: Any, cells: Cells, centring: str = "P") -> Cells:
    reduced = []
    for cell in cells.tolist():
        vector = gemmi.GruberVector(gemmi.UnitCell(*cell), centring)
        vector.niggli_reduce()
        reduced.append(vector.cell_parameters())
    return np.array(reduced)


def primitives(cells: Cells, centring: NDArray[np.str_]) -> Cells:
    found = np.empty_like(cells)
    for letter in np.unique(centring):
        found[centring == letter] = primitive(cells[centring == letter], str(letter))
    return found
