"""Two-dimensional Ising spins in equilibrium (S2.9), in batches, on any device.

E = -J Σ s_i s_j over neighbours, in units of |J|, temperatures in |J| / k. Cluster updates (Swendsen and Wang 1987)
lose little of their speed at the critical point; Metropolis' single flips on a checkerboard are there to compare with.
Random numbers come from torch's own generator of the device, so a seed set outside decides all of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from vitreous.data.symmetry import roll
from vitreous.errors import InputError, check_choice
from vitreous.gpu import kernels

CRITICAL = 2 / math.log(1 + math.sqrt(2))
"""Onsager's critical temperature, 2.269."""

_GPU = kernels("sim.clusters")
_JUMPS = 3
SWEEPS = 40  # cluster updates from a lowest state until the mean energy of 64 × 64 spins is the exact one


@dataclass(frozen=True)
class Lattice:
    """A square lattice with a rule for what lies beyond its edges.

    Args:
        size: spins along each axis.
        boundary: periodic; skewed: the right neighbour of a row's last spin is the first of the next row; antiperiodic:
            bonds across the right and the lower edge have the other sign.
        ferromagnetic: whether like neighbours have the lower energy.
    """

    size: int
    boundary: str = "periodic"
    ferromagnetic: bool = True

    def __post_init__(self) -> None:
        check_choice("boundary", self.boundary, _NEIGHBOURS)
        if self.size < 2:
            raise InputError(f"size: found {self.size}, expected at least 2 spins along each axis")

    def bonds(self, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
        """Of each spin the neighbours to the right and below, `(2, size²)`, and the signs of these bonds."""
        place = torch.arange(self.size**2, device=device)
        neighbours, signs = _NEIGHBOURS[self.boundary](place, self.size)
        return neighbours, signs if self.ferromagnetic else -signs


def _periodic(place: Tensor, size: int) -> tuple[Tensor, Tensor]:
    row, column = place // size, place % size
    neighbours = torch.stack([row * size + (column + 1) % size, (row + 1) % size * size + column])
    return neighbours, torch.ones_like(neighbours, dtype=torch.float32)


def _skewed(place: Tensor, size: int) -> tuple[Tensor, Tensor]:
    neighbours = torch.stack([place + 1, place + size]) % size**2
    return neighbours, torch.ones_like(neighbours, dtype=torch.float32)


def _antiperiodic(place: Tensor, size: int) -> tuple[Tensor, Tensor]:
    neighbours, signs = _periodic(place, size)
    edge = torch.stack([place % size == size - 1, place // size == size - 1])
    return neighbours, torch.where(edge, -signs, signs)


_NEIGHBOURS: dict[str, Callable[[Tensor, int], tuple[Tensor, Tensor]]] = {
    "periodic": _periodic, "skewed": _skewed, "antiperiodic": _antiperiodic
}  # fmt: skip


def energy(spins: Tensor, lattice: Lattice) -> Tensor:
    """Energy per spin of `(B, size, size)`: `(B,)`, in |J|."""
    flat = spins.flatten(1).float()
    neighbours, signs = lattice.bonds(spins.device)
    return -(signs * flat[:, None] * flat[:, neighbours]).sum((1, 2)) / flat.shape[1]


def magnetisation(spins: Tensor, lattice: Lattice) -> Tensor:
    """Of each sample `(B,)`, between -1 and 1; of antiferromagnets that of one sublattice against the other."""
    flat = spins.float()
    if not lattice.ferromagnetic:
        flat = flat * _chequers(lattice.size, spins.device)
    return flat.mean((1, 2))


def microstates(temperature: Tensor, lattice: Lattice, sweeps: int = SWEEPS) -> Tensor:
    """Spins `(B, size, size)` of 1 and -1, one sample in equilibrium at each temperature `(B,)`.

    Args:
        temperature: in |J| / k, above zero.
        sweeps: cluster updates from a lowest state.
    """
    _check(temperature)
    spins = lowest(len(temperature), lattice, temperature.device).flatten(1)
    for _ in range(sweeps):
        spins = _updated(spins, temperature, lattice)
    return spins.view(-1, lattice.size, lattice.size).to(torch.int8)


def lowest(count: int, lattice: Lattice, device: torch.device | str = "cpu") -> Tensor:
    """States `(count, size, size)` of lowest energy, each as likely as any other where the chequers fit the lattice.

    Cold spins start near equilibrium from here; from a random start an antiperiodic lattice, whose wall between two
    domains cannot vanish, takes thousands of updates to straighten it.
    """
    size = lattice.size
    spins = torch.ones(count, size, size, device=device)
    if lattice.boundary == "antiperiodic":
        spins = _walls(count, size, device)
    return spins if lattice.ferromagnetic else spins * _chequers(size, spins.device)


def _walls(count: int, size: int, device: torch.device | str) -> Tensor:
    """Two domains with a wall of 2 · size bonds between them, a random staircase along one of the diagonals."""
    column = torch.arange(size, device=device)
    steps = torch.rand(count, 2 * size, device=device).argsort(1)[:, :size].sort(1).values  # those that lead down
    spins = torch.where(column < (steps - column)[:, :, None], 1.0, -1.0)
    mirrored = torch.rand(count, 1, 1, device=device) < 0.5
    spins = torch.where(mirrored, spins.flip(2), spins)
    shift = torch.randint(2 * size, (count, 2), device=device)
    return roll(spins.unsqueeze(1), shift, "antiperiodic").squeeze(1)


def swendsen_wang(spins: Tensor, temperature: Tensor, lattice: Lattice) -> Tensor:
    """One cluster update of spins `(B, size²)`: every cluster of frozen bonds is flipped or not."""
    _check(temperature)
    return _updated(spins, temperature, lattice)


def _updated(spins: Tensor, temperature: Tensor, lattice: Lattice) -> Tensor:
    neighbours, signs = lattice.bonds(spins.device)
    satisfied = signs * spins[:, None] * spins[:, neighbours] > 0  # (B, 2, N)
    frozen = satisfied & (torch.rand_like(satisfied, dtype=torch.float32) > torch.exp(-2 / temperature)[:, None, None])
    label = _find(frozen.device.type)(frozen, neighbours)
    flip = torch.randint(2, spins.shape, device=spins.device).float() * 2 - 1
    return spins * flip.gather(1, label)


def _find(device: str) -> Callable[[Tensor, Tensor], Tensor]:
    """What finds the clusters of frozen bonds on a device; all give spins of a cluster the same number below N."""
    if device == "cuda" and _GPU is not None:
        return _GPU.named  # type: ignore[no-any-return]
    return _connected if device == "cpu" else _clusters


def _connected(frozen: Tensor, neighbours: Tensor) -> Tensor:
    """A number for the cluster of each spin, `(B, N)`, from 0 to below N; one after the other, as a CPU has it."""
    batch, _, count = frozen.shape
    bonds = frozen.mT.contiguous()  # (B, N, 2)
    there = (neighbours.T + torch.arange(0, batch * count, count)[:, None, None])[bonds].int()
    ends = F.pad(bonds.sum(2).flatten().cumsum(0), (1, 0)).int()
    graph = csr_array((np.ones(len(there), np.int8), there.numpy(), ends.numpy()), shape=(batch * count, batch * count))
    label = torch.from_numpy(connected_components(graph, directed=False)[1]).long().view(batch, count)
    return label - label[:, :1]


def _clusters(frozen: Tensor, neighbours: Tensor) -> Tensor:
    """The lowest place in the cluster of each spin, `(B, N)`, all at the same time, as any other device has it."""
    batch, _, count = frozen.shape
    back = torch.empty_like(neighbours).scatter_(1, neighbours, torch.arange(count, device=frozen.device).expand(2, -1))
    ways = [*zip(frozen.unbind(1), neighbours, strict=True)]
    ways += [(bond[:, there], there) for bond, there in zip(frozen.unbind(1), back, strict=True)]
    label = torch.arange(count, device=frozen.device).repeat(batch, 1)
    while True:
        before, lowest = label, label
        for bond, there in ways:
            lowest = torch.where(bond, torch.minimum(lowest, label.index_select(1, there)), lowest)
        # whole clusters join, at the place that they are named by
        label = label.scatter_reduce(1, label, lowest, "amin")
        for _ in range(_JUMPS):
            label = label.gather(1, label)
        if torch.equal(label, before):
            return label


def metropolis(spins: Tensor, temperature: Tensor, lattice: Lattice) -> Tensor:
    """One sweep of single flips over spins `(B, size²)`, one colour of the checkerboard after the other."""
    if lattice.boundary == "skewed" or lattice.size % 2:
        raise InputError("metropolis: needs a checkerboard: an even size, and edges that are not skewed")
    _check(temperature)
    neighbours, signs = lattice.bonds(spins.device)
    colours = _chequers(lattice.size, spins.device).flatten() > 0
    for colour in (colours, ~colours):
        field = (signs * spins[:, neighbours]).sum(1)
        for bond, sign in zip(neighbours, signs, strict=True):
            field = field.index_add(1, bond, sign * spins)
        odds = torch.exp(-2 * spins * field / temperature[:, None])
        flips = colour & (torch.rand_like(spins) < odds)
        spins = torch.where(flips, -spins, spins)
    return spins


def _chequers(size: int, device: torch.device) -> Tensor:
    place = torch.arange(size, device=device)
    return 1.0 - 2.0 * ((place[:, None] + place) % 2)


def _check(temperature: Tensor) -> None:
    bad = temperature[~((temperature > 0) & temperature.isfinite())]
    if len(bad):
        raise InputError(f"temperature: found {float(bad[0]):g}, expected a finite one above zero, in |J| / k")


def onsager_energy(temperature: float) -> float:
    """Energy per spin of the infinite periodic lattice, in |J| (Onsager 1944)."""
    order = math.tanh(2 * _inverse(temperature))
    lean = 2 * order**2 - 1  # its square is 1 - k²
    return -(1 + 2 / math.pi * lean * _elliptic(abs(lean))) / order if lean else -1 / order


def onsager_magnetisation(temperature: float) -> float:
    """Spontaneous magnetisation of the infinite lattice (Yang 1952)."""
    beta = _inverse(temperature)
    if temperature >= CRITICAL:
        return 0.0
    return float((1 - math.sinh(min(2 * beta, 100.0)) ** -4) ** 0.125)


def heat_capacity(temperature: float) -> float:
    """Of the infinite lattice, per spin, in k: the slope of Onsager's energy, taken over a small step."""
    step = 5e-4 * temperature
    return (onsager_energy(temperature + step) - onsager_energy(temperature - step)) / (2 * step)


def correlation_length(temperature: float) -> float:
    """Along an axis of the infinite lattice, in spins: how far fluctuations are alike (McCoy and Wu 1973)."""
    beta = _inverse(temperature)
    rate = -math.log(math.tanh(beta)) - 2 * beta
    if rate > 0:
        return 1 / rate
    return 1 / (-2 * rate) if rate < 0 else math.inf


def _inverse(temperature: float) -> float:
    _check(torch.tensor([temperature]))
    return 1 / temperature


def _elliptic(complement: float) -> float:
    """The complete elliptic integral of the first kind, of √(1 - k²), by the arithmetic-geometric mean."""
    a, b = 1.0, complement
    while abs(a - b) > 1e-15 * a:
        a, b = (a + b) / 2, math.sqrt(a * b)
    return math.pi / (2 * a)
