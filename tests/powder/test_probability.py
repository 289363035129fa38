"""The probability of the first cell: what raises it, what lowers it, and how the others share the rest."""

from dataclasses import replace

import numpy as np
import pytest

from vitreous.powder.probability import features, with_probabilities
from vitreous.powder.refinement import Fit, refine
from vitreous.powder.sim.effects import Effects
from vitreous.powder.sim.simulate import crystal_from_cell, simulate_pattern
from vitreous.powder.solution import Solution

CELL = (5.0, 6.0, 7.0, 90.0, 90.0, 90.0)


def solution(**changes: object) -> Solution:
    usual = Solution(
        cell=CELL, conventional=CELL, system="orthorhombic", centring="P", volume=210.0, m20=30.0, f20=40.0, indexed=20,
        lines=20, zero=0.0, evidence=50.0, probability=0.0, possible=30,
    )  # fmt: skip
    return replace(usual, **changes)  # type: ignore[arg-type]


def probability(*solutions: Solution) -> float:
    return with_probabilities(solutions)[0].probability


RIVAL = {"cell": (5.0, 6.0, 14.0, 90.0, 90.0, 90.0)}


@pytest.mark.parametrize(
    "worse",
    [
        {"evidence": 20.0},
        {"unexplained": 0.3, "indexed": 14},
        {"possible": 200},
        {"lines": 8, "indexed": 8, "possible": 12, "evidence": 20.0},
    ],
)
def test_less_evidence_lines_that_are_left_and_a_large_cell_lower_it(worse: dict[str, object]) -> None:
    assert probability(solution(**worse)) < probability(solution())


def test_a_rival_with_nearly_as_much_evidence_lowers_it() -> None:
    far, near = (probability(solution(), solution(**RIVAL, evidence=evidence)) for evidence in (10.0, 49.0))
    assert near < far - 0.02


def test_the_others_share_what_the_first_leaves() -> None:
    rivals = [solution(**RIVAL, evidence=48.0), solution(cell=(4.0, *CELL[1:]), evidence=47.0)]
    answers = with_probabilities([solution(), *rivals])
    shares = [each.probability for each in answers]
    assert sum(shares) <= 1 + 1e-9
    assert shares == sorted(shares, reverse=True)
    assert answers[0].margin == pytest.approx(2.0)


@pytest.fixture(scope="module")
def fit() -> Fit:
    effects = Effects(counts=(1e4, 1e4))
    pattern = simulate_pattern(crystal_from_cell(CELL, 47, effects.s_max), effects)
    return refine(
        pattern.two_theta, pattern.intensity, CELL, wavelength=effects.wavelength, system="orthorhombic", centring="P"
    )


def test_a_cell_that_leaves_most_of_the_intensity_is_not_believed(fit: Fit) -> None:
    shares = (0.0, 0.4, 0.6, 0.9)
    every = [probability(solution(fit=replace(fit, unexplained=share))) for share in shares]
    assert every[0] == every[1]  # a second phase is no reason against the first one
    assert every[1] > every[2] > every[3]
    assert every[3] < 0.5


def test_features_are_finite_for_extreme_solutions() -> None:
    extreme = [
        solution(evidence=-1e9, indexed=0, unexplained=1.0),
        solution(lines=1, indexed=1, possible=0, evidence=1e4),
    ]
    assert all(np.isfinite(features([each])).all() for each in extreme)
