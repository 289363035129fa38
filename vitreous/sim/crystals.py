"""Random crystals in batches: cells like real ones, lines with the extinctions of a space group, Wilson intensities.

Random numbers come from torch's own generator of the device, so a seed set outside decides all of them.
"""

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.errors import InputError, check_choice
from vitreous.powder.cell import PAIRS, is_reduced, quadratic, reciprocal
from vitreous.sim import groups

_FALL = (2.5, 6.0)  # Å², Debye-Waller factors that stand for form factors and vibration of all atoms together
_LONGEST = 30.0  # Å
_HOLOHEDRIES = {  # a group with the point symmetry of each system's lattice
    "triclinic": 2, "monoclinic": 10, "orthorhombic": 47, "tetragonal": 123, "trigonal": 191, "hexagonal": 191,
    "cubic": 221,
}  # fmt: skip


_AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_DIRECTIONS = {
    "tetragonal": _AXES[2:], "trigonal": _AXES[2:], "hexagonal": _AXES[2:], "cubic": ((1 / 3, 1 / 3, 1 / 3),)
}  # fmt: skip


@dataclass(frozen=True)
class Lines:
    """The diffraction lines of a batch of crystals, one after the other.

    Args:
        s: `(n,)`, 1/d in 1/Å.
        intensity: `(n,)`, multiplicity times |F|², in any unit.
        owner: `(n,)`, which crystal of the batch each belongs to.
        tilt: `(n, 3)`, cos² of the angle between the line's plane normal and a*, b* and c*.
        directions: `(k, 3)`, the axes that grains may prefer, as weights of those three: equivalent axes go together.
        count: crystals of the batch.
    """

    s: Tensor
    intensity: Tensor
    owner: Tensor
    tilt: Tensor
    directions: Tensor
    count: int


@dataclass(frozen=True)
class Crystals:
    """A batch of random crystals: cells `(B, 6)`, space group numbers `(B,)`, and their lines."""

    cell: Tensor
    group: Tensor
    lines: Lines


def random_crystals(system: str, count: int, s_max: float, device: torch.device | str = "cpu") -> Crystals:
    """Crystals of a system with every line up to 1/d = `s_max` (1/Å).

    Intensities follow Wilson's statistics: |F|² is exponential about its mean, or the square of a normal number in
    centrosymmetric groups. The mean of a special line grows as its multiplicity falls (ε), so that all lines of a
    powder are equally strong on average.
    """
    check_choice("system", system, groups.SYSTEMS)
    cell = random_cells(system, count, device)
    table = _table(system, s_max, torch.device(device))
    group = torch.multinomial(table.frequency, count, replacement=True)
    inverse = reciprocal(cell)  # (B, 3, 3)
    square = quadratic(inverse) @ table.products.T  # (B, M) of 1/d²
    present = (square < s_max**2) & table.present[group]
    owner, place = present.nonzero(as_tuple=True)
    s = square[owner, place].sqrt()
    centric = table.centric[group][owner]
    normal = torch.randn_like(s)
    wilson = torch.where(centric, normal.square(), -torch.rand_like(s).clamp(min=1e-12).log())
    fall = torch.empty(count, device=device).uniform_(*_FALL)
    hkl, metric = table.hkl[place], inverse[owner]
    along = hkl[:, :1] * metric[:, 0] + hkl[:, 1:2] * metric[:, 1] + hkl[:, 2:] * metric[:, 2]  # (n, 3)
    tilt = along.square() / (s.square()[:, None] * metric.diagonal(dim1=1, dim2=2))
    intensity = wilson * torch.exp(-fall[owner] * s.square() / 2)
    directions = torch.tensor(_DIRECTIONS.get(system, _AXES), device=device)
    return Crystals(cell, table.numbers[group], Lines(s, intensity, owner, tilt, directions, count))


