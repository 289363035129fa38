"""How often the extinction symbol of a pattern with the right lattice is ranked first.

    python -m benchmarks.extinction_table                        # 200 simulated minerals and the measured patterns
    python -m benchmarks.extinction_table --minerals 50 --rows minerals

Minerals are drawn as often as they occur in the data folder (setting VITREOUS_DATA) and simulated with the effects of
a laboratory and Poisson noise; each is refined from its true lattice with random errors of 0.1 %. A symbol is right if
it makes exactly those reflections absent that the operations of the structure make absent. The measured patterns are
indexed; their symbol is right if the space group of the literature is among its groups. `seconds` is the time of the
ranking alone.
"""

import itertools
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.measured_table import answer
from benchmarks.refinement_pulls import measured_cases, true_lattice
from vitreous.core.errors import InputError, check_choice
from vitreous.powder.cell import free_indices, full_cell, metrics_of
from vitreous.powder.extinction_symbols import extinction_symbols
from vitreous.powder.refinement.refine import refinement
from vitreous.powder.sim.effects import Effects
from vitreous.powder.sim.measurement import measure
from vitreous.powder.sim.structure import Structure, simulator_lines
from vitreous.powder.sim.structure_files import minerals
from vitreous.powder.symmetry import RankedSymbol, rank_symbols

Floats = NDArray[np.float64]

ROWS = ("minerals", "measured")
EFFECTS = replace(Effects(), impurity=(0.0, 0.0))
GROUPS = {  # of the measured patterns, from the literature
    "BL21Robot_0001": 221, "BL21Robot_0002": 154, "BL21Robot_0105": 186, "BL21Robot_0110": 167, "BL21Robot_0112": 14,
    "BL21Robot_0114": 225, "BL21Robot_0118": 14, "cimetidine_powder": 14, "lbco_hrpt_neutron": 221, "nac_11bm": 199,
    "ethylammonium_cl": 11, "fluorapatite_lab": 176, "ktartrate": 19, "ktartrate_textured": 19, "pbso4_joint": 62,
    "pbso4_joint_neutron": 62, "ca2mnteo6": 14, "hondv2o8": 141, "luof": 129, "nacu2p2": 139, "zrge6ni6": 191,
    "qarr_corundum": 167, "qarr_fluorite": 225, "qarr_zincite": 186, "qarr_brucite": 164, "qarr_magnetite": 227,
    "qarr_zircon": 141,
}  # fmt: skip
_ENANTIOMORPHS = {154: 152}  # absences cannot tell them apart
_LONGEST = 40.0  # Å, of an axis
_OFF = 1e-3  # relative error of the first cell
_MOST_REFLECTIONS = 150  # as in `vitreous index`
_BOX = np.array(list(itertools.product(range(-6, 7), repeat=3)))  # reflections by which symbols are compared
_SAME = 1e-4  # relative difference of equal metrics


class Result(NamedTuple):
    """The ranked symbols of one pattern."""

    row: str
    name: str
    rank: int | None  # of the right symbol
    seconds: float
    first: RankedSymbol
    truth: str  # the true space group


def simulated_results(count: int) -> Iterator[Result]:
    """Minerals drawn at random."""
    structures = [each for each in minerals(b_iso=1.0) if max(each.cell[:3]) < _LONGEST]
    chosen = np.random.default_rng(6).permutation(len(structures))[:count].tolist()
    random = np.random.default_rng(0)
    for number in track(chosen, "minerals"):
        result = _simulated_result(structures[number], number, random)
        if result is not None:
            yield result


def _simulated_result(structure: Structure, number: int, random: np.random.Generator) -> Result | None:
    lattice = true_lattice(np.array(structure.cell, dtype=np.float64), *structure.operations)
    absent = [each.tobytes() for each in _true_absences(structure, lattice.cell)]
    torch.manual_seed(number)
    counts = measure(simulator_lines(structure, EFFECTS.s_max), EFFECTS)[0].double().numpy()
    free = free_indices(lattice.system)
    start = torch.tensor(lattice.cell[free] * (1 + _OFF * random.normal(size=len(free))))
    try:
        refined = refinement(
            EFFECTS.angles().numpy(), counts, full_cell(lattice.system, start[None])[0].tolist(),
            wavelength=EFFECTS.wavelength, wavelength2=EFFECTS.wavelength2, ratio=0.25, system=lattice.system,
            centring=lattice.centring, most=_MOST_REFLECTIONS,
        )  # fmt: skip
    except InputError:
        return None  # too few reflections
    begin = time.perf_counter()
    ranked = rank_symbols(refined, lattice.system, lattice.centring)
    seconds = time.perf_counter() - begin
    symbols = {
        each.symbol: each.absent(_BOX).tobytes() for each in extinction_symbols(lattice.system, lattice.centring)
    }
    right = [symbols[each.symbol] in absent for each in ranked]
    rank = right.index(True) + 1 if True in right else None
    return Result("minerals", structure.name, rank, seconds, ranked[0], str(structure.spacegroup))


