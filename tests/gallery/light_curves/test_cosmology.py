"""Distances agree with the integral and with Hubble's law."""

import math

import pytest
import torch
from scipy import constants, integrate

from vitreous.core.errors import InputError
from vitreous.gallery.light_curves.simulate import distance_modulus, luminosity_distance
from vitreous.gallery.light_curves.source import Survey


def double(values: list[float] | float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_the_luminosity_distance_is_the_integral() -> None:
    def by_hand(z: float) -> float:
        integral = integrate.quad(lambda x: 1 / math.sqrt(0.3 * (1 + x) ** 3 + 0.7), 0, z, epsabs=1e-12)[0]
        return (1 + z) * constants.c / 1000 / 70 * integral

    redshifts = [0.01, 0.05, 0.5, 1.0, 3.0]
    expected = double([by_hand(z) for z in redshifts])
    torch.testing.assert_close(luminosity_distance(double(redshifts)), expected, rtol=1e-9, atol=0)
    assert float(luminosity_distance(double(0.5))) == pytest.approx(2832.9, abs=0.1)


def test_near_by_distance_is_proportional_to_redshift() -> None:
    """Hubble's law, with the next order: d = c z / H₀ (1 + (1 − q₀) z / 2), q₀ = −0.55."""
    z = 0.01
    assert float(luminosity_distance(double(z))) == pytest.approx(299792.458 / 70 * z * (1 + 1.55 * z / 2), rel=1e-4)
    assert float(distance_modulus(double(0.5))) == pytest.approx(5 * math.log10(2832.94e6 / 10), abs=1e-4)


@pytest.mark.parametrize("redshift", [0.0, -0.1])
def test_a_redshift_of_zero_or_below_is_refused(redshift: float) -> None:
    with pytest.raises(InputError, match=r"redshift: found .*, expected a redshift above 0"):
        Survey(redshift=(redshift, 1.0))
