"""Monte Carlo simulation of two-dimensional Ising spins in equilibrium (S2.9), in batches, on any device.

E = -J Σ s_i s_j over neighbours, in units of |J|; temperatures in |J| / k. Cluster updates (Swendsen and Wang 1987)
stay efficient at the critical point; Metropolis single-spin flips on a checkerboard serve as a reference. Random
numbers come from torch's generator of the device, so that the caller's seed decides all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from vitreous.core.errors import InputError, check_choice
from vitreous.data.transforms import roll
from vitreous.gallery.ising.clusters import label_clusters
from vitreous.gallery.ising.exact import check_temperature

SWEEPS = 40
"""Cluster updates from a ground state after which the mean energy of 64 × 64 spins agrees with the exact one."""


@dataclass(frozen=True)
class Lattice:
    """A square lattice and its boundary condition.

    Args:
        size: spins along each axis.
        boundary: periodic | skewed: the right neighbour of a row's last spin is the first of the next row |
            antiperiodic: bonds across the right and the lower edge have the opposite sign.
        ferromagnetic: whether equal neighbours have the lower energy.
    """

    size: int
    boundary: str = "periodic"
    ferromagnetic: bool = True

    def __post_init__(self) -> None:
        check_choice("boundary", self.boundary, _NEIGHBOURS)
        if self.size < 2:
            raise InputError(f"size: found {self.size}, expected at least 2 spins along each axis")

    def bonds(self, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
        """Indices of each spin's neighbours to the right and below, `(2, size²)`, and the signs of these bonds."""
        index = torch.arange(self.size**2, device=device)
        neighbours, signs = _NEIGHBOURS[self.boundary](index, self.size)
        return neighbours, signs if self.ferromagnetic else -signs


def _periodic(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    row, column = index // size, index % size
    neighbours = torch.stack([row * size + (column + 1) % size, (row + 1) % size * size + column])
    return neighbours, torch.ones_like(neighbours, dtype=torch.float32)


def _skewed(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    neighbours = torch.stack([index + 1, index + size]) % size**2
    return neighbours, torch.ones_like(neighbours, dtype=torch.float32)


def _antiperiodic(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    neighbours, signs = _periodic(index, size)
    edge = torch.stack([index % size == size - 1, index // size == size - 1])
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
    """Magnetisation of each sample `(B,)`, from -1 to 1; the staggered magnetisation for antiferromagnets."""
    values = spins.float()
    if not lattice.ferromagnetic:
        values = values * _checkerboard(lattice.size, spins.device)
    return values.mean((1, 2))


def microstates(temperature: Tensor, lattice: Lattice, sweeps: int = SWEEPS) -> Tensor:
    """Spins `(B, size, size)` of 1 and -1, one sample in equilibrium at each temperature `(B,)`.

    Args:
        temperature: in |J| / k, above zero.
        lattice: size, boundary condition and sign of the coupling.
        sweeps: cluster updates from a ground state.
    """
    _check(temperature)
    spins = ground_states(len(temperature), lattice, temperature.device).flatten(1)
    for _ in range(sweeps):
        spins = _update_clusters(spins, temperature, lattice)
    return spins.view(-1, lattice.size, lattice.size).to(torch.int8)


def ground_states(count: int, lattice: Lattice, device: torch.device | str = "cpu") -> Tensor:
    """Random states `(count, size, size)` of lowest energy, equally likely where a checkerboard fits the lattice.

    Cold spins start near equilibrium from here. From a random start, an antiperiodic lattice takes thousands of updates
    to straighten the domain wall that it cannot lose.
    """
    size = lattice.size
    spins = torch.ones(count, size, size, device=device)
    if lattice.boundary == "antiperiodic":
        spins = _domain_walls(count, size, device)
    return spins if lattice.ferromagnetic else spins * _checkerboard(size, spins.device)


def _domain_walls(count: int, size: int, device: torch.device | str) -> Tensor:
    """Two domains with a wall of 2 · size bonds between them, a random staircase along one of the diagonals."""
    column = torch.arange(size, device=device)
    steps_down = torch.rand(count, 2 * size, device=device).argsort(1)[:, :size].sort(1).values
    spins = torch.where(column < (steps_down - column)[:, :, None], 1.0, -1.0)
    mirrored = torch.rand(count, 1, 1, device=device) < 0.5
    spins = torch.where(mirrored, spins.flip(2), spins)
    shift = torch.randint(2 * size, (count, 2), device=device)
    return roll(spins.unsqueeze(1), shift, "antiperiodic").squeeze(1)


def swendsen_wang(spins: Tensor, temperature: Tensor, lattice: Lattice) -> Tensor:
    """One cluster update of spins `(B, size²)`: each cluster of frozen bonds is flipped with probability 1/2."""
    _check(temperature)
    return _update_clusters(spins, temperature, lattice)


def _update_clusters(spins: Tensor, temperature: Tensor, lattice: Lattice) -> Tensor:
    neighbours, signs = lattice.bonds(spins.device)
    satisfied = signs * spins[:, None] * spins[:, neighbours] > 0  # (B, 2, N)
    frozen = satisfied & (torch.rand_like(satisfied, dtype=torch.float32) > torch.exp(-2 / temperature)[:, None, None])
    label = label_clusters(frozen, neighbours)
    flip = torch.randint(2, spins.shape, device=spins.device).float() * 2 - 1
    return spins * flip.gather(1, label)


def metropolis(spins: Tensor, temperature: Tensor, lattice: Lattice) -> Tensor:
    """One sweep of single-spin flips over spins `(B, size²)`, one colour of the checkerboard after the other."""
    if lattice.boundary == "skewed" or lattice.size % 2:
        raise InputError(
            f"lattice: found boundary {lattice.boundary!r} and size {lattice.size}, expected an even size and a "
            "boundary that is not skewed, so that a checkerboard fits"
        )
    _check(temperature)
    neighbours, signs = lattice.bonds(spins.device)
    white = _checkerboard(lattice.size, spins.device).flatten() > 0
    for colour in (white, ~white):
        field = (signs * spins[:, neighbours]).sum(1)
        for bond, sign in zip(neighbours, signs, strict=True):
            field = field.index_add(1, bond, sign * spins)
        acceptance = torch.exp(-2 * spins * field / temperature[:, None])
        flips = colour & (torch.rand_like(spins) < acceptance)
        spins = torch.where(flips, -spins, spins)
    return spins


def _checkerboard(size: int, device: torch.device) -> Tensor:
    index = torch.arange(size, device=device)
    return 1.0 - 2.0 * ((index[:, None] + index) % 2)


def _check(temperature: Tensor) -> None:
    invalid = temperature[~((temperature > 0) & temperature.isfinite())]
    if len(invalid):
        check_temperature(float(invalid[0]))
