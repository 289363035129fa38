"""The exact solutions hold in their limits and refuse invalid temperatures."""

import math
from collections.abc import Callable

import pytest

from vitreous.core.errors import InputError
from vitreous.gallery.ising.exact import (
    CRITICAL,
    correlation_length,
    heat_capacity,
    onsager_energy,
    onsager_magnetisation,
)


def test_the_critical_temperature() -> None:
    assert abs(CRITICAL - 2.269185) < 1e-6


def test_the_correlation_length_diverges_at_criticality_and_is_half_as_long_at_the_dual_temperature() -> None:
    assert correlation_length(CRITICAL + 1e-6) > 1e5
    assert correlation_length(CRITICAL - 1e-6) > 1e5
    for hot in (2.4, 3.0, 4.0):
        cold = 2 / math.asinh(1 / math.sinh(2 / hot))  # Kramers and Wannier
        assert correlation_length(cold) == pytest.approx(correlation_length(hot) / 2)


def test_the_exact_laws_hold_at_the_critical_point_and_near_zero() -> None:
    assert onsager_energy(CRITICAL) == pytest.approx(-math.sqrt(2), abs=1e-12)
    assert onsager_energy(CRITICAL + 1e-7) == pytest.approx(-math.sqrt(2), abs=1e-5)
    assert onsager_energy(1e-3) == pytest.approx(-2)
    assert onsager_magnetisation(1e-3) == pytest.approx(1)
    assert heat_capacity(1e-2) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("law", [onsager_energy, onsager_magnetisation, heat_capacity, correlation_length])
@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_invalid_temperatures_are_refused(law: Callable[[float], float], temperature: float) -> None:
    with pytest.raises(InputError, match="expected a finite one above zero"):
        law(temperature)
