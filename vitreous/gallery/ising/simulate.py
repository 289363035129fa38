"""Monte Carlo simulation of two-dimensional Ising spins in equilibrium (S2.9), in batches, on any device.

E = -J Σ s_i s_j over neighbours, in units of |J|; temperatures in |J| / k. Cluster updates (Swendsen and Wang 1987)
stay efficient at the critical point. Random numbers come from torch's generator of the device, so that the caller's
seed decides all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from vitreous.core.errors import InputError, check_choice
from vitreous.data.transforms import roll
from vitreous.gallery.ising.exact import check_temperature
from vitreous.nn.kernels import kernels

SWEEPS = 40
"""Cluster updates from a ground state after which the mean energy of 64 × 64 spins agrees with the exact one."""
_KERNEL = kernels("gallery.ising.cluster_kernel")
_JUMPS = 3  # label lookups per round of `label_by_propagation`


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
    """Spins `(B, size, size)` of 1 and -1 at each temperature `(B,)`, after cluster updates from a ground state."""
    invalid = temperature[~((temperature > 0) & temperature.isfinite())]
    if len(invalid):
        check_temperature(float(invalid[0]))
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
    walls = lattice.boundary == "antiperiodic"
    spins = _domain_walls(count, size, device) if walls else torch.ones(count, size, size, device=device)
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


def _update_clusters(spins: Tensor, temperature: Tensor, lattice: Lattice) -> Tensor:
    """Flip each cluster of frozen bonds of spins `(B, size²)` with probability 1/2."""
    neighbours, signs = lattice.bonds(spins.device)
    satisfied = signs * spins[:, None] * spins[:, neighbours] > 0  # (B, 2, N)
    frozen = satisfied & (torch.rand_like(satisfied, dtype=torch.float32) > torch.exp(-2 / temperature)[:, None, None])
    label = label_clusters(frozen, neighbours)
    flip = torch.randint(2, spins.shape, device=spins.device).float() * 2 - 1
    return spins * flip.gather(1, label)


def _checkerboard(size: int, device: torch.device) -> Tensor:
    index = torch.arange(size, device=device)
    return 1.0 - 2.0 * ((index[:, None] + index) % 2)


def label_clusters(frozen: Tensor, neighbours: Tensor) -> Tensor:
    """Label clusters with the fastest method of the device.

    All methods take frozen bonds `(B, 2, N)` of each spin to its `neighbours` `(2, N)` on the right and below, and
    return labels `(B, N)` from 0 to below N. Spins have the same label if and only if they are in the same cluster.
    """
    if frozen.device.type == "cuda" and _KERNEL is not None:
        return _KERNEL.label_clusters(frozen, neighbours)  # type: ignore[no-any-return]
    return (label_by_graph if frozen.device.type == "cpu" else label_by_propagation)(frozen, neighbours)


def label_by_graph(frozen: Tensor, neighbours: Tensor) -> Tensor:
    """Label clusters as the connected components of a sparse graph, on a CPU."""
    batch, _, count = frozen.shape
    bonds = frozen.mT.contiguous()  # (B, N, 2)
    columns = (neighbours.T + torch.arange(0, batch * count, count)[:, None, None])[bonds].int()
    row_ends = F.pad(bonds.sum(2).flatten().cumsum(0), (1, 0)).int()
    ones = np.ones(len(columns), np.int8)
    graph = csr_array((ones, columns.numpy(), row_ends.numpy()), shape=(batch * count, batch * count))
    label = torch.from_numpy(connected_components(graph, directed=False)[1]).long().view(batch, count)
    return label - label[:, :1]


def label_by_propagation(frozen: Tensor, neighbours: Tensor) -> Tensor:
    """Label clusters by their lowest spin index, updating all spins in parallel, on any device."""
    batch, _, count = frozen.shape
    back = torch.empty_like(neighbours).scatter_(1, neighbours, torch.arange(count, device=frozen.device).expand(2, -1))
    directions = [*zip(frozen.unbind(1), neighbours, strict=True)]
    directions += [(bond[:, end], end) for bond, end in zip(frozen.unbind(1), back, strict=True)]
    label = torch.arange(count, device=frozen.device).repeat(batch, 1)
    while True:
        before, lowest = label, label
        for bond, end in directions:
            lowest = torch.where(bond, torch.minimum(lowest, label.index_select(1, end)), lowest)
        # Lower the label of the spin that names the cluster, so that whole clusters merge.
        label = label.scatter_reduce(1, label, lowest, "amin")
        for _ in range(_JUMPS):
            label = label.gather(1, label)
        if torch.equal(label, before):
            return label
