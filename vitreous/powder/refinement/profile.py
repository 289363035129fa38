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
_PART = 8192  # entries that are calculated at once, so that they stay in the cache of the processor
_AXIAL_POINTS, _AXIAL_DIGITS = 5, 7
_SLIGHT_ASYMMETRY = 0.15  # of the width: below this, axial divergence only shifts a line
_LARGEST_STRETCH = 0.15  # relative change of a width for which a line's window stays
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


class Windows(NamedTuple):
    """The points on which lines are calculated, one line after another; `(lines,)` unless stated.

    While the parameters of a fit change little, the windows stay as they are: a line that entered or left a point would
    change the cost of the fit in a step.
    """

    points: Indices  # (entries,), indices of grid points
    line: Indices  # (entries,)
    starts: Indices  # (lines + 1,), first entry of each line
    skewed: Mask  # whether the axial divergence does more than to shift a line
    position: Array  # degrees
    width: Array  # FWHM in degrees

    def suit(self, position: Array, width: Array, asymmetry: Array) -> bool:
        """Whether they still suit lines with these positions and widths in degrees, and asymmetries in widths."""
        moved = np.abs(position - self.position) < self.width
        stretched = np.abs(np.log(width / self.width)) < _LARGEST_STRETCH
        return bool((moved & stretched & (self.skewed | (asymmetry < 2 * _SLIGHT_ASYMMETRY))).all())


class Profiles(NamedTuple):
    """Lines of unit area on the points of their windows; `(entries,)` unless stated."""

    windows: Windows
    value: Array
    by_position: Array  # derivative by the position of the line, in degrees
    by_shape: tuple[Array, ...]  # derivatives by the parameters of the shape, in order
    width: Array  # (lines,), FWHM in degrees
    suited: bool  # whether the windows suit the lines


def profiles(
    x: Array, position: Array, second: Array | None, shape: Shape, reference: float, windows: Windows | None = None
) -> Profiles:
    """Lines on a grid `x` of ascending angles; all angles are 2θ in degrees.

    `position` and `second` `(lines,)` are those of the lines and of their Kα2, if there is a doublet. The width and the
    mixing of the shape hold at `reference`. `windows` are those of lines nearby, by default the lines' own.
    """
    t = _relative_tangent(position, reference)
    square = caglioti(t, shape.slope, shape.dip)
    narrow = square < _NARROWEST
    square = np.where(narrow, _NARROWEST, square)
    width = math.exp(shape.log_width) * np.sqrt(square)  # (lines,)
    far = (position - reference) / 100
    share = _lorentzian_share(position, shape, reference)
    cotangent = 1 / np.tan(np.radians(np.clip(position, 1, 179)))
    asymmetry = np.abs(shape.axial * cotangent) / width
    windows = windows or _windows(x, position, width, asymmetry)
    line = windows.line
    offset = None if second is None else second - position
    lines = width, np.clip(share, 0, 1), cotangent
    shapes = _shapes(x[windows.points] - position[line], windows, offset, lines, shape)
    value, slope, stretch, mix, axial, partner = shapes
    half = np.where(narrow, 0, 0.5 / square)
    by_slope, by_dip = (half * (t**2 - 1))[line], (half * (t - 1))[line]
    mix *= ((share >= 0) & (share <= 1))[line]
    by_shape = (stretch, stretch * by_slope, stretch * by_dip, mix, mix * far[line], axial, partner)
    return Profiles(windows, value, slope, by_shape, width, windows.suit(position, width, asymmetry))


def _windows(x: Array, position: Array, width: Array, asymmetry: Array) -> Windows:
    first, last = np.searchsorted(x, position - _REACH * width), np.searchsorted(x, position + _REACH * width)
    starts = np.concatenate([[0], np.cumsum(last - first)])
    line = np.repeat(np.arange(len(position)), last - first)
    points = np.arange(starts[-1]) + (first - starts[:-1])[line]
    return Windows(points, line, starts, asymmetry > _SLIGHT_ASYMMETRY, position, width)


def _shapes(
    distance: Array, windows: Windows, offset: Array | None, lines: tuple[Array, Array, Array], shape: Shape
) -> list[Array]:
    """Values and derivatives by position, log width, mixing, axial divergence and ratio, each `(entries,)`.

    `distance` `(entries,)` is measured from the position of each entry's line, `offset` `(lines,)` from Kα1 to Kα2.
    `lines` are width, Lorentzian share and cotangent of the angle, each `(lines,)`.
    """
    parts = np.empty((6, len(distance)))
    quadrature = slit_quadrature(_AXIAL_POINTS, _AXIAL_DIGITS)
    centre = (np.array([3**-0.5]), np.array([1.0]))
    for chosen, slit in ((windows.skewed, quadrature), (~windows.skewed, centre)):
        entries = np.flatnonzero(chosen[windows.line])
        for start in range(0, len(entries), _PART):
            some = entries[start : start + _PART]
            own = windows.line[some]
            width, share, cotangent = (each[own] for each in lines)
            shift = None if offset is None else offset[own]
            parts[:, some] = _averaged_over_slit(distance[some], shift, width, share, cotangent, shape, *slit)
    return list(parts)


def _averaged_over_slit(
    distance: Array, offset: Array | None, width: Array, share: Array, cotangent: Array, shape: Shape, heights: Array,
    weights: Array,
) -> list[Array]:  # fmt: skip
    """The same as `_shapes`, each argument of a line given for its entries, from points and weights along the slit."""
    value, by_position, stretch, mix, axial, partner = np.zeros((6, len(distance)))
    lines = [(distance, 1.0, value)]
    if offset is not None:
        lines.append((distance - offset, shape.ratio, partner))
    for place, strength, total in lines:
        for height, weight in zip(heights.tolist(), weights.tolist(), strict=True):
            lower = height**2 * cotangent
            u = place + shape.axial * lower
            f, df, difference = _pseudo_voigt(u, width, share)
            df *= strength * weight
            total += weight * f
            by_position -= df
            stretch -= u * df  # by the log width, without the value: areas stay 1
            mix += strength * weight * difference
            axial += df * lower
    value += shape.ratio * partner
    return [value, by_position, stretch - value, mix, axial, partner]


def _pseudo_voigt(u: Array, width: Array, share: Array) -> tuple[Array, Array, Array]:
    """Value and derivative at `u` degrees from the centre, and the derivative by the Lorentzian share."""
    z = u / width
    tail, bell = lorentz_and_gauss(z)
    lorentz = LORENTZ_HEIGHT / width * tail
    gauss = GAUSS_HEIGHT / width * bell
    difference = lorentz - gauss
    slope = -z / width * (2 * _GAUSS_EXPONENT * (1 - share) * gauss + 8 * share * lorentz * tail)
    return gauss + share * difference, slope, difference
