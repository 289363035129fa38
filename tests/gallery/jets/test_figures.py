"""Efficiencies, areas and rejections of jet classifiers."""

import numpy as np
import pytest

from vitreous.gallery.jets.figures import area, efficiency_curve, rejection

rng = np.random.default_rng(0)


@pytest.mark.parametrize("repeats", [1, 8])  # without and with equal scores
def test_efficiencies_and_area_agree_with_scikit_learn(repeats: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    out, y = rng.normal(size=(400 // repeats, 4)).repeat(repeats, axis=0), rng.integers(0, 4, 400)
    curve = efficiency_curve(out, y, 3)
    odds = out - np.log(np.exp(out).sum(1, keepdims=True))
    background, efficiency, _ = metrics.roc_curve(y == 3, odds[:, 3], drop_intermediate=False)
    np.testing.assert_allclose(curve, (efficiency, background))
    assert area(*curve) == pytest.approx(metrics.roc_auc_score(y == 3, odds[:, 3]))


def test_a_perfect_classifier_rejects_all_background() -> None:
    y = np.arange(8) % 4
    curve = efficiency_curve(10.0 * np.eye(4)[y], y, 2)
    assert area(*curve) == 1
    assert rejection(*curve) == float("inf")


def test_rejection_is_one_over_the_background_efficiency_at_half_the_signal() -> None:
    """Counted by hand: two of eight background jets are above the second of four signals."""
    y = np.array([1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 0])
    odds = np.linspace(3, -3, len(y))
    out = np.stack([np.zeros_like(odds), odds], axis=1)
    curve = efficiency_curve(out, y, 1)
    assert rejection(*curve) == pytest.approx(8 / 2)
    assert rejection(*curve, at=0.75) == pytest.approx(8 / 3)
    assert area(*curve) == pytest.approx((8 + 6 + 5 + 3) / (4 * 8))
