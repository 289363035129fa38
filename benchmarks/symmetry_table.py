"""Crystal system and extinction group from the raw profile, without any search for lines or cells.

    python -m benchmarks.symmetry_table                                     # the model of the package, minutes
    python -m benchmarks.symmetry_table --models runs/vit runs/cnn          # runs of the recipe powder-symmetry
    python -m benchmarks.symmetry_table --cells --count 60 --jobs 2         # the package's, with cells, half an hour

Rows: minerals of the data folder (setting VITREOUS_DATA), as often as they occur there, simulated with the effects of a
laboratory and 1000, 100 and 50 counts in the strongest line; the measured reference minerals of
`measured/rockjock_half.npz` whose system the list of minerals tells, and among them those that are no clays. Columns
for each model: the share with the right crystal system, the right extinction group, the right group among the first
five, and the calibration error of the system's probability. `commonest` always says what is most frequent in the row.
`with cells` is the answer of `vitreous index --symmetry`, which knows the cells that explain the lines, too.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.index_table import alone
from vitreous.data.builtin import data_folder
from vitreous.insight.evaluation import confidence_error
from vitreous.powder.indexing import IndexOptions, index_pattern
from vitreous.powder.pattern import Pattern
from vitreous.powder.profile_symmetry import ProfileSymmetry, predict_symmetry, symmetry_model
from vitreous.powder.radiation import CU_KALPHA1, CU_KALPHA2
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.measurement import measure
from vitreous.powder.sim.structure import Structure, simulator_lines
from vitreous.powder.sim.structure_files import minerals
from vitreous.powder.sim.symmetry_source import with_counts
from vitreous.run.load import load
from vitreous.run.predictor import Predictor

COUNTS = (1000.0, 100.0, 50.0)
_LONGEST = 40.0  # Å, of an axis of a simulated mineral
_CLAYS = (
    "illite", "smectite", "montmorillonite", "kaolinite", "chlorite", "dickite", "halloysite", "saponite", "muscovite",
    "biotite", "phlogopite", "vermiculite", "nontronite", "clinochlore", "chamosite", "glauconite", "talc",
    "serpentine", "sepiolite", "palygorskite", "pyrophyllite", "paragonite", "opal", "glass", "obsidian",
    "ferrihydrite",
)  # fmt: skip


class Case(NamedTuple):
    """A pattern, its crystal system, and its space group if it is known."""

    row: str
    pattern: Pattern
    system: str
    group: int | None


@lru_cache(maxsize=1)
def _structures() -> list[Structure]:
    return [each for each in minerals(b_iso=1.0) if max(each.cell[:3]) < _LONGEST]


def simulated_cases(count: int) -> Iterator[Case]:
    """Minerals drawn at random, each with every number of counts."""
    structures = _structures()
    chosen = np.random.default_rng(5).permutation(len(structures))[:count]
    for number in chosen.tolist():
        structure = structures[number]
        group = _group_number(structure)
        if group is None:
            continue
        for counts in COUNTS:
            effects = with_counts(counts)
            with torch.random.fork_rng([]):
                torch.manual_seed(number)
                intensity = measure(simulator_lines(structure, effects.s_max), effects)[0].double().numpy()
            angles = effects.angles().numpy()
            pattern = Pattern(angles, intensity, None, CU_KALPHA1, structure.name, CU_KALPHA2, 0.25)
            yield Case(f"minerals, {counts:g} counts", pattern, space_groups.system_of(group), group)


def _group_number(structure: Structure) -> int | None:
    import gemmi

    found = gemmi.find_spacegroup_by_name(str(structure.spacegroup).partition(" %")[0])
    return None if found is None else int(found.number)


def reference_cases() -> Iterator[Case]:
    """Measured reference minerals: the system is that of most structures of the same name."""
    path = data_folder() / "measured" / "rockjock_half.npz"
    systems: dict[str, list[tuple[str, int]]] = {}
    for structure in minerals():
        group = _group_number(structure)
        if group is not None:
            name = structure.name.rpartition(" ")[0].lower()
            systems.setdefault(name, []).append((space_groups.system_of(group), group))
    with np.load(path, allow_pickle=False) as data:
        angles = data["two_theta"].astype(float)
        for intensity, mineral in zip(data["intensity"].astype(float), data["mineral"].tolist(), strict=True):
            known = systems.get(mineral.lower())
            if not known:
                continue
            names = [system for system, _ in known]
            system = max(sorted(set(names)), key=names.count)
            pattern = Pattern(angles, intensity, None, CU_KALPHA1, mineral, CU_KALPHA2, 0.5)
            yield Case("reference minerals", pattern, system, None)
            if not mineral.lower().startswith(_CLAYS):
                yield Case("reference minerals, no clays", pattern, system, None)


def _score(cases: Sequence[Case], guesses: Sequence[ProfileSymmetry]) -> tuple[str, ...]:
    right = np.array([guess.system == case.system for case, guess in zip(cases, guesses, strict=True)])
    sure = np.array([guess.systems[guess.system] for guess in guesses])
    cells = [f"{right.mean():.1%}", f"{confidence_error(sure, right):.3f}"]
    for first in (1, 5):
        if any(case.group is None for case in cases):
            cells.append("")
            continue
        listed = [
            any(case.group in group.groups for group, _ in guess.groups[:first])
            for case, guess in zip(cases, guesses, strict=True)
        ]
        cells.append(f"{np.mean(listed):.1%}")
    return tuple(cells)


def show(cases: Sequence[Case], guesses: dict[str, list[ProfileSymmetry]]) -> None:
    """Print a row for each model and kind of pattern."""
    table = Table(title="Symmetry from the raw profile")
    for heading in ("patterns", "number", "model", "system", "ECE", "extinction group", "in the first 5"):
        table.add_column(heading, justify="left" if heading in ("patterns", "model") else "right")
    for row in dict.fromkeys(case.row for case in cases):
        here = [place for place, case in enumerate(cases) if case.row == row]
        some = [cases[place] for place in here]
        names = [case.system for case in some]
        commonest = max(sorted(set(names)), key=names.count)
        table.add_row(row, str(len(some)), f"commonest ({commonest})", f"{names.count(commonest) / len(some):.1%}")
        for model, every in guesses.items():
            table.add_row("", "", model, *_score(some, [every[place] for place in here]))
    Console(width=140).print(table)


def with_cells(case: Case) -> ProfileSymmetry:
    """The symmetry of a pattern by its profile and by the cells that explain its lines."""
    symmetry = index_pattern(case.pattern, IndexOptions(hints=False, symmetry=True)).symmetry
    assert symmetry is not None  # the patterns are in the range of the model
    return symmetry


def evaluate(models: dict[str, Predictor], count: int, cells: bool = False, jobs: int = 1) -> None:
    """Ask every model about every pattern and print the table."""
    cases = [*simulated_cases(count), *reference_cases()]
    guesses: dict[str, list[ProfileSymmetry]] = {name: [] for name in models}
    for case in track(cases, "reading profiles"):
        for name, model in models.items():
            guesses[name].append(predict_symmetry(case.pattern, model))
    if cells:
        distinct = {id(case.pattern): case for case in cases}  # some patterns are in two rows
        with ProcessPoolExecutor(jobs, initializer=alone) as pool:
            found = track(pool.map(with_cells, distinct.values()), "indexing", total=len(distinct))
            answers = dict(zip(distinct, found, strict=True))
        guesses["with cells"] = [answers[id(case.pattern)] for case in cases]
    show(cases, guesses)
    for name, every in guesses.items():
        wrong = [
            f"{case.pattern.name}: {guess.system}, not {case.system}"
            for case, guess in zip(cases, every, strict=True)
            if case.row == "reference minerals" and guess.system != case.system
        ]
        print(f"{name}, wrong reference minerals: {'; '.join(wrong)}")


def main(models: tuple[Path, ...] = (), count: int = 1000, cells: bool = False, jobs: int = 1) -> None:
    """Print the table.

    Args:
        models: folders of runs; the model of the package if there are none.
        count: simulated minerals.
        cells: index every pattern, too.
        jobs: processes that index, of one thread each.
    """
    named: dict[str, Predictor] = {path.name: load(path) for path in models}  # type: ignore[misc]
    evaluate(named or {"package": symmetry_model()}, count, cells, jobs)


if __name__ == "__main__":
    tyro.cli(main)
