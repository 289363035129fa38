"""Whether the standard errors of refined cells hold: deviations from true cells, in standard errors.

    python -m benchmarks.refinement_pulls                                   # all rows, minutes
    python -m benchmarks.refinement_pulls --rows random --count 5           # a sample of one

Rows: random crystals and real minerals of every system, simulated with all effects of a laboratory, displacement of the
sample included; measured patterns of the data folder (setting VITREOUS_DATA). Each refinement starts from the true cell
with random errors of 0.1 %. The measured rows say what the true cell is worth: `same pattern` was refined by others on
the very pattern, `literature` belongs to another sample of the same compound, `high pressure` to one of several phases.
"""

import csv
import itertools
import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from vitreous.core.errors import check_choice
from vitreous.data.builtin import data_folder
from vitreous.powder.bravais import bravais
from vitreous.powder.cell import NAMES, cells_of, free_indices, full_cell, metrics_of
from vitreous.powder.files import read_pattern
from vitreous.powder.pattern import Pattern
from vitreous.powder.refinement import Fit, refine
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.effects import Effects
from vitreous.powder.sim.measurement import measure, random_patterns
from vitreous.powder.sim.space_groups import SYSTEMS
from vitreous.powder.sim.structure import simulator_lines
from vitreous.powder.sim.structure_files import minerals

Floats = NDArray[np.float64]

EFFECTS = replace(Effects(), impurity=(0.0, 0.0))
ROWS = ("random", "minerals", "measured")
_OFF = 1e-3  # relative error of the first cell
_LITERATURE = ("pbso4", "qarr_", "ca2mnteo6")  # cells of other samples, or of a computed structure
_HIGH_PRESSURE = ("kbi3", "rh3bi", "rubi2")
_CENTRINGS = {"BL21Robot_0110": "R", "BL21Robot_0114": "F"}


class Case(NamedTuple):
    """A pattern and its true conventional cell."""

    row: str
    name: str
    pattern: Pattern
    system: str
    centring: str
    cell: Floats


def random_cases(count: int) -> Iterator[Case]:
    """`count` random crystals of every system."""
    for number, system in enumerate(SYSTEMS):
        torch.manual_seed(500 + number)
        patterns, crystals = random_patterns(system, count, EFFECTS)
        cells = crystals.cell.double().numpy()
        for i, (counts, cell, group) in enumerate(zip(patterns, cells, crystals.group.tolist(), strict=True)):
            yield _simulated(f"random {system}", str(i), counts, cell, space_groups.operations(group))


def mineral_cases(count: int) -> Iterator[Case]:
    """`count` minerals of every system."""
    chosen: dict[str, int] = dict.fromkeys(SYSTEMS, 0)
    for number, structure in enumerate(minerals(b_iso=1.0)):
        if number % 13 or max(structure.cell[:3]) > 40:
            continue
        rotations, translations = structure.operations
        case_cell = np.array(structure.cell, dtype=np.float64)
        lattice = true_lattice(case_cell, rotations, translations)
        if chosen[lattice.system] == count:
            continue
        chosen[lattice.system] += 1
        torch.manual_seed(number)
        counts = measure(simulator_lines(structure, EFFECTS.s_max), EFFECTS)[0]
        yield _simulated(f"mineral {lattice.system}", str(number), counts, case_cell, structure.operations)


def measured_cases(count: int) -> Iterator[Case]:
    """The measured patterns, at most `count` times ten of each folder."""
    folder = data_folder() / "powder"
    for entry in itertools.islice(_entries("powder"), 10 * count):
        name, system = entry["Material"], entry["Crystal System"]
        pattern = read_pattern(folder / f"{name}.xy.gz", float(entry["Wavelength"]))
        yield Case("measured same pattern", name, pattern, system, _CENTRINGS.get(name, "P"), _cell(entry))
    folder = data_folder() / "measured" / "single"
    for entry in itertools.islice(_entries("measured/single"), 10 * count):
        name, second = entry["name"], entry["wavelength2"]
        pattern = read_pattern(folder / f"{name}.xy.gz", float(entry["wavelength"]))
        if second:
            pattern = replace(pattern, wavelength2=float(second), ratio=0.5)
        row = "literature" if name.startswith(_LITERATURE) else "same pattern"
        row = "high pressure" if name in _HIGH_PRESSURE else row
        yield Case(f"measured {row}", name, pattern, entry["lattice"], entry["centring"], _cell(entry))


CASES = {"random": random_cases, "minerals": mineral_cases, "measured": measured_cases}


def _entries(folder: str) -> Iterator[dict[str, str]]:
    path = data_folder() / folder / "cells.csv"
    if path.is_file():
        with path.open() as file:
            yield from csv.DictReader(file)


