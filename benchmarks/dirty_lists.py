"""How often `index_peaks` finds the unit cell from lists of lines as the literature has them.

    python -m benchmarks.dirty_lists --out runs/dirty --jobs 2                       # 100 lists a system, about an hour
    python -m benchmarks.dirty_lists --out runs/dirty --count 12 --foreign 0 3 6     # a sample

A list has the first 20 lines of a random crystal, copper radiation: 15 % of its lines are missing, k of the 20 are
foreign (anywhere from below the first line to the last one), positions have errors of 0.02° and a common zero shift of
N(0, 0.07°). Neither the errors nor the shift are told to the program. Half of the rows have no intensities; in the
others they are those of the crystal, and foreign lines are as strong as its weaker half. Right means that some basis of
the first lattice has all six parameters within 0.5 % of the true Niggli cell. A finished list is kept in
`OUT/dirty.jsonl`, and what is there is not done again.
"""

import json
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
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

from benchmarks.index_table import alone, calibration, off
from vitreous.powder import index_peaks
from vitreous.powder.bragg import two_theta_from_s
from vitreous.powder.lattice import niggli, primitive
from vitreous.powder.probability import features
from vitreous.powder.radiation import CU_KALPHA1
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.crystals import Crystals, random_crystals
from vitreous.powder.sim.measurement import lorentz_polarisation

Floats = NDArray[np.float64]

SYSTEMS = ("orthorhombic", "monoclinic", "triclinic")
_LINES = 20
_ERROR = 0.02  # degrees
_ZERO = 0.07  # degrees, standard deviation
_MISSING = 0.15
_RESOLUTION = 0.04  # degrees: lines closer than this are one
_S_MAX = {"triclinic": 0.75, "monoclinic": 0.85, "orthorhombic": 1.1}  # 1/Å
_LOWEST = 0.7  # of the first line's angle: where foreign lines begin
_BATCH = 50  # crystals that are drawn together
_EXACT = 0.005


class Case(NamedTuple):
    """One list: crystal system, number of foreign lines, whether there are intensities, and its number."""

    system: str
    foreign: int
    intensities: bool
    number: int


class DirtyList(NamedTuple):
    """Lines by ascending angle and the true Niggli cell."""

    two_theta: Floats  # degrees
    intensity: Floats | None
    truth: Floats  # (6,), Å and degrees


@lru_cache(maxsize=8)
def _crystals(system: str, batch: int) -> Crystals:
    with torch.random.fork_rng([]):
        torch.manual_seed(9000 + batch)
        return random_crystals(system, _BATCH, _S_MAX[system])


def simulate_list(case: Case) -> DirtyList:
    """The list of a case; the same case gives the same list."""
    batch, place = divmod(case.number, _BATCH)
    crystals = _crystals(case.system, batch)
    rng = np.random.default_rng([SYSTEMS.index(case.system), case.number, case.foreign])
    own = crystals.lines.owner == place
    angle, intensity = _distinct_lines(
        two_theta_from_s(crystals.lines.s[own].double(), CU_KALPHA1).numpy(), crystals.lines.intensity[own].numpy()
    )
    seen = np.flatnonzero(rng.random(len(angle)) >= _MISSING)[: _LINES - case.foreign]
    angle, intensity = angle[seen], intensity[seen]
    foreign = rng.uniform(_LOWEST * angle[0], angle[-1], case.foreign)
    weak = rng.uniform(0, np.median(intensity), case.foreign)
    angle, intensity = np.concatenate([angle, foreign]), np.concatenate([intensity, weak])
    angle = angle + rng.normal(0, _ZERO) + rng.normal(0, _ERROR, len(angle))
    order = np.argsort(angle)
    centring = space_groups.centring(int(crystals.group[place]))
    truth = niggli(primitive(crystals.cell[place : place + 1].double().numpy(), centring))[0]
    return DirtyList(angle[order], intensity[order] if case.intensities else None, truth)


