"""The shape of a diffraction line: pseudo-Voigt profile, Caglioti's width, axial divergence.

The full width at half maximum (FWHM) is the unit of length; areas are 1.
"""

import math
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]
Values = TypeVar("Values", NDArray[np.float64], "Tensor")

GAUSS_HEIGHT = math.sqrt(4 * math.log(2) / math.pi)  # of a Gaussian with area and FWHM 1
LORENTZ_HEIGHT = 2 / math.pi  # of a Lorentzian with area and FWHM 1
FWHM_PER_SIGMA = 2.3548  # FWHM of a Gaussian with standard deviation 1


def lorentz_and_gauss(u: Floats) -> tuple[Floats, Floats]:
    """Lorentzian and Gaussian of height 1 at `u` FWHM from the centre; a pseudo-Voigt line is a mixture of both."""
    square = 4 * u * u
    return 1 / (1 + square), np.exp(-math.log(2) * square)


def caglioti(tangent: Values, slope: Values | float, dip: Values | float) -> Values:
    """Squared FWHM relative to that at a reference angle; `tangent` is tan θ relative to the reference."""
    return 1 + slope * (tangent**2 - 1) + dip * (tangent - 1)


@lru_cache(maxsize=16)
def slit_quadrature(count: int, digits: int | None = None) -> tuple[Floats, Floats]:
    """Gauss-Legendre points in [0, 1] and weights, rounded to `digits`, to average over the height of the slit."""
    points, weights = np.polynomial.legendre.leggauss(count)
    points, weights = (points + 1) / 2, weights / 2
    return (points, weights) if digits is None else (np.round(points, digits), np.round(weights, digits))
