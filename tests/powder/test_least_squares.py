"""Levenberg-Marquardt: it reaches the minimum of a curved problem, and stops as it is told to."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from vitreous.powder.least_squares import Damping, Trial, minimise

Point = NDArray[np.float64]


def cost(x: Point) -> float:
    """Rosenbrock's function."""
    return float(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)


def linearise(x: Point) -> Callable[[float], Trial[Point]]:
    residual = np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])
    jacobian = np.array([[-20 * x[0], 10.0], [-1.0, 0.0]])
    normal = jacobian.T @ jacobian

    def attempt(damping: float) -> Trial[Point]:
        new = x - np.linalg.solve(normal + damping * np.diag(np.diag(normal)), jacobian.T @ residual)
        return Trial(new, cost(new) < cost(x), cost(x) - cost(new), negligible=True)

    return attempt


@pytest.mark.parametrize(
    "damping", [Damping(), Damping(start=10.0, decrease=5.0), Damping(least=1e-7, least_rejected=1e-3)]
)
@pytest.mark.parametrize("retries", [None, 6])
def test_the_minimum_is_reached(damping: Damping, retries: int | None) -> None:
    end, converged = minimise(
        np.array([-1.2, 1.0]), linearise, lambda _, gain: gain < 1e-20, steps=200, retries=retries, damping=damping
    )
    assert end == pytest.approx([1, 1])
    assert converged


def test_the_number_of_steps_is_bounded() -> None:
    calls = []

    def count(x: Point) -> Callable[[float], Trial[Point]]:
        calls.append(x)
        return linearise(x)

    _, converged = minimise(np.array([-1.2, 1.0]), count, lambda _, gain: False, steps=3, retries=6)
    assert len(calls) == 3
    assert not converged


@pytest.mark.parametrize("negligible", [True, False])
def test_where_every_step_is_rejected_the_predicted_gain_decides(negligible: bool) -> None:
    dampings = []

    def rejecting(_: float) -> Callable[[float], Trial[float]]:
        def attempt(damping: float) -> Trial[float]:
            dampings.append(damping)
            return Trial(1.0, False, -1.0, negligible)

        return attempt

    end = minimise(0.0, rejecting, lambda _, gain: gain < 0.1, steps=9, retries=3, damping=Damping(start=1.0))
    assert end == (0.0, negligible)
    assert dampings == [1, 10, 100]
