"""A cell as its reciprocal metric, in which 1/d² is linear, and the reflections of its lattice."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from vitreous.core.errors import InputError
from vitreous.powder.bragg import s_from_two_theta, two_theta_from_s
from vitreous.powder.cell import (
    FORMS,
    PAIRS,
    allowed_by_centring,
    cells_of,
    free_indices,
    full_cell,
    metric_tensor,
    symmetric_matrices,
)
from vitreous.powder.refinement.profile import Array, Indices

_ORDER = {  # half the symmetry operations of each lattice
    "triclinic": 1, "monoclinic": 2, "orthorhombic": 4, "tetragonal": 8, "trigonal": 12, "hexagonal": 12, "cubic": 24
}  # fmt: skip
_TOLERANCE = 0.02  # relative: how far a cell may deviate from the constraints of its system


class ReciprocalMetric(NamedTuple):
    """The reciprocal metric of a cell; its free elements are `first * scale` at the start of a refinement."""

    inverse: Array  # (3, 3), 1/Å²
    forms: Array  # (free, 6)
    first: Array
    scale: Array


def metric_of_cell(cell: Sequence[float], system: str) -> ReciprocalMetric:
    """The metric of the nearest cell of a system; a cell far from it raises `InputError`."""
    exact = full_cell(system, torch.tensor([cell], dtype=torch.float64)[:, free_indices(system)])
    if any(abs(value / ideal - 1) > _TOLERANCE for value, ideal in zip(cell, exact[0].tolist(), strict=True)):
        raise InputError(f"cell: found {' '.join(f'{value:g}' for value in cell)}, which is not {system}")
    inverse = np.linalg.inv(metric_tensor(exact)[0].numpy())
    forms = np.array(FORMS[system], dtype=float)
    lead = [PAIRS[int(np.flatnonzero(row)[0])] for row in forms]
    scale = np.array([math.sqrt(inverse[i, i] * inverse[j, j]) for i, j in lead])
    return ReciprocalMetric(inverse, forms, np.array([inverse[i, j] for i, j in lead]) / scale, scale)


def cell_from_elements(values: Array, forms: Array) -> Array:
    """The six cell parameters from the free elements of the reciprocal metric."""
    return np.asarray(cells_of(np.linalg.inv(symmetric_matrices((values @ forms)[None])))[0])


def reflections(
    cell: Sequence[float], system: str, centring: str, wavelength: float, limits: tuple[float, float], most: int = 200
) -> tuple[Indices, Array]:
    """Indices `(n, 3)` and 2θ `(n,)` in degrees of the first reflections of a lattice in a range of 2θ."""
    hkl, _, angles = reflection_forms(metric_of_cell(cell, system), system, centring, wavelength, limits, most)
    return hkl, angles


def reflection_forms(
    lattice: ReciprocalMetric, system: str, centring: str, wavelength: float, limits: tuple[float, float], most: int
) -> tuple[Indices, Array, Array]:
    """One reflection for each value of 1/d² in a range of 2θ, factors of the free elements in its 1/d², and its 2θ."""
    low, high = (s_from_two_theta(float(angle), wavelength) for angle in limits)
    volume = 1 / math.sqrt(np.linalg.det(lattice.inverse))
    copies = _ORDER[system] * {"P": 1, "R": 3, "F": 4}.get(centring, 2)
    enough = (3 * 3 * copies * (most + 20) / (4 * math.pi * volume)) ** (1 / 3)  # for 1.5 times as many as needed
    high = min(high, enough + 2 * low)
    lengths = cell_from_elements(lattice.first * lattice.scale, lattice.forms)[:3]
    axes = np.meshgrid(*(np.arange(n, -n - 1, -1) for n in (lengths * high).astype(int)), indexing="ij")
    hkl = np.stack([axis.ravel() for axis in axes], axis=1)  # positive indices first
    square = np.einsum("ni,ij,nj->n", hkl, lattice.inverse, hkl)
    hkl = hkl[(square > low**2) & (square <= high**2)]
    hkl = hkl[allowed_by_centring(hkl, centring)]
    pairs = np.stack([hkl[:, i] * hkl[:, j] * (1 if i == j else 2) for i, j in PAIRS], axis=1)
    form, chosen = np.unique(pairs @ lattice.forms.T, axis=0, return_index=True)
    if not len(form):
        raise InputError(f"cell: has no reflections between {limits[0]:g} and {limits[1]:g}° of 2θ")
    form = form * lattice.scale
    order = np.argsort(form @ lattice.first)[:most]
    form = form[order]
    return hkl[chosen[order]], form, two_theta_from_s(np.sqrt(form @ lattice.first), wavelength)
