"""Unit cells `(a, b, c, α, β, γ)` in ångström and degrees: metric tensors, free parameters of the systems, text.

Tensors are batches `(B, 6)`, on any device.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from vitreous.core.errors import InputError, check_choice
from vitreous.data.source import Target
from vitreous.powder.reduction import reduce_plane

Floats = NDArray[np.float64]
Values = TypeVar("Values", NDArray[np.float64], Tensor)

NAMES = ("a", "b", "c", "alpha", "beta", "gamma")
COLUMNS = ("a (Å)", "b (Å)", "c (Å)", "α (°)", "β (°)", "γ (°)")  # headings of a table

_FREE: dict[str, tuple[str, ...]] = {
    "triclinic": NAMES,
    "monoclinic": ("a", "b", "c", "beta"),
    "orthorhombic": ("a", "b", "c"),
    **dict.fromkeys(("tetragonal", "trigonal", "hexagonal"), ("a", "c")),
    "cubic": ("a",),
}
PAIRS = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))  # the six elements of a metric tensor
# The free parameters of each system's reciprocal metric: rows of factors for its elements in the order of `PAIRS`.
FORMS: dict[str, tuple[tuple[float, ...], ...]] = {
    "triclinic": tuple(tuple(float(i == j) for j in range(6)) for i in range(6)),
    "monoclinic": ((1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0), (0, 0, 0, 0, 1, 0)),
    "orthorhombic": ((1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0)),
    "tetragonal": ((1, 1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0)),
    **dict.fromkeys(("trigonal", "hexagonal"), ((1, 1, 0, 0, 0, 0.5), (0, 0, 1, 0, 0, 0))),
    "cubic": ((1, 1, 1, 0, 0, 0),),
}
# Reflection conditions of each centring: factors of h, k and l, and a divisor of their sum; R in obverse setting.
CENTRINGS: dict[str, tuple[tuple[tuple[int, int, int], int], ...]] = {
    "P": (),
    "A": (((0, 1, 1), 2),),
    "B": (((1, 0, 1), 2),),
    "C": (((1, 1, 0), 2),),
    "I": (((1, 1, 1), 2),),
    "F": (((0, 1, 1), 2), ((1, 0, 1), 2)),
    "R": (((-1, 1, 1), 3),),
}


def allowed_by_centring(hkl: NDArray[np.int64], centring: str) -> NDArray[np.bool_]:
    """Whether a centring allows reflections `(n, 3)`."""
    check_choice("centring", centring, CENTRINGS)
    allowed = np.ones(len(hkl), dtype=bool)
    for factors, divisor in CENTRINGS[centring]:
        allowed &= (hkl @ np.array(factors)) % divisor == 0
    return allowed


def targets(system: str) -> tuple[Target, ...]:
    """The free parameters of a crystal system as regression targets: lengths by their logarithm."""
    check_choice("system", system, _FREE)
    return tuple(Target(n, "Å", log=True) if n in "abc" else Target(n, "°") for n in _FREE[system])


def free_indices(system: str) -> list[int]:
    """The places of a system's free parameters among the six of a cell."""
    return [NAMES.index(name) for name in _FREE[system]]


def free_parameters(system: str, cell: Tensor) -> Tensor:
    """The free parameters `(B, k)` of cells `(B, 6)`, the same for all equivalent settings.

    Orthorhombic axes are sorted. The axes a and c of a monoclinic cell are the shortest two in their plane, a ≤ c,
    β ≥ 90°. A triclinic cell must be Niggli-reduced.
    """
    if system == "orthorhombic":
        return cell[:, :3].sort(dim=1).values
    if system == "monoclinic":
        product = cell[:, 0] * cell[:, 2] * torch.deg2rad(cell[:, 4]).cos()
        a, c, product, _ = reduce_plane(cell[:, 0].square(), cell[:, 2].square(), product)
        beta = torch.rad2deg(torch.arccos(-product.abs() / (a * c).sqrt()))
        return torch.stack([a.sqrt(), cell[:, 1], c.sqrt(), beta], dim=1)
    return cell[:, free_indices(system)]


def full_cell(system: str, values: Tensor) -> Tensor:
    """Cells `(B, 6)` from their free parameters `(B, k)`."""
    named = dict(zip(_FREE[system], values.unbind(1), strict=True))
    a, right = named["a"], torch.full_like(named["a"], 90.0)
    gamma = torch.full_like(a, 120.0) if system in ("trigonal", "hexagonal") else right
    fixed = dict(zip(NAMES, (a, a, a, right, right, gamma), strict=True))
    return torch.stack(list((fixed | named).values()), dim=1)


def symmetric_matrices(six: Values) -> Values:
    """Symmetric matrices `(B, 3, 3)` from their six elements `(B, 6)` in the order of `PAIRS`."""
    return six[:, [0, 5, 4, 5, 1, 3, 4, 3, 2]].reshape(-1, 3, 3)


def metric_tensor(cell: Tensor) -> Tensor:
    """The metric tensors `(B, 3, 3)` in Å²."""
    lengths = cell[:, :3]
    angles = symmetric_matrices(torch.cat([torch.ones_like(lengths), torch.deg2rad(cell[:, 3:]).cos()], dim=1))
    return lengths[:, :, None] * lengths[:, None, :] * angles


