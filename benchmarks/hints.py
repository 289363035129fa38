"""What hints are worth to `vitreous index`: cells at rank 1 without and with each hint, on simulated minerals.

    python -m benchmarks.hints --out runs/hints                       # 14 minerals of each system, about an hour
    python -m benchmarks.hints --out runs/hints --count 3 --hints volume cell  # a sample

Every pattern has a zero shift of N(0, 0.05°) and the usual effects of a laboratory diffractometer. Hints are true:
`volume` is that of the cell within 10 %, `density` has an error of 2 %, `cell` has errors of 0.2 %, `foreign` excludes
a foreign line half as strong as the strongest of the mineral, and `standard` names the silicon that was mixed with the
mineral, its strongest line half as strong. Each is compared with a search of the same pattern without it. Right means
that some basis of the first lattice has all six parameters within 0.5 % of the true Niggli cell. No second
phase is searched. Minerals are looked for in the folder that the setting VITREOUS_DATA names. A finished pattern is
kept in `OUT/hints.jsonl`, and what is there is not done again.
"""

import gzip
import json
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
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

from benchmarks.index_table import EFFECTS, Case, alone, cases, made, off
from vitreous.core.errors import check_choice
from vitreous.data.builtin import data_folder
from vitreous.powder.bragg import two_theta_from_s
from vitreous.powder.cell import volumes
from vitreous.powder.formula import parse_formula
from vitreous.powder.indexing import IndexOptions, index_pattern
from vitreous.powder.known import Known
from vitreous.powder.pattern import Pattern
from vitreous.powder.search import LATTICES
from vitreous.powder.sim.crystals import Lines
from vitreous.powder.sim.measurement import lorentz_polarisation, measure
from vitreous.powder.sim.structure import Structure, expand, simulator_lines
from vitreous.powder.sim.structure_files import minerals
from vitreous.powder.standards import standard_structure

Floats = NDArray[np.float64]

STANDARD = "Si"
_ZERO = 0.05  # degrees, standard deviation
_HEIGHT = 0.5  # of the foreign line and of the standard, relative to the mineral's strongest line
_LIMIT = 0.005  # relative difference from the true cell
_B = 1.0  # Å², of every atom of a mineral
_AVOGADRO = 0.602214076  # 1e24/mol


@dataclass(frozen=True)
class Sample:
    """A mineral: what a user may know of it."""

    case: Case
    structure: Structure
    formula: str
    truth: Floats  # its Niggli cell
    zero: float  # degrees

    @property
    def random(self) -> np.random.Generator:
        """Random numbers of this mineral."""
        return np.random.default_rng(int(self.case.name))

    @property
    def density(self) -> float:
        """g/cm³, of all atoms of the cell."""
        atoms = expand(self.structure)
        mass = sum(
            share * parse_formula(element).mass
            for element, share in zip(atoms.elements, atoms.occupancy.tolist(), strict=True)
        )
        return float(mass / volumes([self.structure.cell])[0] / _AVOGADRO)


class Hint(NamedTuple):
    """A true hint, the crystal systems that it allows, and what else is in the sample."""

    known: Callable[[Sample], Known]
    systems: Callable[[Sample], tuple[str, ...]] = lambda sample: tuple(LATTICES)
    added: str = ""  # `foreign`, `standard` or nothing


def _volume(sample: Sample) -> Known:
    volume = float(volumes([sample.truth])[0])
    return Known(volume=(0.9 * volume, 1.1 * volume))


def _density(sample: Sample) -> Known:
    return Known(formula=sample.formula, density=sample.density * float(sample.random.normal(1, 0.02)))


def _cell(sample: Sample) -> Known:
    changes = np.array([*sample.random.normal(1, 0.002, 3), 1, 1, 1])
    return Known(cell=tuple((np.array(sample.structure.cell) * changes).tolist()))


def _foreign(sample: Sample) -> Known:
    angle = foreign_angle(sample)
    return Known(exclude=((angle - 0.3, angle + 0.3),))


HINTS = {
    "volume": Hint(_volume),
    "zero": Hint(lambda sample: Known(zero=sample.zero)),
    "system": Hint(lambda sample: Known(), lambda sample: (sample.case.group,)),
    "formula": Hint(lambda sample: Known(formula=sample.formula)),
    "density": Hint(_density),
    "cell": Hint(_cell),
    "foreign": Hint(_foreign, added="foreign"),
    "standard": Hint(lambda sample: Known(standard=STANDARD), added="standard"),
}


@lru_cache(maxsize=1)
def _minerals() -> list[tuple[Structure, str]]:
    with gzip.open(data_folder() / "crystals" / "minerals.jsonl.gz", "rt", encoding="utf-8") as file:
        formulas = [json.loads(line)["formula"] for line in file]
    return list(zip(minerals(b_iso=_B), formulas, strict=True))


def sample_of(case: Case) -> Sample:
    """The mineral of a case."""
    structure, formula = _minerals()[int(case.name)]
    zero = float(np.random.default_rng(int(case.name) + 1).normal(0, _ZERO))
    return Sample(case, structure, formula, made(case)[1], zero)


def foreign_angle(sample: Sample) -> float:
    """2θ of the foreign line in degrees: among the first lines of the mineral."""
    lines = simulator_lines(sample.structure, EFFECTS.s_max)
    first = np.unique(np.round(two_theta_from_s(lines.s.double(), EFFECTS.wavelength).numpy(), 2))[:20]
    return float(sample.random.uniform(first[0], first[-1]))


