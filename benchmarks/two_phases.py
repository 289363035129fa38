"""How often both cells of a mixture of two minerals are found, and how often a second phase is invented.

    python -m benchmarks.two_phases --out runs/phases                        # 40 pairs and 30 minerals, half an hour
    python -m benchmarks.two_phases --out runs/phases --pairs 10 --singles 0

A pair is the sum of two simulated patterns of minerals with 70 and 30 % of the intensity. A cell is right if some basis
of its lattice has all six parameters within 0.5 % of those of a crystal. `both` and `minor` ask for two phases; `major`
only that the cell of the stronger crystal is one of the answer's. Invented phases are those of patterns of one mineral.
A finished case is kept in `OUT/phases.jsonl`, and what is there is not done again.
"""

import json
import statistics
import time
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
from vitreous.powder.indexing import IndexOptions, index_pattern
from vitreous.powder.pattern import Pattern

Floats = NDArray[np.float64]

PAIR, SINGLE = "pairs 70/30", "one mineral"
_SHARE = 0.7  # of the intensity of a pair that is the first mineral's
_EXACT = 0.005
_SURE = 0.5


class Case(NamedTuple):
    """A pair of minerals or a single one, and its number."""

    kind: str
    number: int


def simulated(case: Case, seed: int) -> tuple[Pattern, list[Floats]]:
    """The pattern of a case, and the Niggli cells of its crystals, the stronger one first."""
    rng = np.random.default_rng((seed, case.number) if case.kind == PAIR else (seed, case.number, 1))
    systems = index_table.systems()
    places = rng.choice(len(systems), 2, replace=False)
    (first, cell), (second, other) = (
        index_table.made(index_table.Case("minerals", systems[place], str(place))) for place in places
    )
    if case.kind == SINGLE:
        return first, [cell]
    heights = [pattern.intensity - np.percentile(pattern.intensity, 5) for pattern in (first, second)]
    scale = (1 - _SHARE) / _SHARE * heights[0].sum() / heights[1].sum()
    total = first.intensity + scale * heights[1]
    name = f"pair {case.number}"
    return Pattern(first.two_theta, total, None, first.wavelength, name, first.wavelength2, 0.5), [cell, other]


def answer(case: Case, seed: int) -> dict[str, Any]:
    """Which cells of a case are among the phases of the answer, and its phases."""
    pattern, cells = simulated(case, seed)
    start = time.perf_counter()
    result = index_pattern(pattern, IndexOptions(hints=False))
    seconds = time.perf_counter() - start
    phases = []
    for phase in result.phases:
        right = [bool(index_table.off(np.array(phase.cell), cell).max() <= _EXACT) for cell in cells]
        share = None if phase.fit is None else phase.fit.share
        phases.append({"right": right, "probability": phase.probability, "share": share})
    return {"case": list(case), "seed": seed, "seconds": seconds, "phases": phases}


def show(records: list[dict[str, Any]]) -> None:
    """Print a row for each kind."""
    table = Table(title="Two phases")
    headings = ("kind", "number", "both", "major", "minor", "two phases", f"wrong second above {_SURE}", "seconds")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    for kind in (PAIR, SINGLE):
        group = [record for record in records if record["case"][0] == kind]
        if not group:
            continue
        found = [np.array([phase["right"] for phase in record["phases"]], dtype=bool) for record in group]
        seen = np.array([each.any(axis=0) if len(each) else np.zeros(1 + (kind == PAIR), dtype=bool) for each in found])
        second = [record["phases"][1:] for record in group]
        wrong = [any(not any(p["right"]) and p["probability"] > _SURE for p in phases) for phases in second]
        minor = (f"{seen.all(1).mean():.1%}", f"{seen[:, 0].mean():.1%}", f"{seen[:, -1].mean():.1%}")
        cells = minor if kind == PAIR else ("", minor[1], "")
        shares = f"{np.mean([bool(phases) for phases in second]):.1%}", f"{np.mean(wrong):.1%}"
        table.add_row(kind, str(len(group)), *cells, *shares, f"{statistics.median(r['seconds'] for r in group):.1f}")
    Console(width=120).print(table)


def main(out: Path, pairs: int = 40, singles: int = 30, seed: int = 13) -> None:
    """Index what is not yet indexed and print the table.

    Args:
        out: folder of phases.jsonl.
        pairs: sums of two minerals.
        singles: minerals alone.
        seed: of the choice of minerals.
    """
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "phases.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    cases = [Case(PAIR, i) for i in range(pairs)] + [Case(SINGLE, i) for i in range(singles)]
    finished = {(*record["case"], record["seed"]) for record in records}
    left = [case for case in cases if (*case, seed) not in finished]
    with path.open("a") as file:
        for case in track(left, "indexing"):
            record = answer(case, seed)
            file.write(json.dumps(record) + "\n")
            file.flush()
            records.append(record)
    wanted = {(*case, seed) for case in cases}
    show([record for record in records if (*record["case"], record["seed"]) in wanted])


if __name__ == "__main__":
    tyro.cli(main)
