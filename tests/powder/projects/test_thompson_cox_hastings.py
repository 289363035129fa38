"""The parameters of refinement programs give the widths and the shapes of the lines of a fit."""

import math

import numpy as np
import pytest

from vitreous.powder.projects.thompson_cox_hastings import peak_width, thompson_cox_hastings
from vitreous.powder.refinement.profile import LineProfile, Shape

LIMITS = (10.0, 100.0)
ANGLES = np.linspace(*LIMITS, 40)
SHAPES = {
    "laboratory": Shape(math.log(0.08), 0.2, -0.1, 0.6, 0.1, 0.003, 0.5),
    "constant width": Shape(math.log(0.1), 0.0, 0.0, 0.4, 0.0, 0.0, 0.0),
    "narrow": Shape(math.log(0.01), 0.1, -0.1, 0.2, 0.2, 0.001, 0.0),
}


@pytest.mark.parametrize("name", SHAPES)
def test_widths_and_lorentzian_shares_are_those_of_the_fit(name: str) -> None:
    profile = LineProfile(SHAPES[name], 30.0)
    width, share = peak_width(thompson_cox_hastings(profile, LIMITS), ANGLES)
    np.testing.assert_allclose(width, profile.width(ANGLES), rtol=0.02)
    np.testing.assert_allclose(share, profile.mixing(ANGLES), atol=0.12)


def test_gaussian_lines_have_a_gaussian_width_only() -> None:
    profile = LineProfile(Shape(math.log(0.1), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), 30.0)
    shape = thompson_cox_hastings(profile, LIMITS)
    width, share = peak_width(shape, ANGLES)
    assert (shape.size, shape.strain) == (0.0, 0.0)
    np.testing.assert_allclose(share, 0.0, atol=1e-9)
    np.testing.assert_allclose(width, 0.1, rtol=1e-6)


def test_lorentzian_lines_stay_nearly_lorentzian() -> None:
    profile = LineProfile(Shape(math.log(0.1), 0.0, 0.0, 1.0, 0.0, 0.0, 0.0), 30.0)
    width, share = peak_width(thompson_cox_hastings(profile, LIMITS), ANGLES)
    np.testing.assert_allclose(width, 0.1, rtol=0.15)  # no sum of 1/cos θ and tan θ is constant
    assert share.min() > 0.9


@pytest.mark.parametrize("name", SHAPES)
def test_the_lorentzian_width_is_positive_at_all_angles(name: str) -> None:
    shape, theta = thompson_cox_hastings(LineProfile(SHAPES[name], 30.0), LIMITS), np.linspace(0, 1.57, 500)
    assert (shape.size / np.cos(theta) + shape.strain * np.tan(theta) >= 0).all()


def test_the_gaussian_width_is_real_everywhere() -> None:
    deep = Shape(math.log(0.05), 3.0, -1.0, 0.9, 1.0, 0.0, 0.0)  # its square has a minimum of zero
    shape = thompson_cox_hastings(LineProfile(deep, 30.0), (2.0, 150.0))
    tangent = np.tan(np.radians(np.linspace(2, 150, 300) / 2))
    assert (shape.u * tangent**2 + shape.v * tangent + shape.w >= 0).all()


def test_axial_divergence_shifts_lines_as_much_as_in_the_fit() -> None:
    axial, two_theta = 0.02, 20.0
    shape = thompson_cox_hastings(LineProfile(Shape(math.log(0.1), 0, 0, 0.5, 0, axial, 0), 30.0), LIMITS)
    height = np.linspace(0, 2 * shape.axial, 20001)  # Finger, Cox and Jephcoat: sample and slit of equal height
    weight = 2 * shape.axial - height
    cosine = math.cos(math.radians(two_theta)) * np.sqrt(1 + height**2)
    shift = np.average(np.degrees(np.arccos(cosine)) - two_theta, weights=weight)
    expected = -axial / 3 / math.tan(math.radians(two_theta))  # the mean of h² over the slit is 1/3
    assert shift == pytest.approx(expected, rel=0.02)
