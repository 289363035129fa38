"""Unit cells `(a, b, c, α, β, γ)` in ångström and degrees: metrics, systems and what is free in each.

Tensors are batches `(B, 6)`, on any device.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.data.source import Target
from vitreous.errors import InputError, check_choice

NAMES = ("a", "b", "c", "alpha", "beta", "gamma")

_FREE: dict[str, tuple[str, ...]] = {
    "triclinic": NAMES,
    "monoclinic": ("a", "b", "c", "beta"),
    "orthorhombic": ("a", "b", "c"),
    "tetragonal": ("a", "c"),
    "trigonal": ("a", "c"),
    "hexagonal": ("a", "c"),
    "cubic": ("a",),
}

PAIRS = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))
"""The six elements of a metric."""
FORMS: dict[str, tuple[tuple[float, ...], ...]] = {
    "triclinic": tuple(tuple(float(i == j) for j in range(6)) for i in range(6)),
    "monoclinic": ((1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0), (0, 0, 0, 0, 1, 0)),
    "orthorhombic": ((1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0)),
    "tetragonal": ((1, 1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0)),
    "trigonal": ((1, 1, 0, 0, 0, 0.5), (0, 0, 1, 0, 0, 0)),
    "hexagonal": ((1, 1, 0, 0, 0, 0.5), (0, 0, 1, 0, 0, 0)),
    "cubic": ((1, 1, 1, 0, 0, 0),),
}
"""The free numbers of each system's reciprocal metric: rows of factors for its elements in the order of `PAIRS`."""
CENTRINGS: dict[str, tuple[tuple[tuple[int, int, int], int], ...]] = {
    "P": (),
    "A": (((0, 1, 1), 2),),
    "B": (((1, 0, 1), 2),),
    "C": (((1, 1, 0), 2),),
    "I": (((1, 1, 1), 2),),
    "F": (((0, 1, 1), 2), ((1, 0, 1), 2)),
    "R": (((-1, 1, 1), 3),),
}
"""Which reflections each centring leaves: sums of indices that a number divides; R in the obverse setting."""


def shown(hkl: NDArray[np.int64], centring: str) -> NDArray[np.bool_]:
    """Whether a centring leaves reflections `(n, 3)`."""
    check_choice("centring", centring, CENTRINGS)
    found = np.ones(len(hkl), dtype=bool)
    for factors, divisor in CENTRINGS[centring]:
        found &= (hkl @ np.array(factors)) % divisor == 0
    return found


def targets(system: str) -> tuple[Target, ...]:
    """The free parameters of a crystal system as quantities to regress: lengths by their logarithm."""
    check_choice("system", system, _FREE)
    return tuple(Target(n, "Å", log=True) if n in "abc" else Target(n, "°") for n in _FREE[system])


def free(system: str, cell: Tensor) -> Tensor:
    """The free parameters `(B, k)` of cells `(B, 6)` in one form among the equivalent ones.

    Orthorhombic axes are sorted. Of a monoclinic cell, a and c are the shortest two in their plane, a ≤ c, β ≥ 90°.
    A triclinic cell is to be given Niggli-reduced.
    """
    if system == "orthorhombic":
        return cell[:, :3].sort(dim=1).values
    if system == "monoclinic":
        return _obtuse(cell)
    return cell[:, [NAMES.index(name) for name in _FREE[system]]]


def full(system: str, values: Tensor) -> Tensor:
    """Cells `(B, 6)` from their free parameters `(B, k)`."""
    given = dict(zip(_FREE[system], values.unbind(1), strict=True))
    a, right = given["a"], torch.full_like(given["a"], 90.0)
    b = given.get("b", a)
    c = given.get("c", a)
    gamma = torch.full_like(a, 120.0) if system in ("trigonal", "hexagonal") else right
    angles = [given.get("alpha", right), given.get("beta", right), given.get("gamma", gamma)]
    return torch.stack([a, b, c, *angles], dim=1)


