"""An entry of a database of phases: a crystal, what identifies it, and the lines of its powder pattern."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.powder.bragg import two_theta_from_s
from vitreous.powder.cell import cell_line, check_cell
from vitreous.powder.identify.contents import all_elements, cell_mass, count_atoms, formula_text, read_formula
from vitreous.powder.identify.crystal_symmetry import crystal_system, reduced_cell, space_group_number
from vitreous.powder.identify.dispersion import copper_lines
from vitreous.powder.radiation import ANODES
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.crystals import HOLOHEDRIES
from vitreous.powder.sim.measurement import lorentz_polarisation
from vitreous.powder.sim.structure import (
    Cell,
    Operations,
    Structure,
    cell_reflections,
    cell_symmetry,
    expand,
    metric,
)

S_MAX = 1.25
"""Largest 1/d of a line in 1/Å: 2θ = 149° with copper radiation."""
MOST_LINES = 400
"""Lines of an entry."""
B_ISO = 1.0
"""Å², the displacement parameter of atoms whose source has none."""
_MOST_SETS = 20_000  # sets of equivalent reflections, from which the strongest lines are chosen
_MOST_WAVES = 20_000_000  # sets times atoms in the cell
_MOST_ATOMS = 1_000_000  # images of the atoms under all operations


class EntryLines(NamedTuple):
    """The lines of a powder pattern, one for each set of equivalent reflections, by ascending 1/d."""

    hkl: NDArray[np.int16]  # (m, 3)
    s: NDArray[np.float32]  # (m,), 1/d in 1/Å
    intensity: NDArray[np.float32]  # (m,), multiplicity · |F|² of the unit cell with Cu Kα, electrons²


@dataclass(frozen=True, eq=False)
class Entry:
    """A crystal of a database. Without atoms, the intensities of its lines are their multiplicities."""

    name: str
    formula: str
    source: str  # a file, or a file and the place in it
    spacegroup: str  # symbol, or "" if it is unknown
    number: int  # of the space group, 0 if it is unknown
    system: str
    cell: Cell  # a, b, c in Å and α, β, γ in degrees
    reduced: Cell  # the Niggli-reduced cell of the lattice
    cell_mass: float  # g/mol, of the atoms in one cell (Z·M); 0 without atoms
    elements: frozenset[str]
    lines: EntryLines
    has_atoms: bool = True

    @property
    def volume(self) -> float:
        """Of the cell, Å³."""
        return cell_volume(self.cell)


def cell_volume(cell: Cell) -> float:
    """Å³."""
    return math.sqrt(np.linalg.det(metric(cell)))


def entry_of(structure: Structure, name: str, formula: str, source: str) -> Entry:
    """The entry of a crystal structure; an empty formula or name is replaced by the contents of the cell."""
    images = len(structure.elements) * len(structure.operations[0])
    if images > _MOST_ATOMS:
        raise InputError(f"{structure.name}: found up to {images} atoms in the cell, expected {_MOST_ATOMS} at most")
    atoms = expand(structure)
    counts = count_atoms(atoms)
    formula = "".join(formula.split()) or formula_text(counts)
    stated = read_formula(formula)
    operations = cell_symmetry(structure.cell, structure.operations)
    most = min(_MOST_SETS, _MOST_WAVES // len(atoms.elements))
    lines = copper_lines(structure, _s_limit(structure.cell, operations, most))
    symbol = structure.spacegroup
    return Entry(
        name=name.strip() or formula,
        formula=formula,
        source=source,
        spacegroup=symbol.partition("%")[0].strip() if isinstance(symbol, str) else "",  # "F d 3 m %var1%"
        number=space_group_number(operations, symbol),
        system=crystal_system(operations[0]),
        cell=structure.cell,
        reduced=reduced_cell(structure.cell, operations),
        cell_mass=cell_mass(counts, stated),
        elements=all_elements(counts, stated),
        lines=_strongest(lines.hkl, lines.s, lines.intensity),
    )


def entry_of_cell(cell: Cell, spacegroup: str | int | None, name: str, formula: str, source: str) -> Entry:
    """The entry of a crystal whose atoms are unknown; without a space group, with the symmetry of the cell."""
    check_cell(cell, f"{source}: unit cell")
    formula = "".join(formula.split())
    stated = read_formula(formula)
    if formula and stated is None:
        raise InputError(f"{source}: found formula {formula[:100]!r}, expected one such as SiO2")
    operations, number, symbol = _named_group(cell, spacegroup, source)
    sets, s = cell_reflections(source, cell, operations, _s_limit(cell, operations, _MOST_SETS))
    return Entry(
        name=name.strip() or formula or cell_line(cell),
        formula=formula,
        source=source,
        spacegroup=symbol,
        number=number,
        system=crystal_system(operations[0]),
        cell=cell,
        reduced=reduced_cell(cell, operations),
        cell_mass=0.0,
        elements=all_elements({}, stated),
        lines=_strongest(sets.hkl, s, sets.multiplicity.double()),
        has_atoms=False,
    )


def powder_strength(s: NDArray[np.floating], intensity: NDArray[np.floating]) -> NDArray[np.float64]:
    """Intensities times the Lorentz-polarisation factor of Cu Kα at 1/d (1/Å)."""
    angle = two_theta_from_s(torch.from_numpy(np.array(s, dtype=np.float64)), ANODES["Cu"][0])
    return np.asarray(intensity * lorentz_polarisation(angle).numpy())


def _strongest(hkl: Tensor, s: Tensor, intensity: Tensor) -> EntryLines:
    """The lines that are strongest in a pattern of copper radiation."""
    strength = powder_strength(s.numpy(), intensity.numpy())
    order = np.sort(np.argsort(-strength, kind="stable")[:MOST_LINES])
    return EntryLines(
        hkl.numpy()[order].astype(np.int16),
        s.numpy()[order].astype(np.float32),
        intensity.numpy()[order].astype(np.float32),
    )


def _s_limit(cell: Cell, operations: Operations, most: int) -> float:
    """`S_MAX`, or less in a large cell: where there are about `most` sets of equivalent reflections."""
    point = np.unique(operations[0], axis=0)
    proper = np.unique(point * np.rint(np.linalg.det(point)).astype(np.int64)[:, None, None], axis=0)
    lattice_points = len(operations[0]) / len(point)
    density = 4 / 3 * math.pi * cell_volume(cell) / lattice_points / (2 * len(proper))  # sets up to 1/Å
    return float(min(S_MAX, (most / density) ** (1 / 3)))


def _named_group(cell: Cell, spacegroup: str | int | None, source: str) -> tuple[Operations, int, str]:
    """Operations, number and symbol of a space group that a list of cells names, in the setting of the cell."""
    if spacegroup is None or not str(spacegroup).strip():
        return _holohedry(cell), 0, ""
    gemmi = load_extra("gemmi", "powder")
    word = str(spacegroup).strip()
    group: Any = gemmi.find_spacegroup_by_name(word, cell[3], cell[5])
    if word.isdigit() and 1 <= int(word) <= 230:
        symbol = gemmi.find_spacegroup_by_number(int(word)).hm
        group = gemmi.find_spacegroup_by_name(symbol, cell[3], cell[5])
    if group is None:
        raise InputError(f"{source}: found space group {word[:50]!r}, expected a symbol or a number from 1 to 230")
    parts = [(operation.rot, operation.tran) for operation in group.operations()]
    rotations, translations = (np.array(part) / gemmi.Op.DEN for part in zip(*parts, strict=True))
    operations = np.rint(rotations).astype(np.int64), translations % 1.0
    if len(cell_symmetry(cell, operations)[0]) < len(rotations):
        raise InputError(f"{source}: the cell {cell_line(cell)} does not have the symmetry of {group.hm}")
    return operations, int(group.number), str(group.hm)


def _holohedry(cell: Cell) -> Operations:
    """The operations of the first of the lattice symmetries, from cubic down, that the cell has in its usual axes."""
    for system in reversed(space_groups.SYSTEMS):
        operations = space_groups.operations(HOLOHEDRIES[system])
        if len(cell_symmetry(cell, operations)[0]) == len(operations[0]):
            break
    return operations
