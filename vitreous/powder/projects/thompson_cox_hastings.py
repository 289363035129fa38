"""The profile of a fit in the parameters of Thompson, Cox and Hastings (1987), which refinement programs use.

The Lorentzian width follows from width and Lorentzian share of the pseudo-Voigt line by a relation of the same paper,
the Gaussian width from the rest of the width. Axial divergence is that of Finger, Cox and Jephcoat (1994) with equal
heights of sample and slit.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from vitreous.powder.refinement.profile import Array, LineProfile

_ANGLES = 100  # at which the profiles must agree
_LORENTZ = (0.72928, 0.19289, 0.07783)  # of the powers of the Lorentzian share: Γ_L/Γ
_WIDTH = (1.0, 2.69269, 2.42843, 4.47163, 0.07842, 1.0)  # of the terms of Γ⁵ with ascending powers of Γ_L
_SHARE = (1.36603, -0.47719, 0.11116)  # of the powers of Γ_L/Γ: Lorentzian share
_HALVINGS = 50


class ThompsonCoxHastings(NamedTuple):
    """Γ_G² = u tan²θ + v tan θ + w and Γ_L = size/cos θ + strain tan θ: FWHM in degrees of 2θ.

    `axial` is the half height of the sample, and of the slit, over the radius of the diffractometer.
    """

    u: float
    v: float
    w: float
    size: float
    strain: float
    axial: float


def thompson_cox_hastings(profile: LineProfile, limits: tuple[float, float]) -> ThompsonCoxHastings:
    """The parameters whose widths come nearest to those of a fit between two angles (2θ, degrees)."""
    angles = np.linspace(*limits, _ANGLES)
    theta, width, share = np.radians(angles / 2), profile.width(angles), profile.mixing(angles)
    tangent = np.tan(theta)
    lorentz_columns = np.column_stack([1 / np.cos(theta), tangent])
    powers = np.column_stack([share, share**2, share**3])
    size, strain = _lorentzian_factors(lorentz_columns / width[:, None], powers @ np.array(_LORENTZ))
    gauss = _gaussian_width(width, lorentz_columns @ [size, strain])
    columns = np.column_stack([tangent**2, tangent, np.ones_like(tangent)])
    u, v, w = np.linalg.lstsq(columns / width[:, None] ** 2, (gauss / width) ** 2, rcond=None)[0]
    if not (w > 0 and (columns @ [u, v, w] > 0).all()):
        u, v, w = 0.0, 0.0, float(np.median(gauss**2))
    axial = math.sqrt(math.radians(profile.shape.axial))  # same mean shift as the uniform divergence of `Shape.axial`
    return ThompsonCoxHastings(float(u), float(v), float(w), float(size), float(strain), axial)


def _lorentzian_factors(columns: Array, relative_width: Array) -> tuple[float, float]:
    """Size and strain; a strain below 0 makes up for a width that grows little, but leaves it above 0 at all angles."""
    size, strain = np.linalg.lstsq(columns, relative_width, rcond=None)[0]
    if not (size >= 0 and strain >= -size):
        size, strain = nnls(columns, relative_width)[0]
    return float(size), float(strain)


def peak_width(shape: ThompsonCoxHastings, two_theta: Array) -> tuple[Array, Array]:
    """FWHM in degrees and Lorentzian share of lines at angles in degrees."""
    theta = np.radians(two_theta / 2)
    tangent = np.tan(theta)
    gauss = np.sqrt(np.maximum(shape.u * tangent**2 + shape.v * tangent + shape.w, 0.0))
    lorentz = shape.size / np.cos(theta) + shape.strain * tangent
    width = _total_width(gauss, lorentz)
    return width, np.asarray(sum(factor * (lorentz / width) ** (n + 1) for n, factor in enumerate(_SHARE)))


def _total_width(gauss: Array, lorentz: Array) -> Array:
    terms = (factor * gauss ** (5 - n) * lorentz**n for n, factor in enumerate(_WIDTH))
    return np.asarray(sum(terms) ** 0.2)


def _gaussian_width(width: Array, lorentz: Array) -> Array:
    """The Gaussian width that makes up a width with a Lorentzian one, by bisection; 0 where that is too large."""
    low, high = np.zeros_like(width), width.copy()
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        wide = _total_width(middle, lorentz) > width
        low, high = np.where(wide, low, middle), np.where(wide, middle, high)
    return low
