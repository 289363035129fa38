"""Whether the probability of the first cell can be believed where there is no single right answer.

    python -m benchmarks.false_confidence --out runs/confidence --jobs 2                  # 500 lists, 300 mixtures
    python -m benchmarks.false_confidence --out runs/confidence --garbage 50 --mixtures 30

Garbage is a list of lines at random, with and without intensities: every cell is wrong. A mixture is the sum of two
simulated patterns, minerals or random triclinic crystals, with 50, 70 or 90 % of the intensity in the first one: the
cell of either crystal is right. A finished case is kept in `OUT/confidence.jsonl`, and what is there is not done again.
"""

import json
import statistics
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import index_table
from vitreous.insight.evaluation import confidence_error
from vitreous.powder import index_peaks
from vitreous.powder.indexing import IndexOptions, index_pattern
from vitreous.powder.pattern import Pattern
from vitreous.powder.probability import features
from vitreous.powder.radiation import CU_KALPHA1
from vitreous.powder.solution import Solution

Floats = NDArray[np.float64]

SHARES = (50, 70, 90)  # percent of the intensity of a mixture that is the first crystal's
GARBAGE = "garbage"
_EXACT = 0.005
_SURE = 0.5


class Case(NamedTuple):
    """Garbage or a mixture (`50/50`), and its number."""

    kind: str
    number: int


class LineList(NamedTuple):
    """Lines in degrees, by ascending angle, and their intensities if there are any."""

    two_theta: Floats
    intensity: Floats | None


def mixture_cases(count: int, first: int = 0) -> list[Case]:
    """`count` mixtures, equally many of each share."""
    return [Case(f"{SHARES[i % 3]}/{100 - SHARES[i % 3]}", i) for i in range(first, first + count)]


def garbage_lines(number: int) -> LineList:
    """Lines at random."""
    rng = np.random.default_rng((11, number))
    angle = np.sort(rng.uniform(10, rng.uniform(35, 60), rng.integers(12, 40)))
    return LineList(angle, rng.exponential(0.2, len(angle)) if number % 2 else None)


def mixture(case: Case) -> tuple[Pattern, list[Floats]]:
    """The sum of two simulated patterns, and the Niggli cells of both crystals."""
    rng = np.random.default_rng((12, case.number))
    share = int(case.kind.split("/")[0]) / 100
    (first, cell), (second, other) = (index_table.made(_crystal(rng)) for _ in range(2))
    heights = [pattern.intensity - np.percentile(pattern.intensity, 5) for pattern in (first, second)]
    strength = [float(height.sum()) for height in heights]
    scale = (1 - share) / share * strength[0] / strength[1]
    total = first.intensity + scale * heights[1]
    mixed = Pattern(first.two_theta, total, None, first.wavelength, f"mixture {case.number}", first.wavelength2, 0.5)
    return mixed, [cell, other]


def _crystal(rng: np.random.Generator) -> index_table.Case:
    """A mineral, or with one chance in five a random triclinic crystal; none of those in `index_table`."""
    if rng.random() < 0.2:
        return index_table.Case("triclinic", "random", str(rng.integers(20_000, 30_000)))
    place = int(rng.integers(len(index_table.systems())))
    return index_table.Case("minerals", index_table.systems()[place], str(place))


def solve(case: Case) -> tuple[list[Solution], bool]:
    """The solutions of a case, and whether the first one is right."""
    if case.kind == GARBAGE:
        lines = garbage_lines(case.number)
        return index_peaks(lines.two_theta, lines.intensity, wavelength=CU_KALPHA1), False
    pattern, cells = mixture(case)
    solutions = index_pattern(pattern, IndexOptions(hints=False, most=10)).solutions
    if not solutions:
        return [], False
    return solutions, any(index_table.off(np.array(solutions[0].cell), cell).max() <= _EXACT for cell in cells)


def answer(case: Case) -> dict[str, Any]:
    """The probability of the first cell, and whether it is right."""
    solutions, right = solve(case)
    best = solutions[0] if solutions else None
    return {
        "case": list(case),
        "right": right,
        "features": features(solutions) if best else None,
        "system": best.system if best else None,
        "evidence": best.evidence if best else 0.0,
    }


def show(records: list[dict[str, Any]]) -> None:
    """Print a row for each kind."""
    table = Table(title="False confidence")
    for heading in ("kind", "number", "right", f"wrong above {_SURE}", "largest wrong", "mean probability", "ECE"):
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    mixtures = [record for record in records if record["case"][0] != GARBAGE]
    groups = {GARBAGE: [record for record in records if record["case"][0] == GARBAGE]}
    for kind in sorted({record["case"][0] for record in mixtures}):
        groups[f"mixture {kind}"] = [record for record in mixtures if record["case"][0] == kind]
    groups["all mixtures"] = mixtures
    for name, group in groups.items():
        if group:
            p = np.array([index_table.probability(record) for record in group])
            right = np.array([record["right"] for record in group])
            wrong = f"{np.mean(~right & (p > _SURE)):.1%}", f"{p[~right].max(initial=0.0):.2f}"
            mean, error = f"{statistics.fmean(p.tolist()):.2f}", f"{confidence_error(p, right):.3f}"
            table.add_row(name, str(len(group)), f"{right.mean():.1%}", *wrong, mean, error)
    Console(width=120).print(table)


def main(out: Path, garbage: int = 500, mixtures: int = 300, jobs: int = 1) -> None:
    """Index what is not yet indexed and print the table.

    Args:
        out: folder of confidence.jsonl.
        garbage: lists of lines at random.
        mixtures: sums of two patterns.
        jobs: processes, of one thread each.
    """
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "confidence.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    cases = [Case(GARBAGE, i) for i in range(garbage)] + mixture_cases(mixtures)
    finished = {tuple(record["case"]) for record in records}
    left = [case for case in cases if case not in finished]
    with path.open("a") as file, ProcessPoolExecutor(max(1, jobs), initializer=index_table.alone) as pool:
        for record in track(pool.map(answer, left), "indexing", total=len(left)):
            file.write(json.dumps(record) + "\n")
            file.flush()
            records.append(record)
    show([record for record in records if tuple(record["case"]) in set(cases)])


if __name__ == "__main__":
    tyro.cli(main)