def _obtuse(cell: Tensor) -> Tensor:
    """Gauss's reduction in the plane of a and c: `(B, 6) -> (B, 4)`."""
    a, c = cell[:, 0].square(), cell[:, 2].square()
    product = cell[:, 0] * cell[:, 2] * torch.deg2rad(cell[:, 4]).cos()
    for _ in range(8):
        swap = c < a
        a, c = torch.where(swap, c, a), torch.where(swap, a, c)
        times = (product / a).round()
        c, product = c - 2 * times * product + times.square() * a, product - times * a
    swap = c < a
    a, c = torch.where(swap, c, a), torch.where(swap, a, c)
    beta = torch.rad2deg(torch.arccos(-product.abs() / (a * c).sqrt()))
    return torch.stack([a.sqrt(), cell[:, 1], c.sqrt(), beta], dim=1)


def metric(cell: Tensor) -> Tensor:
    """The metric tensor `(B, 3, 3)` in Å²."""
    lengths = cell[:, :3]
    cosines = torch.deg2rad(cell[:, 3:]).cos()
    one = torch.ones_like(cosines[:, 0])
    angles = torch.stack(
        [one, cosines[:, 2], cosines[:, 1], cosines[:, 2], one, cosines[:, 0], cosines[:, 1], cosines[:, 0], one], dim=1
    )
    return lengths[:, :, None] * lengths[:, None, :] * angles.view(-1, 3, 3)


def reciprocal(cell: Tensor) -> Tensor:
    """The reciprocal metric `(B, 3, 3)` in 1/Å²: 1/d² = h G* h."""
    inverse: Tensor = torch.linalg.inv(metric(cell.double()))
    return inverse.to(cell.dtype)


def quadratic(inverse: Tensor) -> Tensor:
    """Reciprocal metrics `(B, 3, 3)` as factors of h², k², l², kl, hl and hk in 1/d², `(B, 6)`."""
    return torch.stack([inverse[:, i, j] * (1 if i == j else 2) for i, j in PAIRS], dim=1)


def of_metric(metric: Tensor) -> Tensor:
    """Cells `(B, 6)` from metric tensors `(B, 3, 3)`; NaN where there is none."""
    lengths = metric.diagonal(dim1=1, dim2=2).sqrt()
    cosines = [metric[:, i, j] / (lengths[:, i] * lengths[:, j]) for i, j in PAIRS[3:]]
    return torch.cat([lengths, torch.rad2deg(torch.arccos(torch.stack(cosines, dim=1).clamp(-1, 1)))], dim=1)


def is_reduced(cell: Tensor, slack: float = 1e-5) -> Tensor:
    """Whether cells are Niggli-reduced `(B,)`; boundary cases within `slack` count as reduced."""
    a, b, c = cell[:, 0], cell[:, 1], cell[:, 2]
    cosines = torch.deg2rad(cell[:, 3:]).cos()
    xi, eta, zeta = b * c * cosines[:, 0], a * c * cosines[:, 1], a * b * cosines[:, 2]
    near = slack * a * a
    sorted_ = (a <= b + near) & (b <= c + near)
    short = (2 * xi.abs() <= b * b + near) & (2 * eta.abs() <= a * a + near) & (2 * zeta.abs() <= a * a + near)
    acute = (cosines > 0).all(1)
    obtuse = (cosines <= slack).all(1) & (2 * (xi + eta + zeta).abs() <= a * a + b * b + near)
    return sorted_ & short & (acute | obtuse)


def check_cell(cell: Sequence[float], name: str = "cell") -> None:
    """Raise `InputError` unless six numbers make a cell."""
    if len(cell) != 6:
        raise InputError(f"{name}: found {len(cell)} number(s), expected a b c (Å) alpha beta gamma (°)")
    values = torch.tensor(list(cell), dtype=torch.float64)
    if not values.isfinite().all():
        raise InputError(f"{name}: found {_text(cell)}, expected finite numbers")
    if (values[:3] < 1).any() or (values[:3] > 200).any():
        raise InputError(f"{name}: found lengths {_text(cell[:3])}, expected 1 to 200 Å")
    if (values[3:] <= 0).any() or (values[3:] >= 180).any() or torch.linalg.det(metric(values[None]))[0] <= 1e-3:
        raise InputError(f"{name}: no cell has the angles {_text(cell[3:])}°")


def with_error(value: float, error: float) -> str:
    """A value with its standard error in the last digits, as crystallographers write it.

    >>> with_error(5.64024, 0.00013), with_error(90.0, 0.0)
    ('5.64024(13)', '90')
    """
    if error <= 0:
        return f"{value:g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{digits}f}({round(error * 10**digits)})"


def _text(values: Sequence[float]) -> str:
    return " ".join(f"{value:g}" for value in values)
