"""Fit the probability that the first cell of an indexing is right: `SearchTuning.logistic`.

    python -m tools.fit_index_probability --out runs/probability --count 60 --jobs 2

What is indexed has other numbers than in the benchmarks: random triclinic crystals and minerals, with and without
foreign lines; dirty lists; lines at random, of no crystal; mixtures of two crystals; and the measured patterns. A
logistic regression of the features on whether the cell was right is printed, with its calibration on each kind. The
features are kept in `OUT/features.jsonl`, and what is there is not indexed again.
"""

import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from rich.progress import track
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from benchmarks import dirty_lists, false_confidence, index_table, measured_table
from benchmarks.refinement_pulls import measured_cases
from vitreous.insight.evaluation import confidence_error
from vitreous.powder import index_peaks
from vitreous.powder.indexing import IndexOptions, index_pattern
from vitreous.powder.probability import features
from vitreous.powder.radiation import CU_KALPHA1
from vitreous.powder.solution import Solution

_EXACT = 0.005  # relative
_FIRST = 10_000  # number of the first crystal, list or mixture: the benchmarks' are below
_SURE = 0.5
_KEPT = (
    "system", "centring", "cell", "evidence", "indexed", "lines", "possible", "unexplained", "m20", "f20", "volume",
)  # fmt: skip

Job = tuple[str, Any]  # a kind and a case of one of the benchmarks


def jobs_of(count: int) -> list[Job]:
    """`count` cases of each kind, but three times as many lines at random, and all measured patterns."""
    benchmark = {int(case.name) for case in index_table.cases("minerals", 1000)}
    by_system: dict[str, list[int]] = {}
    for place in np.random.default_rng(7).permutation(len(index_table.systems())).tolist():
        if place not in benchmark:
            by_system.setdefault(index_table.systems()[place], []).append(place)
    minerals = [places[k] for k in range(count) for places in by_system.values() if k < len(places)][:count]
    jobs: list[Job] = []
    for row in ("triclinic", "triclinic impure"):
        jobs += [(row, index_table.Case(row, "random", str(_FIRST + i))) for i in range(count)]
    for row in ("minerals", "minerals impure"):
        jobs += [(row, index_table.Case(row, index_table.systems()[i], str(i))) for i in minerals]
    for foreign in (0, 3, 6, 8):
        for i in range(count):
            system = dirty_lists.SYSTEMS[i % 3]
            jobs.append((f"dirty {foreign}", dirty_lists.Case(system, foreign, bool(i // 3 % 2), _FIRST + i)))
    jobs += [("mixture", case) for case in false_confidence.mixture_cases(2 * count, _FIRST)]
    jobs += [("garbage", false_confidence.Case(false_confidence.GARBAGE, _FIRST + i)) for i in range(3 * count)]
    return jobs + [("measured", case.name) for case in measured_cases(10)]


def solve(job: Job) -> tuple[list[Solution], bool]:
    """The solutions of a case, and whether the first one is right."""
    kind, case = job
    if kind in ("mixture", "garbage"):
        return false_confidence.solve(case)
    if kind == "measured":
        pattern = next(each for each in measured_cases(10) if each.name == case)
        reply = measured_table.answer(pattern)
        return reply.solutions, reply.is_right
    if kind.startswith("dirty"):
        lines = dirty_lists.simulate_list(case)
        solutions, truth = index_peaks(lines.two_theta, lines.intensity, wavelength=CU_KALPHA1), lines.truth
    else:
        pattern, truth = index_table.made(case)
        solutions = index_pattern(pattern, IndexOptions(hints=False, most=10)).solutions
    return solutions, bool(solutions) and index_table.off(np.array(solutions[0].cell), truth).max() <= _EXACT


def record(job: Job) -> dict[str, Any]:
    """The features of what was found, and whether it is right."""
    solutions, right = solve(job)
    best = solutions[0] if solutions else None
    return {
        "job": _name(job),
        "features": features(solutions) if best else None,
        "right": bool(right),
        "fit": {name: getattr(best.fit, name) for name in ("rwp", "rexp", "chi2", "unexplained")}
        if best is not None and best.fit is not None
        else None,
        "solutions": [{name: getattr(each, name) for name in _KEPT} for each in solutions[:5]],
    }


def _name(job: Job) -> str:
    return json.dumps([job[0], job[1] if isinstance(job[1], str) else list(job[1])])


def show(records: list[dict[str, Any]]) -> None:
    """Fit the regression, and print its weights and the cross-validated calibration of every kind."""
    records = [each for each in records if each["features"]]
    kinds = np.array([json.loads(each["job"])[0] for each in records])
    y = np.array([each["right"] for each in records])
    x = np.array([each["features"] for each in records])
    fit = LogisticRegression(fit_intercept=False, C=10.0, max_iter=5000)
    p = cross_val_predict(fit, x, y, cv=10, method="predict_proba")[:, 1]
    print("logistic =", tuple(round(float(weight), 2) for weight in fit.fit(x, y).coef_[0]))
    print(f"{'kind':18s} number  right  wrong above {_SURE}  right below  ECE")
    for kind in [*dict.fromkeys(kinds.tolist()), "all"]:
        some = (kinds == kind) | (kind == "all")
        wrong, doubted = np.mean(~y[some] & (p[some] > _SURE)), np.mean(y[some] & (p[some] < _SURE))
        error = confidence_error(p[some], y[some])
        print(f"{kind:18s} {some.sum():6d} {y[some].mean():6.1%} {wrong:16.1%} {doubted:12.1%} {error:.3f}")
    place = np.minimum((10 * p).astype(int), 9)
    for k in range(10):
        if (place == k).any():
            print(f"{k / 10:.1f} to {(k + 1) / 10:.1f}: {(place == k).sum():4d}, {y[place == k].mean():.2f} right")


def main(out: Path, count: int = 60, jobs: int = 1) -> None:
    """Index, fit and print.

    Args:
        out: folder of features.jsonl.
        count: cases of each kind.
        jobs: processes, of one thread each.
    """
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "features.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    finished = {each["job"] for each in records}
    left = [job for job in jobs_of(count) if _name(job) not in finished]
    order = np.random.default_rng(0).permutation(len(left))
    with path.open("a") as file, ProcessPoolExecutor(max(1, jobs), initializer=index_table.alone) as pool:
        for each in track(pool.map(record, [left[i] for i in order]), "indexing", total=len(left)):
            file.write(json.dumps(each) + "\n")
            file.flush()
            records.append(each)
    show(records)


if __name__ == "__main__":
    tyro.cli(main)