def _true_absences(structure: Structure, conventional: Floats) -> list[NDArray[np.bool_]]:
    """Which reflections of `_BOX`, in the axes of the conventional cell, the structure's operations make absent.

    There is one answer for each choice of axes of the structure that gives the conventional cell.
    """
    own, wanted = metrics_of(np.array([structure.cell]))[0], metrics_of(conventional[None])[0]
    vectors = np.array(list(itertools.product(range(-2, 3), repeat=3)), dtype=np.float64)
    products = vectors @ own @ vectors.T
    alike = [np.flatnonzero(np.isclose(products.diagonal(), wanted[i, i], rtol=_SAME)) for i in range(3)]
    largest, answers = float(wanted.max()), list[NDArray[np.bool_]]()
    for axes in itertools.product(*alike):
        if np.abs(products[np.ix_(axes, axes)] - wanted).max() < _SAME * largest:
            hkl = _BOX @ np.linalg.inv(vectors[list(axes)].T)
            answers.append(_absent(structure, hkl.round(6)))
    return answers


def _absent(structure: Structure, hkl: Floats) -> NDArray[np.bool_]:
    """h R = h and h·t is not an integer, or h is no reciprocal vector of the structure's cell."""
    absent = (np.abs(hkl - hkl.round()) > _SAME).any(axis=1)
    for rotation, translation in zip(*structure.operations, strict=True):
        phase = hkl @ translation
        absent |= (np.abs(hkl @ rotation - hkl).max(axis=1) < _SAME) & (np.abs(phase - phase.round()) > 1e-3)
    return np.asarray(absent)


def measured_results() -> Iterator[Result]:
    """The measured patterns whose lattice is right."""
    for case in track([each for each in measured_cases(10) if each.name in GROUPS], "measured"):
        reply = answer(case)
        best, group = reply.best, GROUPS[case.name]
        if best is None or best.fit is None or not reply.is_right_bravais:
            continue
        numbers = {group, _ENANTIOMORPHS.get(group, group)}
        right = [bool(numbers & {each.number for each in symbol.groups}) for symbol in best.symbols]
        rank = right.index(True) + 1 if True in right else None
        yield Result("measured", case.name, rank, 0.0, best.symbols[0], f"No. {group}")


def show(results: list[Result], details: bool) -> None:
    """Print a row for each kind of pattern, and what was not ranked first."""
    console = Console(width=140)
    table = Table(title="Extinction symbols of patterns with the right lattice")
    for heading in ("patterns", "number", "first", "in the first 5", "probability of the first", "seconds"):
        table.add_column(heading, justify="left" if heading == "patterns" else "right")
    for row in dict.fromkeys(each.row for each in results):
        some = [each for each in results if each.row == row]
        first, five = (np.mean([(each.rank or 99) <= most for each in some]) for most in (1, 5))
        sure = statistics.fmean(each.first.probability for each in some)
        seconds = f"{statistics.median(each.seconds for each in some):.2f}" if row == "minerals" else ""
        table.add_row(row, str(len(some)), f"{first:.1%}", f"{five:.1%}", f"{sure:.2f}", seconds)
    console.print(table)
    for each in results if details else ():
        if each.rank != 1:
            found = f"{each.first.symbol} ({each.first.probability:.0%})"
            console.print(f"{each.name}: {each.truth} at rank {each.rank or '-'}, first {found}")


def main(rows: tuple[str, ...] = ROWS, minerals: int = 200, details: bool = True) -> None:
    """Rank symbols and print the table.

    Args:
        rows: minerals, measured.
        minerals: number of simulated ones.
        details: also name each pattern whose symbol is not ranked first.
    """
    for row in rows:
        check_choice("rows", row, ROWS)
    torch.set_num_threads(1)
    results = list(simulated_results(minerals)) if "minerals" in rows else []
    show(results + (list(measured_results()) if "measured" in rows else []), details)


if __name__ == "__main__":
    tyro.cli(main)