def reciprocal_metric(cell: Tensor) -> Tensor:
    """The reciprocal metric tensors `(B, 3, 3)` in 1/Å²: 1/d² = h G* h."""
    inverse: Tensor = torch.linalg.inv(metric_tensor(cell.double()))
    return inverse.to(cell.dtype)


def quadratic_form(inverse: Tensor) -> Tensor:
    """Reciprocal metrics `(B, 3, 3)` as factors of h², k², l², kl, hl and hk in 1/d², `(B, 6)`."""
    return torch.stack([inverse[:, i, j] * (1 if i == j else 2) for i, j in PAIRS], dim=1)


def cell_from_metric(metric: Tensor) -> Tensor:
    """Cells `(B, 6)` from metric tensors `(B, 3, 3)`; NaN where a metric is not positive."""
    lengths = metric.diagonal(dim1=1, dim2=2).sqrt()
    cosines = [metric[:, i, j] / (lengths[:, i] * lengths[:, j]) for i, j in PAIRS[3:]]
    return torch.cat([lengths, torch.rad2deg(torch.arccos(torch.stack(cosines, dim=1).clamp(-1, 1)))], dim=1)


def metrics_of(cells: ArrayLike) -> Floats:
    """The metric tensors `(B, 3, 3)` of cells `(B, 6)` as arrays; raises `InputError` for an invalid cell."""
    values = np.array(cells, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != 6:
        raise InputError(f"cells: found an array of shape {values.shape}, expected (B, 6)")
    metrics: Floats = metric_tensor(torch.from_numpy(values)).numpy()
    with np.errstate(all="ignore"):
        good = np.isfinite(metrics).all((1, 2)) & (values > 0).all(1) & (values[:, 3:] < 180).all(1)
        good &= np.linalg.det(metrics) > 1e-9 * values[:, :3].prod(1) ** 2
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        raise InputError(f"cells: found {_text(values[row].tolist())} in row {row}, expected a valid unit cell")
    return metrics


def cells_of(metrics: NDArray[np.floating]) -> Floats:
    """Cells `(B, 6)` from metric tensors `(B, 3, 3)`, as arrays."""
    cells: Floats = cell_from_metric(torch.from_numpy(metrics)).numpy()
    return cells


def volumes(cells: ArrayLike) -> Floats:
    """Volumes `(B,)` in Å³."""
    return np.asarray(np.sqrt(np.linalg.det(metrics_of(cells))))


def check_cell(cell: Sequence[float], name: str = "cell") -> None:
    """Raise `InputError` unless six numbers are a valid cell."""
    if len(cell) != 6:
        raise InputError(f"{name}: found {len(cell)} number(s), expected a b c (Å) alpha beta gamma (°)")
    values = torch.tensor(list(cell), dtype=torch.float64)
    if not values.isfinite().all():
        raise InputError(f"{name}: found {_text(cell)}, expected finite numbers")
    if (values[:3] < 1).any() or (values[:3] > 200).any():
        raise InputError(f"{name}: found lengths {_text(cell[:3])}, expected 1 to 200 Å")
    if (values[3:] <= 0).any() or (values[3:] >= 180).any() or torch.linalg.det(metric_tensor(values[None]))[0] <= 1e-3:
        raise InputError(f"{name}: found angles {_text(cell[3:])}°, expected those of a cell with a volume above 0")


def _text(values: Sequence[float]) -> str:
    return " ".join(f"{value:g}" for value in values)


def with_error(value: float, error: float) -> str:
    """A value with its standard error in parentheses, in units of the last digit.

    >>> with_error(5.64024, 0.00013), with_error(90.0, 0.0)
    ('5.64024(13)', '90')
    """
    if error <= 0:
        return f"{value:g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{digits}f}({round(error * 10**digits)})"


def refined_parameters(cell: Sequence[float], errors: Sequence[float]) -> str:
    """The parameters of a cell that were refined, with names, errors and units; equal axes have one name.

    >>> refined_parameters((5.64024,) * 3 + (90.0,) * 3, (0.00013,) * 3 + (0.0,) * 3)
    'a = 5.64024(13) Å'
    """
    shown: dict[tuple[float, float], str] = {}
    for name, value, error in zip(NAMES, cell, errors, strict=True):
        if error > 0:
            shown.setdefault((value, error), f"{name} = {with_error(value, error)}{' Å' if name in 'abc' else '°'}")
    return ", ".join(shown.values())


def cell_columns(cell: Sequence[float], angle_digits: int = 2) -> list[str]:
    """The six parameters of a cell as cells of a table."""
    return [f"{value:.4f}" for value in cell[:3]] + [f"{value:.{angle_digits}f}" for value in cell[3:]]


def cell_line(cell: Sequence[float]) -> str:
    """A cell on one line.

    >>> cell_line((4.5937, 4.5937, 2.9587, 90.0, 90.0, 90.0))
    '4.5937 4.5937 2.9587 Å, 90 90 90°'
    """
    lengths, angles = (" ".join(f"{value:.6g}" for value in part) for part in (cell[:3], cell[3:]))
    return f"{lengths} Å, {angles}°"
