"""Reciprocal metrics in the free parameters of a crystal system: 1/d² of a reflection is linear in them.

1/d² = Σ x_p B_p(hkl), with as many parameters x as the system has free numbers.
"""

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from vitreous.core.errors import check_choice
from vitreous.powder.cell import (
    FORMS,
    PAIRS,
    allowed_by_centring,
    cell_from_metric,
    quadratic_form,
    reciprocal_metric,
    symmetric_matrices,
)
from vitreous.powder.observed_lines import ObservedLines


def _coefficients(row: tuple[float, ...]) -> tuple[float, ...]:
    """Factors of (h², k², l², kl, hl, hk) by which a free parameter enters 1/d²; the first one is 1."""
    twice = [factor * (1 if i == j else 2) for factor, (i, j) in zip(row, PAIRS, strict=True)]
    lead = next(factor for factor in twice if factor)
    return tuple(factor / lead for factor in twice)


_BASES = {system: tuple(_coefficients(row) for row in rows) for system, rows in FORMS.items()}


@lru_cache(maxsize=256)
def reflection_basis(system: str, centring: str, most: tuple[int, int, int]) -> Tensor:
    """B of the reflections of a lattice with indices up to `most`, `(H, P)`, one row for each set that coincides."""
    check_choice("system", system, _BASES)
    axes = np.meshgrid(*(np.arange(-m, m + 1) for m in most), indexing="ij")
    hkl = np.stack([axis.ravel() for axis in axes], axis=1)
    hkl = hkl[allowed_by_centring(hkl, centring) & hkl.any(1)]
    products = np.stack([hkl[:, i] * hkl[:, j] for i, j in PAIRS], axis=1)
    values = np.round(products @ np.array(_BASES[system]).T).astype(np.int64)
    digits = (2 * int(np.abs(values).max(initial=0)) + 1) ** np.arange(values.shape[1] - 1, -1, -1)
    first = np.unique(values @ digits, return_index=True)[1]  # one number a row: faster than to compare rows
    return torch.as_tensor(values[first], dtype=torch.float64)


def metric_from_cell(system: str, cell: Tensor) -> Tensor:
    """The free parameters `(C, P)` of the reciprocal metrics of cells `(C, 6)`."""
    lead = [row.index(1.0) for row in _BASES[system]]
    return quadratic_form(reciprocal_metric(cell.double()))[:, lead]


def cell_from_reciprocal(system: str, x: Tensor) -> Tensor:
    """Cells `(C, 6)` in ångström and degrees from parameters `(C, P)` of the reciprocal metric; NaN if invalid."""
    inverse = symmetric_matrices(x @ x.new_tensor(_BASES[system]) / x.new_tensor([1, 1, 1, 2, 2, 2]))
    good = (torch.linalg.det(inverse) > 1e-12) & (inverse.diagonal(dim1=1, dim2=2) > 0).all(1)
    metric = torch.linalg.inv(torch.where(good[:, None, None], inverse, torch.eye(3, dtype=x.dtype)))
    good &= (metric.diagonal(dim1=1, dim2=2) > 0).all(1)
    return torch.where(good[:, None], cell_from_metric(metric), torch.nan)


def reflections_in_range(system: str, centring: str, x: Tensor, lines: ObservedLines, highest: int) -> Tensor:
    """Basis rows `(H, P)` of all reflections that one of the lattices `(C, P)` has up to just beyond the last line."""
    reach = 1.1 * float(lines.q[-1])
    longest = cell_from_reciprocal(system, x)[:, :3].amax(0)
    a, b, c = (min(highest, int(length * math.sqrt(reach)) + 1) for length in longest.tolist())
    basis = reflection_basis(system, centring, (a, b, c))
    return basis[((basis @ x.T) < reach).any(1)]


def lowest_reflections(system: str, centring: str, x: Tensor, lines: ObservedLines, most: int) -> Tensor:
    """Basis rows `(H, P)` of the lowest reflections of a typical lattice among `(C, P)`, lowest first."""
    reach = 1.2 * float(lines.q[-1])
    longest = torch.nanquantile(cell_from_reciprocal(system, x)[:, :3], 0.98, dim=0)
    a, b, c = (min(14, int(length * math.sqrt(reach)) + 1) for length in longest.tolist())
    basis = reflection_basis(system, centring, (a, b, c))
    return basis[(basis @ x.median(0).values).argsort()][:most]
