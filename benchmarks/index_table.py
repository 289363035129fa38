"""How often `vitreous index` finds the unit cell, from raw patterns of 4500 points.

    python -m benchmarks.index_table --out runs/index                                  # all rows, a few hours
    python -m benchmarks.index_table --out runs/index --rows triclinic --count 60      # a sample of one
    python -m benchmarks.index_table --out runs/index --jobs 2                         # two processes, one thread each

Rows: random triclinic crystals; random crystals of all seven systems; real minerals of each system;
triclinic crystals and minerals again with three foreign lines and a zero shift of 0.03°; the measured patterns of the
data folder. A cell is exact if some basis of its lattice has all six parameters
within 0.5 % (measured: 0.2 %) of the true Niggli cell: so a lattice between two reduced forms is not counted as wrong.
`system` is the share of exact lattices in the right crystal system and centring, those of the true lattice within a
strain of 5e-4. `MAPE` is the mean absolute percentage error of the six parameters of the first cell, wrong ones
included; a pattern without any cell counts 100 %.
Minerals and measured patterns are looked for in the folder that the setting VITREOUS_DATA names. A finished pattern is
kept in `OUT/index.jsonl`, and what is there is not done again.
"""

import csv
import gzip
import itertools
import json
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from vitreous.core.errors import check_choice
from vitreous.data.builtin import data_folder
from vitreous.insight.evaluation import confidence_error
from vitreous.powder.bravais import bravais
from vitreous.powder.cell import cells_of, metrics_of
from vitreous.powder.files import read_pattern
from vitreous.powder.indexing import IndexOptions, index_pattern
from vitreous.powder.lattice import niggli, primitive
from vitreous.powder.pattern import Pattern
from vitreous.powder.probability import features, probability_from
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.crystals import Lines, random_crystals
from vitreous.powder.sim.effects import Effects
from vitreous.powder.sim.measurement import lorentz_polarisation, measure
from vitreous.powder.sim.space_groups import SYSTEMS
from vitreous.powder.sim.structure import Structure, simulator_lines
from vitreous.powder.sim.structure_files import minerals

Floats = NDArray[np.float64]

EFFECTS = Effects()
SHIFTED = replace(EFFECTS, zero=(0.03, 0.03))
ROWS = ("triclinic", "all systems", "minerals", "triclinic impure", "minerals impure", "measured")
_BATCH = 50  # random crystals that are drawn together
_B = 1.0  # Å², of every atom of a mineral
_FOREIGN = (0.02, 0.10)  # heights of foreign lines, of the strongest line
_STRAIN = 5e-4  # relative change of lengths: no list of lines shows a smaller one
_AMONG = 20  # lines of the crystal among which they lie


class Case(NamedTuple):
    """What is to be indexed: a row of the table, the group it is counted in, and its number or name there."""

    row: str
    group: str
    name: str


