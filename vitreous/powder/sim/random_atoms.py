"""Intensities of random structures: atoms at general and special positions of a space group.

Real crystals have few atoms, many of them at special positions: whole classes of their reflections are weak, and a line
is stronger the more reflections coincide in it. Wilson's statistics, which fit crystals of many atoms, have neither.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.powder.cell import volumes
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.crystals import HOLOHEDRIES, Device, Reflections

_SITES = 12  # independent atoms at most
_ATOM_VOLUME = 14.0  # Å³
_CROWDED = 1.5  # times the usual number of atoms, at most
_FREE = (0.0, 0.4, 1.0)  # probabilities that a coordinate of a site is free: one is drawn for each site,
_FREE_SHARES = (0.4, 0.35, 0.25)  # with these probabilities
_FIXED = (0.0, 0.5, 0.25, 0.75, 1 / 3, 2 / 3, 0.125)  # values of coordinates that are not free
_FIXED_SHARES = (0.42, 0.27, 0.11, 0.08, 0.04, 0.04, 0.04)
_THIRDS = 0.2  # share of sites on a threefold axis of a hexagonal cell, (1/3, 2/3, z)
_Y_IS_X, _Y_IS_MINUS_X, _Y_IS_2X, _Z_IS_X = 0.25, 0.1, 0.1, 0.1  # shares of sites with equal coordinates
_LIGHT, _HEAVY = (6, 7, 8, 8, 8, 9, 16, 17), tuple(range(11, 84))  # atomic numbers, half of the atoms each
_B_ISO = (0.3, 2.0)  # Å², of all atoms of a crystal
_SAME = 1e-3  # distance of equal coordinates
_CHUNK = 1 << 25  # phases in memory at once


@dataclass(frozen=True)
class _Operations:
    """For each space group of a system, operations without centring, padded with zeros; and what else it needs."""

    rotations: Tensor  # (G, O, 3, 3)
    translations: Tensor  # (G, O, 3)
    present: Tensor  # (G, O), 0 for padding
    centrings: Tensor  # (G, 4, 3), repeated to four
    order: Tensor  # (G,), of the group, centring included
    cosets: Tensor  # (G, C, 3, 3), rotations of the lattice that are no operations of the group
    row: Tensor  # (231,), of each space group


@dataclass(frozen=True)
class Atoms:
    """Atoms of B crystals at up to S sites each; images by the space group make the rest of the structure."""

    positions: Tensor  # (B, S, 3), fractions of the cell
    elements: Tensor  # (B, S), atomic numbers
    share: Tensor  # (B, S): 1 at a general position, 1/n where n images coincide, 0 for no atom
    b_iso: Tensor  # (B,), Å²


def atom_intensities(drawn: Reflections) -> Tensor:
    """Multiplicity times |F|² of reflections `(n,)` of random structures, in a unit of each crystal's own."""
    return structure_intensities(drawn, random_atoms(drawn))


def random_atoms(drawn: Reflections) -> Atoms:
    """Atoms at random general and special positions of the space groups, as many as there is room for."""
    device, shape = drawn.s.device, (len(drawn.cell), _SITES)
    table = _operations(drawn.system, device)
    row = table.row[drawn.group]  # (B,)
    sites = _random_sites(shape, drawn.system in ("trigonal", "hexagonal"), device)
    multiplicity = _site_multiplicities(sites, row, table)
    occupied = _choose_sites(multiplicity, torch.as_tensor(volumes(drawn.cell.cpu().numpy()), device=device))
    light, heavy = (torch.tensor(numbers, device=device) for numbers in (_LIGHT, _HEAVY))
    drawn_light, drawn_heavy = (kind[torch.randint(len(kind), shape, device=device)] for kind in (light, heavy))
    elements = torch.where(torch.rand(shape, device=device) < 0.5, drawn_light, drawn_heavy)
    b_iso = torch.empty(len(sites), device=device).uniform_(*_B_ISO)
    return Atoms(sites, elements, occupied * multiplicity / table.order[row, None], b_iso)


