"""Profiles of reflections and their derivatives: pseudo-Voigt with Caglioti's width, axial divergence and Kα2."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitreous.powder.lineshape import GAUSS_HEIGHT, LORENTZ_HEIGHT, caglioti, lorentz_and_gauss, slit_quadrature

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]

_REACH = 20.0  # FWHM: range of a line to either side
_AXIAL_POINTS, _AXIAL_DIGITS = 5, 7
_SLIGHT_ASYMMETRY = 0.15  # of the width: below this, axial divergence only shifts a line
_NARROWEST = 0.05  # smallest squared width, relative to that at the reference angle
_GAUSS_EXPONENT = 4 * math.log(2)


class Shape(NamedTuple):
    """Parameters of the profile; `slope` and `dip` are relative to the squared width at the reference angle."""

    log_width: float  # of the FWHM in degrees at the reference angle
    slope: float  # of the squared width with tan²θ
    dip: float  # of the squared width with tan θ
    mixing: float  # Lorentzian share at the reference angle
    drift: float  # change of the share over 100° of 2θ
    axial: float  # degrees: half the squared ratio of slit height to radius
    ratio: float  # of Kα2 to Kα1


START = Shape(math.log(0.1), 0.1, -0.05, 0.5, 0.0, 0.003, 0.0)
LOWEST = Shape(math.log(0.003), -0.3, -1.0, 0.0, -1.0, 0.0, 0.0)
HIGHEST = Shape(math.log(3.0), 3.0, 1.0, 1.0, 1.0, 0.1, 1.0)


class LineProfile(NamedTuple):
    """The profile of every line of a fit."""

    shape: Shape
    reference: float  # 2θ in degrees at which the width and the mixing of the shape hold
    wavelength2: float | None = None  # of Kα2 in ångström, if there is a doublet

    def width(self, two_theta: Array) -> Array:
        """FWHM in degrees of lines at angles in degrees."""
        square = caglioti(_relative_tangent(two_theta, self.reference), self.shape.slope, self.shape.dip)
        return np.asarray(math.exp(self.shape.log_width) * np.sqrt(np.maximum(square, _NARROWEST)))

    def mixing(self, two_theta: Array) -> Array:
        """Lorentzian share of lines at angles in degrees."""
        return np.asarray(np.clip(_lorentzian_share(two_theta, self.shape, self.reference), 0, 1))


def _relative_tangent(two_theta: Array, reference: float) -> Array:
    """tan θ relative to that at the reference angle; angles are 2θ in degrees."""
    return np.asarray(np.tan(np.radians(np.clip(two_theta, 0.5, 178) / 2)) / math.tan(math.radians(reference / 2)))


def _lorentzian_share(two_theta: Array, shape: Shape, reference: float) -> Array:
    """The mixing before it is limited to 0 to 1."""
    return np.asarray(shape.mixing + shape.drift * (two_theta - reference) / 100)


class Profiles(NamedTuple):
    """Lines of unit area on the points around them, one line after another; `(entries,)` unless stated."""

    points: Indices  # indices of grid points
    value: Array
    by_position: Array  # derivative by the position of the line, in degrees
    by_shape: tuple[Array, ...]  # derivatives by the parameters of the shape, in order
    starts: Indices  # (lines + 1,), first entry of each line
    width: Array  # (lines,), FWHM in degrees


def profiles(x: Array, position: Array, second: Array | None, shape: Shape, reference: float) -> Profiles:
    """Lines on a grid `x` of ascending angles; all angles are 2θ in degrees.

    `position` and `second` `(lines,)` are those of the lines and of their Kα2, if there is a doublet. The width and the
    mixing of the shape hold at `reference`.
    """
    t = _relative_tangent(position, reference)
    square = caglioti(t, shape.slope, shape.dip)
    narrow = square < _NARROWEST
    square = np.where(narrow, _NARROWEST, square)
    width = math.exp(shape.log_width) * np.sqrt(square)  # (lines,)
    far = (position - reference) / 100
    share = _lorentzian_share(position, shape, reference)
    first, last = np.searchsorted(x, position - _REACH * width), np.searchsorted(x, position + _REACH * width)
    starts = np.concatenate([[0], np.cumsum(last - first)])
    line = np.repeat(np.arange(len(position)), last - first)
    points = np.arange(starts[-1]) + (first - starts[:-1])[line]
    offset = None if second is None else second - position
    shapes = _shapes(x[points] - position[line], line, position, offset, width, np.clip(share, 0, 1), shape)
    value, slope, stretch, mix, axial, partner = shapes
    half = np.where(narrow, 0, 0.5 / square)
    by_slope, by_dip = (half * (t**2 - 1))[line], (half * (t - 1))[line]
    mix *= ((share >= 0) & (share <= 1))[line]
    by_shape = (stretch, stretch * by_slope, stretch * by_dip, mix, mix * far[line], axial, partner)
    return Profiles(points, value, slope, by_shape, starts, width)


def _shapes(
    distance: Array, line: Indices, position: Array, offset: Array | None, width: Array, share: Array,
    shape: Shape,
) -> list[Array]:  # fmt: skip
    """Values and derivatives by position, log width, mixing, axial divergence and ratio, each `(entries,)`.

    `distance` `(entries,)` is measured from the position of each entry's `line`, `offset` `(lines,)` from Kα1 to Kα2.
    """
    cotangent = 1 / np.tan(np.radians(np.clip(position, 1, 179)))
    skewed = np.abs(shape.axial * cotangent) > _SLIGHT_ASYMMETRY * width
    parts = list(np.zeros((6, len(distance))))
    value, slope, stretch, mix, axial, partner = parts
    quadrature = slit_quadrature(_AXIAL_POINTS, _AXIAL_DIGITS)
    centre = (np.array([3**-0.5]), np.array([1.0]))
    for chosen, (heights, weights) in ((skewed, quadrature), (~skewed, centre)):
        entries = np.flatnonzero(chosen[line])
        if not len(entries):
            continue
        own = line[entries]
        near, w, mixed = distance[entries], width[own], share[own]
        for kind, strength in enumerate((1.0,) if offset is None else (1.0, shape.ratio)):
            shift = offset[own] if kind and offset is not None else 0.0
            total = np.zeros_like(near)
            for height, weight in zip(heights.tolist(), weights.tolist(), strict=True):
                lower = height**2 * cotangent[own]
                u = near - shift + shape.axial * lower
                f, df, difference = _pseudo_voigt(u, w, mixed)
                total += weight * f
                slope[entries] -= strength * weight * df
                stretch[entries] -= strength * weight * (f + u * df)  # by the log width: areas stay 1
                mix[entries] += strength * weight * difference
                axial[entries] += strength * weight * df * lower
            value[entries] += strength * total
            if kind:
                partner[entries] = total
    return parts


def _pseudo_voigt(u: Array, width: Array, share: Array) -> tuple[Array, Array, Array]:
    """Value and derivative at `u` degrees from the centre, and the derivative by the Lorentzian share."""
    z = u / width
    tail, bell = lorentz_and_gauss(z)
    lorentz = LORENTZ_HEIGHT / width * tail
    gauss = GAUSS_HEIGHT / width * bell
    difference = lorentz - gauss
    slope = -z / width * (2 * _GAUSS_EXPONENT * (1 - share) * gauss + 8 * share * lorentz * tail)
    return gauss + share * difference, slope, difference