def _distinct_lines(angle: Floats, intensity: Floats) -> tuple[Floats, Floats]:
    """Lines by ascending angle, those closer than the resolution joined, with Lorentz-polarisation factors."""
    order = np.argsort(angle)
    angle, intensity = angle[order], intensity[order] * lorentz_polarisation(torch.as_tensor(angle[order])).numpy()
    group = np.cumsum(np.diff(angle, prepend=-1.0) > _RESOLUTION) - 1
    total = np.bincount(group, intensity)
    return np.bincount(group, intensity * angle) / total, total


def index_list(case: Case) -> dict[str, Any]:
    """Index one list: rank of the true lattice, probability of the first one, seconds."""
    lines = simulate_list(case)
    start = time.perf_counter()
    solutions = index_peaks(lines.two_theta, lines.intensity, wavelength=CU_KALPHA1, most=10)
    seconds = time.perf_counter() - start
    exact = [bool(off(np.array(solution.cell), lines.truth).max() <= _EXACT) for solution in solutions]
    best = solutions[0] if solutions else None
    return {
        "case": list(case),
        "rank": exact.index(True) + 1 if True in exact else None,
        "seconds": seconds,
        "features": features(solutions) if best else None,
        "system": best.system if best else None,
        "evidence": [solution.evidence for solution in solutions[:3]],
        "right_system": best is not None and exact[0] and best.system == case.system,
    }


def show(records: list[dict[str, Any]]) -> None:
    """Print one row for each system, number of foreign lines and kind of list."""
    table = Table(title="Unit cells from lists of 20 lines")
    for heading in ("intensities", "foreign", "system", "lists", "rank 1", "top 10", "right system", "seconds", "ECE"):
        table.add_column(heading, justify="left" if heading in ("intensities", "system") else "right")
    keys = sorted({(r["case"][2], r["case"][1]) for r in records})
    for intensities, foreign in keys:
        for system in (*SYSTEMS, "all"):
            some = [r for r in records if r["case"][1:3] == [foreign, intensities] and system in ("all", r["case"][0])]
            if not some:
                continue
            first, ten, right = (
                sum(map(test, some)) / len(some)
                for test in (lambda r: r["rank"] == 1, lambda r: r["rank"] is not None, lambda r: r["right_system"])
            )
            seconds = statistics.median(r["seconds"] for r in some)
            ece = f"{calibration(some):.3f}" if len(some) >= 50 else ""
            words = "yes" if intensities else "no"
            cells = f"{first:.1%}", f"{ten:.1%}", f"{right:.1%}", f"{seconds:.2f}", ece
            table.add_row(words, str(foreign), system, str(len(some)), *cells)
    Console(width=120).print(table)


def main(
    out: Path,
    count: int = 100,
    foreign: tuple[int, ...] = (0, 3, 6, 8),
    intensities: tuple[bool, ...] = (False, True),
    systems: tuple[str, ...] = SYSTEMS,
    jobs: int = 1,
) -> None:
    """Index the lists that are not yet indexed and print the table.

    Args:
        out: folder of dirty.jsonl.
        count: lists of each system.
        foreign: numbers of foreign lines among the 20.
        intensities: lists without and with intensities.
        systems: crystal systems.
        jobs: processes, of one thread each.
    """
    out.mkdir(parents=True, exist_ok=True)
    path = out / "dirty.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    cases = [Case(s, k, i, n) for i in intensities for k in foreign for s in systems for n in range(count)]
    finished = {tuple(record["case"]) for record in records}
    left = [case for case in cases if case not in finished]
    with path.open("a") as file, ProcessPoolExecutor(max(1, jobs), initializer=alone) as pool:
        for record in track(pool.map(index_list, left), "indexing", total=len(left)):
            file.write(json.dumps(record) + "\n")
            file.flush()
            records.append(record)
    show([record for record in records if tuple(record["case"]) in set(cases)])


if __name__ == "__main__":
    tyro.cli(main)
