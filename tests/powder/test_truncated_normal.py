"""Integrals over intensities that cannot be negative equal numerical ones."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad

from vitreous.powder.truncated_normal import Prior, log_evidence, moments

Floats = NDArray[np.float64]

MIXTURE = Prior(np.array([0.6, 0.4]), np.array([[1.3], [0.15]]))
PAIR = np.array([[1.0, 0.6], [0.6, 2.0]])
TRIPLE = np.array([[1.0, 0.5, 0.2], [0.5, 2.0, 0.6], [0.2, 0.6, 1.5]])


def density(x: Floats | float, prior: Prior, which: int = 0) -> Floats:
    """The prior density of one of the intensities."""
    parts = zip(prior.weights, prior.means[:, which], strict=True)
    return np.asarray(sum(weight / mean * np.exp(-np.asarray(x) / mean) for weight, mean in parts))


def power_integral(mean: float, variance: float, power: int) -> float:
    """∫ xⁿ N(x; mean, variance) p(x) dx over x ≥ 0."""
    deviation = math.sqrt(variance)

    def integrand(x: float) -> float:
        normal = math.exp(-0.5 * ((x - mean) / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi))
        return float(x**power * normal * density(x, MIXTURE))

    return float(quad(integrand, 0, max(mean, 0) + 12 * deviation, points=[max(mean, 0.1 * deviation)], limit=200)[0])


def grid_evidence(information: Floats, pull: Floats, prior: Prior) -> float:
    """log ∫ exp(bᵀx - xᵀSx/2) p(x) dx by Gauss-Legendre quadrature in every direction."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    n, end = len(pull), 12.0
    axis = (nodes + 1) / 2  # more of them near zero, where narrow priors vary
    x = np.stack(np.meshgrid(*[end * axis**2] * n, indexing="ij"), axis=-1).reshape(-1, n)
    w = np.stack(np.meshgrid(*[end * axis * weights] * n, indexing="ij"), axis=-1).reshape(-1, n).prod(1)
    prior_density = np.prod([density(x[:, i], prior, i) for i in range(n)], axis=0)
    exponent = x @ pull - 0.5 * np.einsum("mi,ij,mj->m", x, information, x)
    return float(np.log((w * np.exp(exponent) * prior_density).sum()))


def prior_of(means: list[float]) -> Prior:
    """The mixture for intensities of different expected size."""
    return Prior(MIXTURE.weights, MIXTURE.means * np.array(means))


@pytest.mark.parametrize(("mean", "variance"), [(2.0, 0.25), (0.3, 1.0), (0.0, 0.04), (-1.5, 1.0), (-3.0, 0.5)])
def test_moments_of_one_intensity_equal_numerical_ones(mean: float, variance: float) -> None:
    total, first, second = (power_integral(mean, variance, power) for power in (0, 1, 2))
    result = moments(np.array([mean]), np.array([variance]), MIXTURE)
    assert result.log_integral[0] == pytest.approx(math.log(total), abs=1e-6)
    assert result.mean[0] == pytest.approx(first / total, rel=1e-6)
    assert result.variance[0] == pytest.approx(second / total - (first / total) ** 2, rel=1e-5)


@pytest.mark.parametrize("deviation", [1e2, 1e3, 1e4, 1e6])
def test_a_measurement_much_wider_than_the_prior_leaves_it_unchanged(deviation: float) -> None:
    result = moments(np.array([0.0]), np.array([deviation**2]), Prior(np.array([1.0]), np.array([[1.0]])))
    assert result.mean[0] == pytest.approx(1, rel=1e-3)
    assert result.variance[0] == pytest.approx(1, rel=1e-3)
    assert result.log_integral[0] == pytest.approx(-math.log(deviation * math.sqrt(2 * math.pi)), abs=1e-3)


def test_a_precise_measurement_far_above_zero_is_the_posterior() -> None:
    result = moments(np.array([5.0]), np.array([1e-6]), MIXTURE)
    assert result.mean[0] == pytest.approx(5, abs=1e-5)
    assert result.variance[0] == pytest.approx(1e-6, rel=1e-3)
    assert result.log_integral[0] == pytest.approx(math.log(float(density(5.0, MIXTURE))), abs=1e-5)


