"""Exact solutions of the infinite two-dimensional Ising lattice (S2.9); temperatures in |J| / k."""

import math

from vitreous.core.errors import InputError

CRITICAL = 2 / math.log(1 + math.sqrt(2))
"""Onsager's critical temperature, 2.269."""


def check_temperature(temperature: float) -> None:
    """Raise `InputError` unless the temperature is finite and above zero."""
    if not (temperature > 0 and math.isfinite(temperature)):
        raise InputError(f"temperature: found {temperature:g}, expected a finite one above zero, in |J| / k")


def onsager_energy(temperature: float) -> float:
    """Energy per spin of the infinite periodic lattice, in |J| (Onsager 1944)."""
    order = math.tanh(2 * _inverse(temperature))
    complement = 2 * order**2 - 1  # its square is 1 - k², of the elliptic modulus k
    if not complement:
        return -1 / order
    return -(1 + 2 / math.pi * complement * _elliptic_integral(abs(complement))) / order


def onsager_magnetisation(temperature: float) -> float:
    """Spontaneous magnetisation of the infinite lattice (Yang 1952)."""
    beta = _inverse(temperature)
    if temperature >= CRITICAL:
        return 0.0
    return float((1 - math.sinh(min(2 * beta, 100.0)) ** -4) ** 0.125)


def heat_capacity(temperature: float) -> float:
    """Heat capacity per spin of the infinite lattice, in k: a central difference of Onsager's energy."""
    step = 5e-4 * temperature
    return (onsager_energy(temperature + step) - onsager_energy(temperature - step)) / (2 * step)


def correlation_length(temperature: float) -> float:
    """Correlation length along an axis of the infinite lattice, in spins (McCoy and Wu 1973)."""
    beta = _inverse(temperature)
    rate = -math.log(math.tanh(beta)) - 2 * beta
    if rate > 0:
        return 1 / rate
    return 1 / (-2 * rate) if rate < 0 else math.inf


def _inverse(temperature: float) -> float:
    check_temperature(temperature)
    return 1 / temperature


def _elliptic_integral(complement: float) -> float:
    """The complete elliptic integral of the first kind, given √(1 - k²), by the arithmetic-geometric mean."""
    a, b = 1.0, complement
    while abs(a - b) > 1e-15 * a:
        a, b = (a + b) / 2, math.sqrt(a * b)
    return math.pi / (2 * a)
