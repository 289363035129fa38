"""Fit the probability that the first cell of an indexing is right: `SearchTuning.logistic`.

    python -m tools.fit_index_probability --count 60 --jobs 2

Simulated patterns are indexed, others than those of `benchmarks/index_table.py`: random triclinic crystals and
minerals, with and without foreign lines; and lines at random, of no crystal. A logistic regression of the features on
whether the cell was exact is printed.
"""

from concurrent.futures import ProcessPoolExecutor

import numpy as np
import torch
import tyro
from rich.progress import track
from sklearn.linear_model import LogisticRegression

from benchmarks.index_table import Case, alone, cases, made, off, systems
from vitreous.insight.evaluation import confidence_error
from vitreous.powder import index, index_peaks
from vitreous.powder.ranking import features

_EVERY = 0.005  # relative: what counts as exact
_FIRST = 10_000  # number of the first random crystal: the benchmark's are below
_NOTHING = "lines at random"


def chosen(count: int) -> list[Case]:
    """`count` cases of each of the four kinds, and half as many lists of lines at random."""
    known = {int(case.name) for case in cases("minerals", 1000)}
    by_system: dict[str, list[int]] = {}
    for place in np.random.default_rng(7).permutation(len(systems())).tolist():
        if place not in known:
            by_system.setdefault(systems()[place], []).append(place)
    rounds = [found[k] for k in range(count) for found in by_system.values() if k < len(found)][:count]
    found = [Case(row, "random", str(_FIRST + i)) for row in ("triclinic", "triclinic impure") for i in range(count)]
    found += [Case(row, systems()[i], str(i)) for row in ("minerals", "minerals impure") for i in rounds]
    return found + [Case(_NOTHING, "random", str(i)) for i in range(count // 2)]


def tried(case: Case) -> tuple[tuple[float, ...], bool] | None:
    """The features of what was found, and whether it is right; None where nothing was found."""
    if case.row == _NOTHING:
        rng = np.random.default_rng((11, int(case.name)))
        lines = np.sort(rng.uniform(10, rng.uniform(35, 60), rng.integers(12, 40)))
        return features(index_peaks(lines, rng.exponential(0.2, len(lines)), wavelength=1.540598)), False
    pattern, truth = made(case)
    assert pattern.wavelength is not None
    found = index(pattern.two_theta, pattern.intensity, wavelength=pattern.wavelength, wavelength2=pattern.wavelength2)
    return (features(found), bool(off(np.array(found[0].cell), truth).max() <= _EVERY)) if found else None


def main(count: int = 60, jobs: int = 1) -> None:
    """Index, fit and print.

    Args:
        count: patterns of each of the four kinds.
        jobs: processes, of one thread each.
    """
    torch.set_num_threads(1)
    wanted = chosen(count)
    with ProcessPoolExecutor(max(1, jobs), initializer=alone) as pool:
        found = [each for each in track(pool.map(tried, wanted), "indexing", total=len(wanted)) if each]
    x, y = np.array([each[0] for each in found]), np.array([each[1] for each in found])
    fit = LogisticRegression(fit_intercept=False, C=10.0).fit(x, y)
    print(f"{len(y)} patterns, {y.mean():.1%} right")
    print("logistic =", tuple(round(float(weight), 2) for weight in fit.coef_[0]))
    p = fit.predict_proba(x)[:, 1]
    place = np.minimum((10 * p).astype(int), 9)
    for k in range(10):
        if (place == k).any():
            print(f"{k / 10:.1f} to {(k + 1) / 10:.1f}: {(place == k).sum():4d}, {y[place == k].mean():.2f} right")
    print(f"ECE {confidence_error(p, y):.3f}")


if __name__ == "__main__":
    tyro.cli(main)