def _cell(entry: dict[str, str]) -> Floats:
    return np.array([float(entry[name]) for name in NAMES])


class Lattice(NamedTuple):
    """Crystal system, centring and conventional cell."""

    system: str
    centring: str
    cell: Floats


def true_lattice(cell: Floats, rotations: NDArray[np.float64], translations: NDArray[np.float64]) -> Lattice:
    """The conventional lattice of a cell with the pure translations among the operations of a space group."""
    moves = translations[(rotations == np.eye(3)).all((1, 2))] % 1.0
    corners = np.array(list(itertools.product((-1, 0, 1), repeat=3)))
    vectors = (moves[:, None] + corners).reshape(-1, 3)
    vectors = vectors[np.argsort(np.abs(vectors).sum(1))][:40]
    bases = vectors[np.array(list(itertools.combinations(range(len(vectors)), 3)))]
    size = np.abs(np.linalg.det(bases))
    basis = bases[np.argmin(np.where(size > 1e-6, size, np.inf))]
    found = bravais(cells_of(basis @ metrics_of(cell[None]) @ basis.T)[0], 1e-5)
    return Lattice(found.system, found.centring, found.conventional)


def _simulated(
    row: str, name: str, counts: torch.Tensor, cell: Floats, operations: tuple[NDArray[np.float64], ...]
) -> Case:
    lattice = true_lattice(cell, *operations)
    angles = EFFECTS.angles().numpy()
    pattern = Pattern(angles, counts.double().numpy(), None, EFFECTS.wavelength, name, EFFECTS.wavelength2, 0.25)
    return Case(row, name, pattern, lattice.system, lattice.centring, lattice.cell)


def refine_case(case: Case, random: np.random.Generator) -> Fit:
    """The refinement of a pattern from its true cell with random errors."""
    free = free_indices(case.system)
    start = case.cell[free] * (1 + _OFF * random.normal(size=len(free)))
    cell = full_cell(case.system, torch.tensor(start)[None])[0].tolist()
    pattern = case.pattern
    return refine(
        pattern.two_theta, pattern.intensity, cell, wavelength=float(pattern.wavelength or 0.0),
        wavelength2=pattern.wavelength2, ratio=pattern.ratio, system=case.system, centring=case.centring,
    )  # fmt: skip


def main(rows: tuple[str, ...] = ROWS, count: int = 10, details: bool = True) -> None:
    """Refine and print the table.

    Args:
        rows: random, minerals, measured.
        count: simulated crystals of each system.
        details: also print a line for each measured pattern.
    """
    for row in rows:
        check_choice("rows", row, ROWS)
    torch.set_num_threads(1)
    console, random = Console(width=150), np.random.default_rng(0)
    pulls: dict[str, list[float]] = {}
    errors: dict[str, list[float]] = {}
    for case in itertools.chain.from_iterable(CASES[row](count) for row in rows):
        fit = refine_case(case, random)
        free = free_indices(case.system)
        deviation = np.array(fit.cell)[free] - case.cell[free]
        pull, error = deviation / np.array(fit.errors)[free], np.abs(deviation / case.cell[free])
        for name in (case.row, f"{case.row.split()[0]} all"):
            pulls.setdefault(name, []).extend(pull.tolist())
            errors.setdefault(name, []).extend(error.tolist())
        if details and case.row.startswith("measured"):
            console.print(_line(case, fit, pull, error))
    table = Table(title="Deviations of refined cells in standard errors")
    for heading in ("row", "parameters", "within 1", "within 3", "median |pull|", "largest", "median relative error"):
        table.add_column(heading, justify="left" if heading == "row" else "right")
    for name in sorted(pulls, key=lambda name: (name.split()[0], name.endswith(" all"))):
        size = np.abs(pulls[name])
        shares = (f"{np.mean(size < limit):.1%}" for limit in (1, 3))
        error_text = f"{statistics.median(errors[name]):.1e}"
        table.add_row(name, str(len(size)), *shares, f"{np.median(size):.2f}", f"{size.max():.1f}", error_text)
    console.print(table)


def _line(case: Case, fit: Fit, pull: Floats, error: Floats) -> str:
    shifts = f"zero {fit.zero:+.3f}({fit.zero_error:.3f}) displacement {fit.displacement:+.3f}"
    shifts += f"({fit.displacement_error:.3f}) transparency {fit.transparency:+.3f}({fit.transparency_error:.3f})"
    values = " ".join(f"{each:+.1f}" for each in pull)
    return f"{case.name:20s} Rwp {fit.rwp:.3f} {shifts} pulls {values}, ppm {np.round(error * 1e6).astype(int)}"


if __name__ == "__main__":
    tyro.cli(main)