def structure_intensities(drawn: Reflections, atoms: Atoms) -> Tensor:
    """Multiplicity times the mean |F|² of each set of reflections with the same d, `(n,)`."""
    table = _operations(drawn.system, drawn.s.device)
    row = table.row[drawn.group]
    intensity = torch.zeros_like(drawn.s)
    size = max(1, _CHUNK // (table.rotations.shape[1] * _SITES))
    for part in torch.arange(len(drawn.s), device=drawn.s.device).split(size):
        owner = drawn.owner[part]
        amplitude = _form_factors(drawn.s[part], atoms.elements[owner], atoms.b_iso[owner]) * atoms.share[owner]
        cosets = table.cosets[row[owner]].unbind(1)  # of (n, 3, 3)
        for coset in cosets:
            hkl = (drawn.hkl[part, None] @ coset)[:, 0]
            square = _squares(hkl, row[owner], atoms.positions[owner], amplitude, table)
            intensity[part] += square / len(cosets)
    return drawn.multiplicity * intensity


def _squares(hkl: Tensor, row: Tensor, sites: Tensor, amplitude: Tensor, table: _Operations) -> Tensor:
    """|F|² `(n,)` of reflections `(n, 3)` of atoms at `(n, S, 3)` with amplitudes `(n, S)`; 0 by centring."""
    images = (hkl[:, None, None] @ table.rotations[row])[:, :, 0]  # (n, O, 3)
    shifts = (table.translations[row] @ hkl[:, :, None])[..., 0]  # (n, O)
    phase = 2 * math.pi * (images @ sites.mT + shifts[..., None])  # (n, O, S)
    weight = table.present[row][..., None] * amplitude[:, None]
    square = (phase.cos() * weight).sum((1, 2)).square() + (phase.sin() * weight).sum((1, 2)).square()
    moves = (table.centrings[row] @ hkl[:, :, None])[..., 0]  # (n, 4)
    return square * ((moves - moves.round()).abs() < _SAME).all(1)


def _random_sites(shape: tuple[int, int], hexagonal: bool, device: Device) -> Tensor:
    """Positions `(B, S, 3)` in fractions of the cell, many of them special."""

    def chance(share: float) -> Tensor:
        return torch.rand(shape, device=device) < share

    def draw(values: tuple[float, ...], shares: tuple[float, ...], last: int) -> Tensor:
        weights = torch.tensor(shares, device=device)
        place = torch.multinomial(weights, shape[0] * shape[1] * last, replacement=True)
        return torch.tensor(values, device=device)[place].view(*shape, last)

    free = torch.rand((*shape, 3), device=device) < draw(_FREE, _FREE_SHARES, 1)
    fixed = draw(_FIXED, _FIXED_SHARES, 3)
    x, y, z = torch.where(free, torch.rand((*shape, 3), device=device), fixed).unbind(-1)
    for share, value in ((_Y_IS_X, x), (_Y_IS_MINUS_X, -x), (_Y_IS_2X, 2 * x)):
        y = torch.where(chance(share), value, y)
    z = torch.where(chance(_Z_IS_X), x, z)
    if hexagonal:
        threefold = chance(_THIRDS)
        x, y = torch.where(threefold, 1 / 3, x), torch.where(threefold, 2 / 3, y)
    return torch.stack([x, y, z], dim=-1)


def _site_multiplicities(sites: Tensor, row: Tensor, table: _Operations) -> Tensor:
    """The numbers of distinct images `(B, S)` of sites `(B, S, 3)` in the cell."""
    images = torch.einsum("boij,bsj->bosi", table.rotations[row], sites) + table.translations[row][:, :, None]
    moves = (images - sites[:, None])[:, :, :, None] + table.centrings[row][:, None, None]  # (B, O, S, 4, 3)
    itself = ((moves - moves.round()).abs() < _SAME).all(-1).any(-1) & (table.present[row] > 0)[..., None]
    return table.order[row, None] / itself.sum(1)


def _choose_sites(multiplicity: Tensor, volume: Tensor) -> Tensor:
    """Which sites `(B, S)` are occupied: as many as there is room for in the cell, at least one."""
    room = (_CROWDED * volume / _ATOM_VOLUME).to(multiplicity)[:, None]
    room = torch.maximum(room, multiplicity.amin(1, keepdim=True))
    fits = multiplicity <= room
    return (fits & ((multiplicity * fits).cumsum(1) <= room)).to(multiplicity.dtype)


def _form_factors(s: Tensor, elements: Tensor, b_iso: Tensor) -> Tensor:
    """Scattering of vibrating atoms `(n, S)` at 1/d `(n,)`."""
    rows = space_groups.load_table("tables")["form_factors"]
    table = torch.as_tensor(rows, dtype=s.dtype, device=s.device)[elements - 1]  # (n, S, 9)
    quarter = s.square()[:, None] / 4  # sin²θ/λ²
    waves = table[..., :4] * torch.exp(-table[..., 4:8] * quarter[..., None])
    return (waves.sum(-1) + table[..., 8]) * torch.exp(-b_iso[:, None] * quarter)


@lru_cache(maxsize=32)
def _operations(system: str, device: torch.device) -> _Operations:
    numbers = space_groups.groups_of_system(system)
    lattice = np.unique(space_groups.operations(HOLOHEDRIES[system])[0], axis=0)
    parts = [_one_of_each_rotation(number) for number in numbers]
    most = max(len(rotations) for rotations, _ in parts)
    cosets = [_cosets(lattice, rotations) for rotations, _ in parts]
    width = max(map(len, cosets))
    row = np.zeros(231, dtype=np.int64)
    row[list(numbers)] = np.arange(len(numbers))
    centrings = [space_groups.centring_vectors(number) for number in numbers]
    arrays = (
        np.stack([np.pad(rotations, ((0, most - len(rotations)), (0, 0), (0, 0))) for rotations, _ in parts]),
        np.stack([np.pad(shifts, ((0, most - len(shifts)), (0, 0))) for _, shifts in parts]),
        np.stack([np.arange(most) < len(rotations) for rotations, _ in parts]),
        np.stack([np.resize(vectors, (4, 3)) for vectors in centrings]),
        np.array([len(part[0]) * len(vectors) for part, vectors in zip(parts, centrings, strict=True)]),
        np.stack([np.resize(each, (width, 3, 3)) for each in cosets]),
    )
    r, t, present, moves, order, coset = (torch.as_tensor(a, dtype=torch.float32, device=device) for a in arrays)
    return _Operations(r, t, present, moves, order, coset, torch.as_tensor(row, device=device))


def _one_of_each_rotation(number: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    rotations, translations = space_groups.operations(number)
    distinct, first = np.unique(rotations, axis=0, return_index=True)
    return distinct, translations[first]


def _cosets(lattice: NDArray[np.int64], rotations: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rotations of the lattice `(C, 3, 3)`, one for each set of reflections that the group makes equivalent."""
    laue = np.concatenate([rotations, -rotations])
    chosen: list[NDArray[np.int64]] = []
    covered: set[bytes] = set()
    for rotation in sorted(lattice, key=lambda each: not np.array_equal(each, np.eye(3))):
        if rotation.tobytes() not in covered:
            chosen.append(rotation)
            covered |= {(rotation @ each).tobytes() for each in laue}
    return np.array(chosen)
