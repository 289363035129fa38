"""Conversions of Bragg's law agree with each other, for arrays as for tensors."""

import numpy as np
import pytest
import torch

from vitreous.powder.bragg import (
    bragg_angle,
    q_from_two_theta,
    s_from_two_theta,
    second_wavelength,
    two_theta_from_q,
    two_theta_from_s,
)

TWO_THETA = np.linspace(1, 170, 50)


def test_conversions_to_s_and_q_are_inverted() -> None:
    np.testing.assert_allclose(two_theta_from_s(s_from_two_theta(TWO_THETA, 0.7), 0.7), TWO_THETA)
    np.testing.assert_allclose(two_theta_from_q(q_from_two_theta(TWO_THETA, 0.7), 0.7), TWO_THETA)


def test_q_is_two_pi_times_s() -> None:
    s, q = s_from_two_theta(TWO_THETA, 1.54), q_from_two_theta(TWO_THETA, 1.54)
    np.testing.assert_allclose(q, 2 * np.pi * s)


def test_a_tensor_gives_the_values_of_an_array() -> None:
    tensor = two_theta_from_s(torch.tensor([0.1, 0.5], dtype=torch.float64), 1.54)
    np.testing.assert_allclose(tensor.numpy(), two_theta_from_s(np.array([0.1, 0.5]), 1.54))


def test_a_spacing_that_the_wavelength_does_not_reach_is_at_180_degrees() -> None:
    assert two_theta_from_s(2.0, 1.54) == pytest.approx(180)
    assert bragg_angle(2.0, 1.54) == pytest.approx(np.pi / 2)


def test_the_same_planes_diffract_a_longer_wavelength_at_a_larger_angle() -> None:
    second = second_wavelength(40.0, 1.544 / 1.54)
    assert s_from_two_theta(second, 1.544) == pytest.approx(s_from_two_theta(40.0, 1.54))
