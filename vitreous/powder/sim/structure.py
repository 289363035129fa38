"""Crystal structures and the lines of their powder patterns.

|F|² is the kinematic sum over the unit cell with the form factors of International Tables C (1992), without anomalous
scattering.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.powder.cell import check_cell
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.crystals import Lines

Cell = tuple[float, float, float, float, float, float]
Operations = tuple[NDArray[np.int64], NDArray[np.float64]]
FormFactors = Callable[[Sequence[str], Tensor], Tensor]

_COINCIDENT = 0.1  # Å: images of an atom nearer than this are one atom on a special position
_MAX_REFLECTIONS = 1 << 25
_CHUNK = 1 << 21  # phases in memory at once


@dataclass(frozen=True, eq=False)
class Structure:
    """A crystal structure, given by the n atoms of its asymmetric unit."""

    name: str  # for messages
    cell: Cell  # a, b, c in Å and α, β, γ in degrees
    operations: Operations  # rotations (m, 3, 3) and translations (m, 3), including centring
    elements: tuple[str, ...]  # symbols of the atoms
    positions: NDArray[np.float64]  # (n, 3), fractions of the cell
    occupancy: NDArray[np.float64]  # (n,)
    b_iso: NDArray[np.float64]  # (n,), isotropic displacement parameters in Å²
    spacegroup: str | int | None = None  # symbol or number, if known

    def __post_init__(self) -> None:
        check_cell(self.cell, f"{self.name}: unit cell")
        if not self.elements:
            raise InputError(f"{self.name}: found no atoms")
        for element in self.elements:
            if element not in atomic_numbers():
                raise InputError(f"{self.name}: unknown element {element!r}; expected H to Cf")


class StructureLines(NamedTuple):
    """One line for each set of equivalent reflections, by ascending 1/d."""

    hkl: Tensor  # (M, 3) int16
    s: Tensor  # (M,) float64, 1/d in 1/Å
    intensity: Tensor  # (M,) float64, multiplicity · |F|²


@lru_cache(maxsize=1)
def atomic_numbers() -> dict[str, int]:
    """By element symbol, H to Cf."""
    return {str(symbol): z for z, symbol in enumerate(space_groups.load_table("tables")["symbols"], 1)}


def form_factors(elements: Sequence[str], s: Tensor) -> Tensor:
    """f = Σ a exp(-b s²/4) + c: 1/d `(M,)` in 1/Å to electrons `(M, elements)`."""
    rows = space_groups.load_table("tables")["form_factors"][[atomic_numbers()[element] - 1 for element in elements]]
    table = torch.as_tensor(rows, dtype=s.dtype)
    a, b, c = table[:, :4], table[:, 4:8], table[:, 8]
    return (a * torch.exp(-b * s[:, None, None] ** 2 / 4)).sum(2) + c


def structure_lines(
    structure: Structure, s_max: float, form_factors: FormFactors = form_factors, chunk: int = _CHUNK
) -> StructureLines:
    """The lines of a structure with 1/d up to `s_max` (1/Å); `chunk` limits the phases in memory at once.

    Operations of the structure that its cell does not have are ignored.
    """
    operations = cell_symmetry(structure.cell, structure.operations)
    unique, s = cell_reflections(structure.name, structure.cell, operations, s_max)
    squares = _squared_factors(expand(structure), unique.hkl.double(), s, form_factors, chunk)
    return StructureLines(unique.hkl, s, unique.multiplicity * squares)


def simulator_lines(structure: Structure, s_max: float) -> Lines:
    """The lines of a structure as a batch of one crystal for `measure`, with every equivalent reflection."""
    operations = cell_symmetry(structure.cell, structure.operations)
    return split_equivalents(structure_lines(structure, s_max), structure.cell, operations)


def split_equivalents(lines: StructureLines, cell: Cell, operations: Operations) -> Lines:
    """Lines with the angles of each equivalent to a*, b* and c*, since texture affects them differently."""
    point = torch.as_tensor(np.unique(operations[0], axis=0), dtype=torch.float64)
    # Each equivalent occurs equally often among the images of hkl: the images share the intensity.
    images = torch.einsum("mi,nij->mnj", lines.hkl.double(), point)  # (M, n, 3)
    inverse = torch.as_tensor(np.linalg.inv(metric(cell)))
    tilt = (images @ inverse).square() / (lines.s.square()[:, None, None] * inverse.diagonal())
    s, intensity = (x[:, None].expand(-1, len(point)).flatten() for x in (lines.s, lines.intensity / len(point)))
    owner = torch.zeros_like(s).long()
    return Lines(s.float(), intensity.float(), owner, tilt.flatten(0, 1).float(), torch.eye(3), 1)


def cell_symmetry(cell: Cell, operations: Operations) -> Operations:
    """The operations that leave the cell unchanged; others would make reflections with different d equivalent."""
    tensor = metric(cell)
    rotations, translations = operations
    change = np.abs(rotations.transpose(0, 2, 1) @ tensor @ rotations - tensor).max((1, 2))
    keep = change <= 1e-6 * tensor.max()
    return rotations[keep], translations[keep]


def cell_reflections(
    name: str, cell: Cell, operations: Operations, s_max: float
) -> tuple[space_groups.Reflections, Tensor]:
    """Unique reflections with 1/d up to `s_max`, and their ascending 1/d `(M,)`."""
    most = tuple(math.floor(length * s_max + 1e-9) for length in cell[:3])
    if math.prod(2 * m + 1 for m in most) > _MAX_REFLECTIONS:
        raise InputError(f"{name}: too many reflections up to 1/d = {s_max:g}/Å for indices up to {most}")
    unique = space_groups.unique_reflections(*operations, most)
    hkl = unique.hkl.double()
    s = ((hkl @ torch.as_tensor(np.linalg.inv(metric(cell)))) * hkl).sum(1).sqrt()
    order = torch.argsort(s)[: int((s <= s_max).sum())]
    return space_groups.Reflections(*(part[order] for part in unique)), s[order]


def _squared_factors(atoms: Structure, hkl: Tensor, s: Tensor, form_factors: FormFactors, chunk: int) -> Tensor:
    """|F|² `(M,)` of a structure that lists all atoms of its cell."""
    kind_of_atom = list(zip(atoms.elements, atoms.b_iso.tolist(), strict=True))
    kinds = sorted(set(kind_of_atom))  # atoms of a kind share their form factor
    weights = np.zeros((len(kind_of_atom), len(kinds)))
    weights[np.arange(len(kind_of_atom)), [kinds.index(kind) for kind in kind_of_atom]] = atoms.occupancy
    occupied, positions = torch.as_tensor(weights), torch.as_tensor(2 * math.pi * atoms.positions.T)
    b = torch.tensor([b for _, b in kinds], dtype=torch.float64)
    factors = form_factors([element for element, _ in kinds], s) * torch.exp(-b * s[:, None] ** 2 / 4)
    squares = []
    rows = max(1, chunk // len(atoms.elements))
    for part, f in zip(hkl.split(rows), factors.split(rows), strict=True):
        phase = part @ positions  # (M, 3) @ (3, N)
        real, imaginary = ((f * (wave @ occupied)).sum(1) for wave in (phase.cos(), phase.sin()))
        squares.append(real**2 + imaginary**2)
    return torch.cat(squares)


def expand(structure: Structure) -> Structure:
    """The same crystal with all atoms of its cell and no symmetry but the identity."""
    edges = np.linalg.cholesky(metric(structure.cell))  # rows: the axes in Å
    x = structure.positions
    for _ in range(3):  # move an atom near a special position to it: the mean of its images nearby
        offset = _images(x, structure.operations) - x[:, None]
        offset -= np.round(offset)
        near = np.linalg.norm(offset @ edges, axis=2) < _COINCIDENT  # (n, m)
        x = x + (offset * near[..., None]).sum(1) / near.sum(1, keepdims=True)
    images = _images(x, structure.operations) % 1.0
    squares = np.floor(images * 10**5 + 0.2718).astype(np.int64) % 10**5  # a grid with no special position on its edges
    distinct = [np.unique(row, return_index=True)[1] for row in squares @ np.array([10**10, 10**5, 1])]
    site = np.repeat(np.arange(len(x)), [len(each) for each in distinct])
    return replace(
        structure,
        operations=(np.eye(3, dtype=np.int64)[None], np.zeros((1, 3))),
        elements=tuple(structure.elements[i] for i in site),
        positions=images[site, np.concatenate(distinct)],
        occupancy=structure.occupancy[site],
        b_iso=structure.b_iso[site],
        spacegroup=1,
    )


def _images(x: NDArray[np.float64], operations: Operations) -> NDArray[np.float64]:
    """Positions `(n, 3)` under each of m operations: `(n, m, 3)`."""
    rotations, translations = operations
    turned = x @ rotations.reshape(-1, 3).T  # (n, 3) -> (n, m * 3)
    return np.asarray(turned.reshape(len(x), -1, 3) + translations)


def metric(cell: Cell) -> NDArray[np.float64]:
    """a_i · a_j in Å²; right angles give exact zeros."""
    lengths = np.array(cell[:3])
    alpha, beta, gamma = (round(math.cos(math.radians(angle)), 15) for angle in cell[3:])
    cosines = [[1, gamma, beta], [gamma, 1, alpha], [beta, alpha, 1]]
    return np.asarray(np.outer(lengths, lengths) * cosines)
