"""The splines of the background are exactly those of scipy."""

import numpy as np
import pytest
from scipy.interpolate import BSpline

from vitreous.powder.peaks.noise import cubic_splines


@pytest.mark.parametrize("seed", range(10))
def test_splines_equal_scipys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(3, 120, 2000))
    inner = np.sort(rng.uniform(x[0], x[-1], rng.integers(1, 25)))
    knots = np.concatenate([[x[0]] * 4, inner, [x[-1]] * 4])
    np.testing.assert_array_equal(cubic_splines(x, knots), BSpline.design_matrix(x, knots, 3).toarray())
