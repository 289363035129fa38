"""How well tops are told from all else."""

import numpy as np
import pytest

from vitreous.gallery.jets import area, rejection, separation

rng = np.random.default_rng(0)


@pytest.mark.parametrize("alike", [1, 8])  # no equal scores, and eight of each
def test_shares_that_pass_are_those_of_scikit_learn(alike: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    out, y = rng.normal(size=(400 // alike, 4)).repeat(alike, axis=0), rng.integers(0, 4, 400)
    found = separation(out, y, 3)
    odds = out - np.log(np.exp(out).sum(1, keepdims=True))
    background, efficiency, _ = metrics.roc_curve(y == 3, odds[:, 3], drop_intermediate=False)
    np.testing.assert_allclose(found, (efficiency, background))
    assert area(*found) == pytest.approx(metrics.roc_auc_score(y == 3, odds[:, 3]))


def test_a_perfect_cut_lets_nothing_else_pass() -> None:
    y = np.arange(8) % 4
    curve = separation(10.0 * np.eye(4)[y], y, 2)
    assert area(*curve) == 1
    assert rejection(*curve) == float("inf")


def test_rejection_is_one_over_the_share_that_passes_with_half_the_signal() -> None:
    """Counted by hand: of four signals the second highest has two of eight others above it."""
    y = np.array([1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 0])
    odds = np.linspace(3, -3, len(y))
    out = np.stack([np.zeros_like(odds), odds], axis=1)
    curve = separation(out, y, 1)
    assert rejection(*curve) == pytest.approx(8 / 2)
    assert rejection(*curve, at=0.75) == pytest.approx(8 / 3)
    assert area(*curve) == pytest.approx((8 + 6 + 5 + 3) / (4 * 8))
