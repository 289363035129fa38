"""Local maxima, prominences and widths are exactly those of scipy.signal."""

import numpy as np
import pytest
from scipy import signal

from vitreous.powder.peaks.matched_filter import half_widths, prominent_maxima


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["noise", "counts", "plateaus", "walk", "slope"])
def test_maxima_equal_scipys(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = {
        "noise": rng.normal(size=2000),
        "counts": rng.poisson(3, 2000).astype(float),
        "plateaus": np.repeat(rng.integers(0, 5, 300), rng.integers(1, 6, 300)).astype(float),
        "walk": rng.normal(size=2000).cumsum(),
        "slope": np.linspace(20, 0, 500) + rng.normal(size=500),
    }[kind]
    least = 0.1 * float(np.ptp(y))
    places, properties = signal.find_peaks(y, prominence=least)
    maxima, prominence = prominent_maxima(y, least)
    np.testing.assert_array_equal(maxima, places)
    np.testing.assert_array_equal(prominence, properties["prominences"])
    np.testing.assert_array_equal(half_widths(y, maxima, prominence), signal.peak_widths(y, places)[0])


def test_a_constant_has_no_maxima() -> None:
    assert len(prominent_maxima(np.ones(50), 0.1)[0]) == 0