def pattern_of(sample: Sample, added: str = "") -> Pattern:
    """The simulated pattern of a mineral, with a foreign line or with a standard."""
    effects = replace(EFFECTS, impurity=(0.0, 0.0), zero=(sample.zero, sample.zero))
    with torch.random.fork_rng([]):
        torch.manual_seed(int(sample.case.name))
        lines = simulator_lines(sample.structure, effects.s_max)
        if added == "standard":
            other = simulator_lines(standard_structure(STANDARD), effects.s_max)
            share = _HEIGHT * _highest(lines) / _highest(other)
            lines = lines.joined(other.s, share * other.intensity, other.owner, other.tilt)
        elif added == "foreign":
            s = 2 * np.sin(np.radians(foreign_angle(sample) / 2)) / effects.wavelength
            at = torch.tensor([s], dtype=lines.s.dtype)
            height = _HEIGHT * _highest(lines) / _lorentz(at)
            lines = lines.joined(at, height, torch.zeros(1, dtype=torch.long), torch.full((1, 3), 1 / 3))
        counts = measure(lines, effects)[0].double().numpy()
    name = "/".join(sample.case)
    return Pattern(effects.angles().numpy(), counts, None, effects.wavelength, name, effects.wavelength2, 0.5)


def _highest(lines: Lines) -> float:
    """The area of the strongest line, reflections at one angle together."""
    seen = lines.s * (EFFECTS.wavelength / 2) < 0.999
    _, line = torch.unique((lines.s[seen] * 1e4).round(), return_inverse=True)
    areas = torch.zeros(int(line.max()) + 1).index_add_(0, line, lines.intensity[seen] * _lorentz(lines.s[seen]))
    return float(areas.max())


def _lorentz(s: torch.Tensor) -> torch.Tensor:
    return lorentz_polarisation(two_theta_from_s(s, EFFECTS.wavelength))


def is_right(sample: Sample, pattern: Pattern, known: Known, systems: tuple[str, ...], refine: bool = True) -> bool:
    """Whether the first cell of a search is the true one."""
    options = IndexOptions(systems=systems, known=known, hints=False, refine=refine, phases=1)
    best = index_pattern(pattern, options).best
    return best is not None and bool(off(np.array(best.cell), sample.truth).max() <= _LIMIT)


def done(case: Case, name: str) -> dict[str, Any]:
    """One mineral with one hint; an empty name is a search without any, after a colon what was added."""
    sample = sample_of(case)
    hint = HINTS[name] if name in HINTS else Hint(lambda sample: Known(), added=name.partition(":")[2])
    pattern = pattern_of(sample, hint.added)
    start = time.perf_counter()
    right = is_right(sample, pattern, hint.known(sample), hint.systems(sample))
    return {"case": list(case), "hint": name, "right": right, "seconds": time.perf_counter() - start}


def show(records: list[dict[str, Any]], names: tuple[str, ...]) -> None:
    """Print what is known of each hint."""
    found = {(tuple(record["case"]), record["hint"]): record for record in records}
    table = Table(title="Right cells at rank 1 without and with a true hint")
    for heading in ("hint", "minerals", "without", "with", "lost", "won", "seconds without", "with "):
        table.add_column(heading, justify="left" if heading == "hint" else "right")
    for name in names:
        pairs = [
            (found[case, f":{HINTS[name].added}"], record)
            for (case, hint), record in found.items()
            if hint == name and (case, f":{HINTS[name].added}") in found
        ]
        if not pairs:
            continue
        before, after = (np.array([pair[i]["right"] for pair in pairs]) for i in (0, 1))
        seconds = [f"{np.median([pair[i]['seconds'] for pair in pairs]):.1f}" for i in (0, 1)]
        changes = str(int((before & ~after).sum())), str(int((after & ~before).sum()))
        table.add_row(name, str(len(pairs)), f"{before.mean():.1%}", f"{after.mean():.1%}", *changes, *seconds)
    Console(width=110).print(table)


def main(out: Path, count: int = 14, hints: tuple[str, ...] = tuple(HINTS), jobs: int = 1) -> None:
    """Index what is not yet indexed and print the table.

    Args:
        out: folder of hints.jsonl.
        count: minerals of each crystal system.
        hints: volume, zero, system, formula, density, cell, foreign, standard.
        jobs: processes, of one thread each.
    """
    for name in hints:
        check_choice("hints", name, HINTS)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "hints.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    names = dict.fromkeys([*(f":{HINTS[name].added}" for name in hints), *hints])
    known = {(tuple(record["case"]), record["hint"]) for record in records}
    wanted = [(case, name) for case in cases("minerals", 10 * count) for name in names]
    left = [each for each in wanted if (tuple(each[0]), each[1]) not in known]
    with path.open("a") as file, ProcessPoolExecutor(max(1, jobs), initializer=alone) as pool:
        columns = [list(column) for column in zip(*left, strict=True)] or [[], []]
        results = map(done, *columns) if jobs == 1 else pool.map(done, *columns)
        for record in track(results, "indexing", total=len(left)):
            file.write(json.dumps(record) + "\n")
            file.flush()
            records.append(record)
    show(records, hints)


if __name__ == "__main__":
    tyro.cli(main)
