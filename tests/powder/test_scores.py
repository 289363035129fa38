"""Scores of cells equal scikit-learn's, and shares count whole cells."""

import math

import numpy as np
import pytest
import sklearn.metrics

from benchmarks.powder_table import cell_scores

RNG = np.random.default_rng(0)
TRUTH = np.column_stack([RNG.uniform(3, 20, (200, 3)), RNG.uniform(60, 120, (200, 3))]).astype(np.float32)
FOUND = (TRUTH * RNG.normal(1, 0.01, TRUTH.shape)).astype(np.float32)


def test_errors_and_r2_equal_scikit_learns() -> None:
    found = cell_scores("triclinic", TRUTH, FOUND)
    mape, r2 = sklearn.metrics.mean_absolute_percentage_error, sklearn.metrics.r2_score
    assert found["mape"] == pytest.approx(mape(TRUTH, FOUND), rel=1e-5)
    assert found["mape lengths"] == pytest.approx(mape(TRUTH[:, :3], FOUND[:, :3]), rel=1e-5)
    assert found["mape angles"] == pytest.approx(mape(TRUTH[:, 3:], FOUND[:, 3:]), rel=1e-5)
    assert found["r2"] == pytest.approx(r2(TRUTH, FOUND), rel=1e-5)


def test_a_cell_is_near_only_if_every_parameter_is() -> None:
    truth = np.array([[10.0, 10.0, 10.0]] * 4)
    found = truth + np.array([[0.05, -0.05, 0], [0.05, 0.15, 0], [0.3, 0, 0], [0, 0, -0.9]])  # 0.5, 1.5, 3 and 9 %
    scores = cell_scores("orthorhombic", truth, found)
    assert [scores[f"within {n}%"] for n in (1, 2, 5)] == [0.25, 0.5, 0.75]


def test_perfect_answers_have_perfect_scores() -> None:
    scores = cell_scores("monoclinic", TRUTH[:, [0, 1, 2, 4]], TRUTH[:, [0, 1, 2, 4]])
    assert (scores["mape"], scores["mape angles"], scores["r2"], scores["within 1%"]) == (0, 0, 1, 1)


def test_a_system_without_free_angles_has_no_error_of_them() -> None:
    scores = cell_scores("cubic", TRUTH[:, :1], FOUND[:, :1])
    assert math.isnan(scores["mape angles"])
    assert scores["mape lengths"] == scores["mape"]
