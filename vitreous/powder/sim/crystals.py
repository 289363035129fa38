"""Random crystals in batches: realistic cells, lines with the absences of a space group, Wilson intensities.

Random numbers come from torch's default generator of the device, so `torch.manual_seed` determines all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitreous.core.errors import InputError, check_choice
from vitreous.powder.cell import PAIRS, quadratic_form, reciprocal_metric
from vitreous.powder.reduction import is_niggli_reduced
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.space_groups import load_table

Device = torch.device | str

_FALL_OFF = (2.5, 6.0)  # Å², Debye-Waller factors that replace form factors and vibration of the atoms
_MAX_LENGTH = 30.0  # Å
HOLOHEDRIES = {  # a space group with the point symmetry of the lattice
    "triclinic": 2, "monoclinic": 10, "orthorhombic": 47, "tetragonal": 123, "trigonal": 191, "hexagonal": 191,
    "cubic": 221,
}  # fmt: skip
_AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_DIRECTIONS = {
    "tetragonal": _AXES[2:], "trigonal": _AXES[2:], "hexagonal": _AXES[2:], "cubic": ((1 / 3, 1 / 3, 1 / 3),)
}  # fmt: skip


@dataclass(frozen=True)
class Lines:
    """The diffraction lines of a batch of crystals, and the possible axes of preferred orientation."""

    s: Tensor  # (n,), 1/d in 1/Å
    intensity: Tensor  # (n,), multiplicity times |F|², in any unit
    owner: Tensor  # (n,), the crystal of each line
    tilt: Tensor  # (n, 3), cos² of the angles between the plane normal and a*, b* and c*
    directions: Tensor  # (k, 3), axes as weights of a*, b* and c*, to average over equivalent axes
    count: int  # of crystals

    def joined(self, s: Tensor, intensity: Tensor, owner: Tensor, tilt: Tensor) -> "Lines":
        """These and other lines of the same crystals."""
        pairs = ((self.s, s), (self.intensity, intensity), (self.owner, owner), (self.tilt, tilt))
        s, intensity, owner, tilt = (torch.cat(pair) for pair in pairs)
        return Lines(s, intensity, owner, tilt, self.directions, self.count)


@dataclass(frozen=True)
class Crystals:
    """A batch of random crystals: cells `(B, 6)`, space group numbers `(B,)`, and their lines."""

    cell: Tensor
    group: Tensor
    lines: Lines


class Reflections(NamedTuple):
    """The n reflections of B random crystals of a system, one of each set with the same d."""

    system: str
    cell: Tensor  # (B, 6)
    group: Tensor  # (B,), numbers of the space groups
    hkl: Tensor  # (n, 3)
    s: Tensor  # (n,), 1/d in 1/Å
    owner: Tensor  # (n,), the crystal of each reflection
    centric: Tensor  # (n,), whether the group of the crystal has an inversion centre
    multiplicity: Tensor  # (n,), of the set


def wilson_intensities(drawn: Reflections) -> Tensor:
    """Intensities `(n,)` by Wilson's statistics.

    |F|² has an exponential distribution or, in centrosymmetric groups, that of a squared normal variable. Its mean is
    inversely proportional to the multiplicity, so that all lines of a powder are equally strong on average.
    """
    normal = torch.randn_like(drawn.s)
    wilson = torch.where(drawn.centric, normal.square(), -torch.rand_like(drawn.s).clamp(min=1e-12).log())
    fall = torch.empty(len(drawn.cell), device=drawn.s.device).uniform_(*_FALL_OFF)
    return wilson * torch.exp(-fall[drawn.owner] * drawn.s.square() / 2)


def random_crystals(
    system: str, count: int, s_max: float, device: Device = "cpu",
    intensities: Callable[[Reflections], Tensor] = wilson_intensities,
) -> Crystals:  # fmt: skip
    """Crystals of a system with all lines up to 1/d = `s_max` (1/Å)."""
    check_choice("system", system, space_groups.SYSTEMS)
    cell, number = random_cells(system, count, device), random_groups(system, count, s_max, device)
    return crystals_with(system, cell, number, s_max, intensities)


def crystals_with(
    system: str, cell: Tensor, number: Tensor, s_max: float,
    intensities: Callable[[Reflections], Tensor] = wilson_intensities,
) -> Crystals:  # fmt: skip
    """Crystals with cells `(B, 6)` and space groups `(B,)` of a system, with all lines up to 1/d = `s_max` (1/Å)."""
    table, count = _table(system, s_max, cell.device), len(cell)
    group = table.row[number]
    inverse = reciprocal_metric(cell)  # (B, 3, 3)
    square = quadratic_form(inverse) @ table.products.T  # (B, M) of 1/d²
    present = (square < s_max**2) & table.present[group]
    owner, place = present.nonzero(as_tuple=True)
    s = square[owner, place].sqrt()
    hkl, metric = table.hkl[place], inverse[owner]
    centric, multiplicity = table.centric[group][owner], table.multiplicity[place]
    intensity = intensities(Reflections(system, cell, number, hkl, s, owner, centric, multiplicity))
    along = hkl[:, :1] * metric[:, 0] + hkl[:, 1:2] * metric[:, 1] + hkl[:, 2:] * metric[:, 2]  # (n, 3)
    tilt = along.square() / (s.square()[:, None] * metric.diagonal(dim1=1, dim2=2))
    return Crystals(cell, number, Lines(s, intensity, owner, tilt, table.directions, count))


def random_groups(system: str, count: int, s_max: float, device: Device = "cpu") -> Tensor:
    """The numbers of space groups of a system `(count,)`, as often as real crystals have them."""
    table = _table(system, s_max, torch.device(device))
    return table.numbers[torch.multinomial(table.frequency, count, replacement=True)]


def random_cells(system: str, count: int, device: Device = "cpu") -> Tensor:
    """Realistic cells `(count, 6)`; triclinic ones are Niggli-reduced, half of them acute."""
    if system != "triclinic":
        values = _draw_parameters(system, count, device)
        a = values[:, 0].exp()
        b = values[:, 1].exp() if system in ("monoclinic", "orthorhombic") else a
        c = a if system == "cubic" else values[:, -1 if system != "monoclinic" else 2].exp()
        right = torch.full_like(a, 90.0)
        beta = values[:, 3] if system == "monoclinic" else right
        gamma = right + 30 if system in ("trigonal", "hexagonal") else right
        return torch.stack([a, b, c.clamp(max=_MAX_LENGTH), right, beta, gamma], dim=1)
    accepted: list[Tensor] = []
    while sum(len(part) for part in accepted) < count:
        values = _draw_parameters(system, 2 * count + 64, device)
        a = values[:, 0].exp()
        b = a * values[:, 1].clamp(min=0).exp()
        c = (b * values[:, 2].clamp(min=0).exp()).clamp(max=_MAX_LENGTH)
        sign = torch.where(torch.rand_like(a) < 0.5, -1.0, 1.0)
        cell = torch.cat([torch.stack([a, b, c], dim=1), 90 + sign[:, None] * values[:, 3:]], dim=1)
        accepted.append(cell[is_niggli_reduced(cell)])
    return torch.cat(accepted)[:count]


def _draw_parameters(system: str, count: int, device: Device) -> Tensor:
    """Parameters `(count, k)` with the marginal distributions and the correlations of the prior."""
    quantiles, factor = _marginals(system, torch.device(device))
    normal = torch.randn(count, len(factor), device=device) @ factor.T
    share = 0.5 * (1 + torch.erf(normal / 2**0.5))
    place = ((share - 0.01) / 0.98 * (quantiles.shape[1] - 1)).clamp(0, quantiles.shape[1] - 1.001)
    low = place.long()
    rows = torch.arange(len(factor), device=device)
    below, above = quantiles[rows, low], quantiles[rows, low + 1]
    return below + (place - low) * (above - below)


@lru_cache(maxsize=32)
def _marginals(system: str, device: torch.device) -> tuple[Tensor, Tensor]:
    """Quantiles of each parameter, and the Cholesky factor of their correlations."""
    quantiles, factor = (load_table("prior")[f"{system}_{name}"] for name in ("quantiles", "factor"))
    return torch.as_tensor(quantiles, device=device), torch.as_tensor(factor, device=device)


@dataclass(frozen=True)
class _Table:
    """Reflections of a system, one of each set with the same d, and which space groups show them."""

    hkl: Tensor  # (M, 3)
    products: Tensor  # (M, 6): h², k², l², kl, hl, hk
    multiplicity: Tensor  # (M,)
    numbers: Tensor  # (G,), numbers of the space groups
    row: Tensor  # (231,), the place of each number among them
    present: Tensor  # (G, M), whether the group has the reflection
    centric: Tensor  # (G,)
    frequency: Tensor  # (G,), of the group in real crystals
    directions: Tensor  # (k, 3), see `Lines`


@lru_cache(maxsize=32)
def _table(system: str, s_max: float, device: torch.device) -> _Table:
    if not 0 < s_max <= 2:
        raise InputError(f"s_max: found {s_max:g}, expected 0 to 2 per ångström")
    prior, numbers = load_table("prior"), np.array(space_groups.groups_of_system(system))
    most = [int(length * s_max) for length in longest_axes(system)]
    rotations, translations = space_groups.operations(HOLOHEDRIES[system])
    unique = space_groups.unique_reflections(rotations, translations, most)
    hkl = unique.hkl.double()
    images = torch.einsum("mi,nij->nmj", hkl, torch.as_tensor(rotations, dtype=torch.float64))
    frequency = prior["frequency"][numbers - 1]
    numbers, frequency = numbers[frequency > 0], frequency[frequency > 0]
    absent = [space_groups.are_absent(images.flatten(0, 1), int(n)).view(images.shape[:2]) for n in numbers]
    return _Table(
        hkl.float().to(device),
        torch.stack([hkl[:, i] * hkl[:, j] for i, j in PAIRS], dim=1).float().to(device),
        unique.multiplicity.float().to(device),
        torch.as_tensor(numbers, device=device),
        torch.as_tensor(np.searchsorted(numbers, np.arange(231)), device=device),
        (~torch.stack(absent)).any(1).to(device),
        torch.tensor([space_groups.centrosymmetric(int(n)) for n in numbers], device=device),
        torch.as_tensor(frequency, device=device),
        torch.tensor(_DIRECTIONS.get(system, _AXES), device=device),
    )


def longest_axes(system: str) -> list[float]:
    """The longest axes of `random_cells`, in ångström."""
    top = load_table("prior")[f"{system}_quantiles"][:, -1].astype(float)
    logarithms = top[:3] if system in ("triclinic", "monoclinic", "orthorhombic") else top[[0, 0, -1]]
    lengths = np.exp(logarithms.cumsum() if system == "triclinic" else logarithms)  # triclinic: of ratios
    return np.minimum(lengths, _MAX_LENGTH).tolist()  # type: ignore[no-any-return]