def random_cells(system: str, count: int, device: torch.device | str = "cpu") -> Tensor:
    """Cells `(count, 6)` with the statistics of real ones; triclinic ones Niggli-reduced, as many acute as obtuse."""
    if system != "triclinic":
        values = _draw(system, count, device)
        a = values[:, 0].exp()
        b = values[:, 1].exp() if system in ("monoclinic", "orthorhombic") else a
        c = a if system == "cubic" else values[:, -1 if system != "monoclinic" else 2].exp()
        right = torch.full_like(a, 90.0)
        beta = values[:, 3] if system == "monoclinic" else right
        gamma = right + 30 if system in ("trigonal", "hexagonal") else right
        return torch.stack([a, b, c.clamp(max=_LONGEST), right, beta, gamma], dim=1)
    kept: list[Tensor] = []
    while sum(len(part) for part in kept) < count:
        values = _draw(system, 2 * count + 64, device)
        a = values[:, 0].exp()
        b = a * values[:, 1].clamp(min=0).exp()
        c = (b * values[:, 2].clamp(min=0).exp()).clamp(max=_LONGEST)
        sign = torch.where(torch.rand_like(a) < 0.5, -1.0, 1.0)
        cell = torch.cat([torch.stack([a, b, c], dim=1), 90 + sign[:, None] * values[:, 3:]], dim=1)
        kept.append(cell[is_reduced(cell)])
    return torch.cat(kept)[:count]


def _draw(system: str, count: int, device: torch.device | str) -> Tensor:
    """Parameters `(count, k)` with the marginals and the correlations of the prior."""
    quantiles, factor = (
        torch.as_tensor(_prior()[f"{system}_{name}"], device=device) for name in ("quantiles", "factor")
    )
    normal = torch.randn(count, len(factor), device=device) @ factor.T
    share = 0.5 * (1 + torch.erf(normal / 2**0.5))
    place = ((share - 0.01) / 0.98 * (quantiles.shape[1] - 1)).clamp(0, quantiles.shape[1] - 1.001)
    low = place.long()
    rows = torch.arange(len(factor), device=device)
    below, above = quantiles[rows, low], quantiles[rows, low + 1]
    return below + (place - low) * (above - below)


@lru_cache(maxsize=1)
def _prior() -> dict[str, NDArray[Any]]:
    with files("vitreous.sim").joinpath("prior.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


@dataclass(frozen=True)
class _Table:
    """Lines that any group of a system can show: one of each set that its lattice makes coincide."""

    hkl: Tensor  # (M, 3)
    products: Tensor  # (M, 6): h², k², l², kl, hl, hk
    numbers: Tensor  # (G,), the space groups
    present: Tensor  # (G, M), whether the group shows the line
    centric: Tensor  # (G,)
    frequency: Tensor  # (G,), how often the group occurs


@lru_cache(maxsize=32)
def _table(system: str, s_max: float, device: torch.device) -> _Table:
    if not 0 < s_max <= 2:
        raise InputError(f"s_max: found {s_max:g}, expected 0 to 2 per ångström")
    prior, numbers = _prior(), np.array(groups.numbers(system))
    longest = _longest(system)
    most = (int(longest[0] * s_max), int(longest[1] * s_max), int(longest[2] * s_max))
    rotations, translations = groups.operations(_HOLOHEDRIES[system])
    hkl = groups.distinct(rotations, translations, most).hkl.double()
    images = torch.einsum("mi,nij->nmj", hkl, torch.as_tensor(rotations, dtype=torch.float64))
    frequency = prior["frequency"][numbers - 1]
    numbers, frequency = numbers[frequency > 0], frequency[frequency > 0]
    present = torch.stack([~groups.absent(images.flatten(0, 1), int(n)).view(images.shape[:2]) for n in numbers])
    return _Table(
        hkl.float().to(device),
        torch.stack([hkl[:, i] * hkl[:, j] for i, j in PAIRS], dim=1).float().to(device),
        torch.as_tensor(numbers, device=device),
        present.any(1).to(device),
        torch.tensor([groups.centrosymmetric(int(n)) for n in numbers], device=device),
        torch.as_tensor(frequency, device=device),
    )


def _longest(system: str) -> tuple[float, float, float]:
    """The longest axes that `random_cells` gives."""
    top = _prior()[f"{system}_quantiles"][:, -1].astype(float)
    if system == "triclinic":
        a, b = np.exp(top[0]), np.exp(top[0] + top[1])
        return float(a), float(b), min(_LONGEST, float(np.exp(top[:3].sum())))
    lengths = np.exp(top[:3]) if system in ("monoclinic", "orthorhombic") else np.exp(top[[0, 0, -1]])
    a, b, c = np.minimum(lengths, _LONGEST).tolist()
    return a, b, c