@pytest.mark.parametrize("pull", [-3.0, 0.0, 2.0, 6.0])
def test_the_evidence_of_one_intensity_equals_a_numerical_integral(pull: float) -> None:
    information = 2.0
    expected = quad(lambda x: math.exp(pull * x - information * x**2 / 2) * density(x, MIXTURE), 0, 15, points=[0.5])
    result = log_evidence(np.array([[information]]), np.array([pull]), MIXTURE)
    assert result == pytest.approx(math.log(expected[0]), abs=1e-6)


def test_without_intensities_the_evidence_is_neutral() -> None:
    assert log_evidence(np.zeros((0, 0)), np.zeros(0), Prior(np.array([1.0]), np.zeros((1, 0)))) == 0


def test_the_evidence_of_independent_intensities_is_the_sum_of_the_single_ones() -> None:
    information, pull, prior = np.diag([1.0, 3.0, 0.5]), np.array([2.0, -1.0, 0.3]), prior_of([1.0, 0.5, 2.0])
    single = [
        log_evidence(
            information[i : i + 1, i : i + 1], pull[i : i + 1], Prior(prior.weights, prior.means[:, i : i + 1])
        )
        for i in range(3)
    ]
    assert log_evidence(information, pull, prior) == pytest.approx(sum(single), abs=1e-3)


@pytest.mark.parametrize("pull", [(3.0, 6.0), (-2.0, 4.0), (0.0, 0.0), (-3.0, -1.0)])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_evidence_of_two_overlapping_lines_equals_a_numerical_integral(
    pull: tuple[float, float], sign: int
) -> None:
    information, prior = PAIR * np.array([[1, sign], [sign, 1]]), prior_of([1.0, 2.0])
    expected = grid_evidence(information, np.array(pull), prior)
    assert log_evidence(information, np.array(pull), prior) == pytest.approx(expected, rel=0.03, abs=0.03)


@pytest.mark.parametrize("pull", [(3.0, 6.0, 2.0), (-2.0, 4.0, 0.0), (-1.0, -1.0, -3.0)])
def test_the_evidence_of_three_overlapping_lines_equals_a_numerical_integral(pull: tuple[float, float, float]) -> None:
    prior = prior_of([1.0, 2.0, 0.5])
    expected = grid_evidence(TRIPLE, np.array(pull), prior)
    assert log_evidence(TRIPLE, np.array(pull), prior) == pytest.approx(expected, rel=0.03, abs=0.03)


@pytest.mark.parametrize("correlation", [0.9999, 1 - 1e-9, 1.0])
@pytest.mark.parametrize("pull", [-2.0, 0.0, 3.0, 20.0])
@pytest.mark.parametrize("mean", [0.1, 1.0, 10.0])
def test_two_coincident_lines_have_the_evidence_of_their_sum(mean: float, pull: float, correlation: float) -> None:
    def integrand(x: float) -> float:  # the sum of two exponential variables has a gamma density
        return math.exp(pull * x - x**2 / 2 - max(pull, 0) ** 2 / 2 - x / mean) * x / mean**2

    area = quad(integrand, 0, max(pull, 0) + 12, points=[0.2, max(pull - 1 / mean, 0.4)], limit=200)[0]
    expected = math.log(area) + max(pull, 0) ** 2 / 2
    information, prior = np.array([[1, correlation], [correlation, 1]]), Prior(np.ones(1), np.full((1, 2), mean))
    assert log_evidence(information, np.full(2, pull), prior) == pytest.approx(expected, rel=0.03, abs=0.15)


def test_the_evidence_does_not_depend_on_the_unit_of_intensity() -> None:
    pull, prior, unit = np.array([3.0, 1.0]), prior_of([1.0, 2.0]), 1e4
    result = log_evidence(PAIR / unit**2, pull / unit, Prior(prior.weights, prior.means * unit))
    assert result == pytest.approx(log_evidence(PAIR, pull, prior), abs=1e-3)
