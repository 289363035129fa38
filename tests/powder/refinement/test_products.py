import numpy as np
import pytest

from vitreous.powder.refinement.problem import Data
from vitreous.powder.refinement.products import LineBlocks, LineRows
from vitreous.powder.refinement.profile import START, Array, profiles

_X = np.arange(5, 40, 0.01)


@pytest.fixture
def rows() -> tuple[LineRows, Array]:
    """Rows of lines, two of which overlap and one of which is outside the pattern, and the same with all zeros."""
    lines = profiles(_X, np.array([9.0, 20.0, 20.1, 39.0, 60.0]), None, START, 30.0)
    dense = np.zeros((5, len(_X)))
    dense[lines.windows.line, lines.windows.points] = lines.value
    return LineRows(LineBlocks(lines.windows, len(_X)), lines.value), dense


def test_products_are_those_of_the_whole_rows(rows: tuple[LineRows, Array], random: np.random.Generator) -> None:
    short, dense = rows
    others = random.normal(size=(3, len(_X)))
    own, cross = short.products(others)
    np.testing.assert_allclose(own, dense @ dense.T, rtol=1e-10)
    np.testing.assert_allclose(cross, dense @ others.T, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(short.cross_products(others), cross)
    every = np.concatenate([dense, dense, others])
    gram = LineRows.gram_matrix([short, short], others)
    np.testing.assert_allclose(gram, every @ every.T, rtol=1e-10, atol=1e-10)


def test_windows_stay_for_small_changes_alone() -> None:
    position = np.array([9.0, 20.0, 35.0])
    lines = profiles(_X, position, None, START, 30.0)
    near = profiles(_X, position + 0.01, None, START, 30.0, lines.windows)
    assert near.suited
    np.testing.assert_array_equal(near.windows.points, lines.windows.points)
    wide = START._replace(log_width=START.log_width + 1)
    assert not profiles(_X, position, None, wide, 30.0, lines.windows).suited
    assert not profiles(_X, position + 1, None, START, 30.0, lines.windows).suited


def test_averages_keep_sums_and_do_not_cross_a_gap(random: np.random.Generator) -> None:
    x = np.concatenate([np.arange(10, 20, 0.01), np.arange(25, 30, 0.01)])
    data = Data(x, random.poisson(50, len(x)).astype(float), np.full(len(x), 50.0), True)
    averaged = data.averaged(4)
    assert not ((averaged.x > 20) & (averaged.x < 25)).any()
    assert len(averaged.x) == len(x) / 4
    assert averaged.y.sum() == pytest.approx(data.y.sum() / 4)
    np.testing.assert_allclose(averaged.variance, 12.5)
    assert data.averaged(1) is data