def cases(row: str, count: int) -> list[Case]:
    """`count` random crystals, a tenth of that many minerals of each system, or the measured patterns."""
    if row.startswith("triclinic"):
        return [Case(row, "random", str(i)) for i in range(count)]
    if row == "all systems":
        return [Case(row, system, str(i)) for system in SYSTEMS for i in range(-(-count // 10))]
    if row.startswith("minerals"):
        found = []
        for system in SYSTEMS:
            places = [i for i, name in enumerate(systems()) if name == system]
            wanted = min(len(places), -(-count // 10))
            chosen = np.linspace(0, len(places) - 1, wanted).round().astype(int)
            found += [Case(row, system, str(places[i])) for i in chosen]
        return found
    table = data_folder() / "powder" / "cells.csv"
    if not table.is_file():
        print(f"{table}: no such file, the measured patterns are left out")
        return []
    return [Case(row, entry["Crystal System"], entry["Material"]) for entry in _measured()]


@lru_cache(maxsize=1)
def systems() -> list[str]:
    """The crystal system of every mineral."""
    with gzip.open(data_folder() / "crystals" / "minerals.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line)["system"] for line in file]


@lru_cache(maxsize=1)
def _minerals() -> list[Structure]:
    return list(minerals(b_iso=_B))


def _measured() -> Iterator[dict[str, str]]:
    with (data_folder() / "powder" / "cells.csv").open() as file:
        yield from csv.DictReader(file)


def made(case: Case) -> tuple[Pattern, Floats]:
    """The pattern of a case and its true Niggli cell."""
    if case.row == "measured":
        return _read(case.name)
    effects = SHIFTED if case.row.endswith("impure") else EFFECTS
    with torch.random.fork_rng([]):
        if case.group == "random" or case.row == "all systems":
            batch, place = divmod(int(case.name), _BATCH)
            torch.manual_seed(1000 + batch)
            crystals = random_crystals("triclinic" if case.group == "random" else case.group, _BATCH, effects.s_max)
            lines, cell = crystals.lines, crystals.cell[place : place + 1].double().numpy()
            truth = primitive(cell, space_groups.centring(int(crystals.group[place])))[0]
        else:
            place = 0
            torch.manual_seed(int(case.name))
            structure = _minerals()[int(case.name)]
            effects = replace(effects, impurity=(0.0, 0.0))  # which needs a second crystal
            lines, truth = simulator_lines(structure, effects.s_max), _primitive(structure)
        if case.row.endswith("impure"):
            lines = _contaminated(lines)
        counts = measure(lines, effects)[place].double().numpy()
    pattern = Pattern(
        effects.angles().numpy(), counts, None, effects.wavelength, "/".join(case), effects.wavelength2, 0.5
    )
    return pattern, niggli(truth[None])[0]


def _read(name: str) -> tuple[Pattern, Floats]:
    entry = next(entry for entry in _measured() if entry["Material"] == name)
    cell = np.array([float(entry[key]) for key in ("a", "b", "c", "alpha", "beta", "gamma")])
    centring = "R" if entry["Name"] == "CaCO3" else "F" if entry["Name"] == "NaCl" else "P"
    pattern = read_pattern(data_folder() / "powder" / f"{name}.xy.gz", float(entry["Wavelength"]))
    return pattern, niggli(primitive(cell[None], centring))[0]


def _contaminated(lines: Lines) -> Lines:
    """Each crystal with three lines that are not its own, among its first."""
    s, strength, owner = [], [], []
    for i in range(lines.count):
        own = lines.owner == i
        seen = lines.s[own] * (EFFECTS.wavelength / 2) < 0.999
        known = lines.s[own][seen]
        height = lines.intensity[own][seen] * _lorentz(known)
        first = torch.unique((known * 1e4).round()) / 1e4
        low, high = float(first[0]), float(first[min(_AMONG, len(first)) - 1])
        at = torch.empty(3).uniform_(low, high)
        s.append(at)
        strength.append(torch.empty(3).uniform_(*_FOREIGN) * height.max() / _lorentz(at))
        owner.append(torch.full((3,), i))
    tilt = torch.full((3 * lines.count, 3), 1 / 3)
    return Lines(
        torch.cat([lines.s, *s]),
        torch.cat([lines.intensity, *strength]),
        torch.cat([lines.owner, *owner]),
        torch.cat([lines.tilt, tilt]),
        lines.directions,
        lines.count,
    )


def _lorentz(s: torch.Tensor) -> torch.Tensor:
    return lorentz_polarisation(torch.rad2deg(2 * torch.arcsin(s * (EFFECTS.wavelength / 2))))


def _primitive(structure: Structure) -> Floats:
    """The smallest cell that the translations among a structure's operations leave."""
    rotations, translations = structure.operations
    moves = translations[(rotations == np.eye(3)).all((1, 2))] % 1.0
    corners = np.array(list(itertools.product((-1, 0, 1), repeat=3)))
    vectors = (moves[:, None] + corners).reshape(-1, 3)
    vectors = vectors[np.abs(vectors).max(1) <= 1]
    vectors = vectors[np.argsort(np.abs(vectors).sum(1))]
    triples = np.array(list(itertools.combinations(range(min(40, len(vectors))), 3)))
    bases = vectors[triples]
    volumes = np.abs(np.linalg.det(bases))
    basis = bases[np.argmin(np.where(volumes > 1e-6, volumes, np.inf))]
    return cells_of(basis @ metrics_of(np.array([structure.cell])) @ basis.T)[0]


def off(cell: Floats, truth: Floats) -> Floats:
    """Relative differences `(6,)` of a cell and the true Niggli cell, in the basis in which the largest is smallest."""
    metric = metrics_of(niggli(cell[None]))[0]
    found = cells_of(_bases() @ metric @ _bases().transpose(0, 2, 1))
    differences = np.abs(found / truth - 1)
    return np.asarray(differences[differences.max(1).argmin()])


@lru_cache(maxsize=1)
def _bases() -> Floats:
    every = np.array(list(itertools.product((-1, 0, 1), repeat=9)), dtype=np.float64).reshape(-1, 3, 3)
    return every[np.abs(np.abs(np.linalg.det(every)) - 1) < 0.1]


def done(case: Case) -> dict[str, Any]:
    """One pattern: its rank, probability and seconds."""
    pattern, truth = made(case)
    start = time.perf_counter()
    result = index_pattern(pattern, IndexOptions(most=5, hints=False))
    seconds = time.perf_counter() - start
    limit = 0.002 if case.row == "measured" else 0.005
    wrong = [off(np.array(solution.cell), truth) for solution in result.solutions]
    rank = next((i + 1 for i, differences in enumerate(wrong) if differences.max() <= limit), None)
    record: dict[str, Any] = {"case": list(case), "rank": rank, "seconds": seconds, "truth": truth.tolist()}
    if result.solutions:
        best = result.solutions[0]
        record |= {"features": features(result.solutions), "evidence": best.evidence, "m20": best.m20}
        record["error"] = float(np.minimum(wrong[0], 1.0).mean())
        record |= {"system": best.system, "centring": best.centring, "cell": list(best.cell)}
        record |= {"lines": best.lines, "indexed": best.indexed}
    if result.fit is not None and rank == 1:
        refined = primitive(np.array([result.fit.cell]), result.solutions[0].centring)[0]
        record["lengths"] = float(np.median(off(refined, truth)[:3]))
    return record


def has_right_system(record: dict[str, Any]) -> bool:
    """Whether the first cell is exact and has the symmetry of the true lattice."""
    if record["rank"] != 1:
        return False
    lattice = bravais(np.array(record["truth"]), _STRAIN)
    true_system = "hexagonal" if lattice.system == "trigonal" else lattice.system
    return bool((record["system"], record["centring"]) == (true_system, lattice.centring))


def probability(record: dict[str, Any]) -> float:
    """The first cell's probability with the weights of today: they may change without a new search; 0 for no cell."""
    return probability_from(record["features"]) if record.get("features") else 0.0


def calibration(found: list[dict[str, Any]]) -> float:
    """Expected calibration error of the first cell's probability."""
    probabilities = np.array([probability(record) for record in found])
    return confidence_error(probabilities, np.array([record["rank"] == 1 for record in found]))


def show(records: list[dict[str, Any]]) -> None:
    """Print what is known: each row, and each group of it."""
    table = Table(title="Unit cells from raw patterns")
    for heading in (
        "row",
        "group",
        "patterns",
        "rank 1",
        "top 5",
        "system",
        "seconds",
        "error of lengths",
        "MAPE",
        "ECE",
    ):
        table.add_column(heading, justify="left" if heading in ("row", "group") else "right")
    for row in ROWS:
        mine = [record for record in records if record["case"][0] == row]
        groups = [name for name in ("random", *SYSTEMS) if any(record["case"][1] == name for record in mine)]
        for group in [*groups, "all"] if len(groups) > 1 else groups:
            some = mine if group == "all" else [record for record in mine if record["case"][1] == group]
            first = sum(record["rank"] == 1 for record in some) / len(some)
            five = sum(record["rank"] is not None for record in some) / len(some)
            seconds = statistics.median(record["seconds"] for record in some)
            errors = [record["lengths"] for record in some if "lengths" in record]
            error = f"{statistics.median(errors):.1e}" if errors else ""
            ece = f"{calibration(some):.3f}" if len(some) >= 50 else ""
            exact = [record for record in some if record["rank"] == 1]
            system = f"{sum(map(has_right_system, exact)) / len(exact):.1%}" if exact else ""
            mape = f"{statistics.fmean(record.get('error', 1.0) for record in some):.2%}"
            shares = f"{first:.1%}", f"{five:.1%}", system
            table.add_row(row, group, str(len(some)), *shares, f"{seconds:.2f}", error, mape, ece)
    Console(width=120).print(table)


def alone() -> None:
    """Let a process use one thread."""
    torch.set_num_threads(1)


def main(out: Path, rows: tuple[str, ...] = ROWS, count: int = 1000, jobs: int = 1) -> None:
    """Index what is not yet indexed and print the table.

    Args:
        out: folder of index.jsonl.
        rows: of the table: triclinic, 'all systems', minerals, 'triclinic impure', 'minerals impure', measured.
        count: random crystals; of minerals, a tenth for each system.
        jobs: processes, of one thread each if there are several.
    """
    for row in rows:
        check_choice("rows", row, ROWS)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "index.jsonl"
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    wanted = [case for row in rows for case in cases(row, count)]
    left = [case for case in wanted if list(case) not in [record["case"] for record in known]]
    with path.open("a") as file, ProcessPoolExecutor(max(1, jobs), initializer=alone) as pool:
        results = map(done, left) if jobs == 1 else pool.map(done, left)
        for record in track(results, "indexing", total=len(left)):
            file.write(json.dumps(record) + "\n")
            file.flush()
            known.append(record)
    shown = {tuple(case) for case in wanted}
    show([record for record in known if tuple(record["case"]) in shown])


if __name__ == "__main__":
    tyro.cli(main)
