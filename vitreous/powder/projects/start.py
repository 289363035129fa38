"""Where a refinement program starts: what a fit says of cell, symmetry, instrument and background, and the data."""

import math
from dataclasses import dataclass

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.pattern import Pattern
from vitreous.powder.projects.symmetry import ChosenGroup, choose_space_group
from vitreous.powder.projects.thompson_cox_hastings import ThompsonCoxHastings, thompson_cox_hastings
from vitreous.powder.radiation import NEUTRONS
from vitreous.powder.refinement.problem import background_pieces, select_data
from vitreous.powder.refinement.profile import Array
from vitreous.powder.refinement.refine import Fit
from vitreous.powder.refinement.shifts import Shifts, shift_functions
from vitreous.powder.solution import Solution

_MOST_COEFFICIENTS = 36  # of a polynomial: GSAS-II takes no more
_INTENSITIES = (10.0, 1e7)  # range of the highest intensity that every program prints and reads without an exponent
_USUAL_EXPONENT = 4  # of the highest intensity where it is outside this range

Range = tuple[float, float]


@dataclass(frozen=True)
class RefinementStart:
    """A start for a Pawley or Le Bail fit; angles are 2θ in degrees.

    Args:
        cell: a, b, c in ångström, α, β, γ in degrees.
        errors: its standard errors, 0 where the system fixes a parameter.
        system: crystal system, with trigonal for rhombohedral lattices on hexagonal axes.
        group: space group, one of those that the pattern allows.
        neutrons: whether these are neutrons; otherwise X-rays.
        wavelength, wavelength2: of Kα1 and, if there is a doublet, of Kα2, in ångström.
        ratio: intensity of Kα2 relative to Kα1.
        shifts: of all lines.
        positions: of the reflections of the fit.
        shape: of the lines.
        limits: first and last angle of the fit.
        excluded: ranges within the data that the fit does not use.
        two_theta, intensity, sigma: the data; where intensities are very large or small, over a power of ten.
        fitted, background: angles of the fit and its background there, over the same power of ten.
    """

    cell: tuple[float, ...]
    errors: tuple[float, ...]
    system: str
    centring: str
    group: ChosenGroup
    neutrons: bool
    wavelength: float
    wavelength2: float | None
    ratio: float
    shifts: Shifts
    positions: Array
    shape: ThompsonCoxHastings
    limits: Range
    excluded: tuple[Range, ...]
    two_theta: Array
    intensity: Array
    sigma: Array
    fitted: Array
    background: Array

    @property
    def mean_shift(self) -> float:
        """The zero shift alone that comes nearest to all shifts of the reflections, in degrees."""
        return float(np.mean(self._shifts()))

    def projected_shifts(self, functions: Array) -> Array:
        """Amplitudes `(k,)` of other functions `(reflections, k)` that come nearest to the shifts of the reflections.

        The smallest of equally good amplitudes are taken where the reflections cannot tell the functions apart.
        """
        return np.asarray(np.linalg.lstsq(functions, self._shifts(), rcond=1e-6)[0])

    def _shifts(self) -> Array:
        return np.asarray(shift_functions(np.radians(self.positions / 2)) @ np.array(self.shifts))

    def background_points(self) -> tuple[Array, Array]:
        """Angles and intensities between which the background is nearly linear."""
        angles = np.linspace(*self.limits, 2 * self._pieces + 1)
        return angles, np.interp(angles, self.fitted, self.background)

    def chebyshev(self) -> Array:
        """Coefficients of the background as Chebyshev polynomials from the first to the last angle of the fit."""
        low, high = self.limits
        degree = min(self._pieces + 3, _MOST_COEFFICIENTS) - 1
        return np.asarray(
            np.polynomial.chebyshev.chebfit(2 * (self.fitted - low) / (high - low) - 1, self.background, degree)
        )

    @property
    def _pieces(self) -> int:
        return background_pieces(self.limits[1] - self.limits[0], self.wavelength)


def refinement_start(solution: Solution, pattern: Pattern | None = None) -> RefinementStart:
    """The start from the fit of a solution.

    `pattern` is the one that was indexed; its points beyond the range of the fit are then part of the data. Without it,
    or if its angles are not those of the fit, the data are the points of the fit.
    """
    fit = solution.fit
    if fit is None:
        raise InputError("solution: found no refinement on the whole pattern, expected one to write a project from")
    two_theta, intensity, sigma = _data(fit, pattern)
    limits = float(fit.two_theta[0]), float(fit.two_theta[-1])
    factor = _factor(float(np.abs(intensity).max()))
    shape = fit.profile.shape
    return RefinementStart(
        cell=fit.cell,
        errors=fit.errors,
        system=solution.crystal_system,
        centring=solution.centring,
        group=choose_space_group(solution),
        neutrons=solution.radiation == NEUTRONS,
        wavelength=solution.wavelength,
        wavelength2=fit.profile.wavelength2,
        ratio=shape.ratio,
        shifts=Shifts(fit.zero, fit.displacement, fit.transparency),
        positions=fit.positions,
        shape=thompson_cox_hastings(fit.profile, limits),
        limits=limits,
        excluded=_excluded(two_theta, fit.two_theta),
        two_theta=two_theta,
        intensity=intensity * factor,
        sigma=sigma * factor,
        fitted=fit.two_theta,
        background=fit.background * factor,
    )


def _data(fit: Fit, pattern: Pattern | None) -> tuple[Array, Array, Array]:
    """Angles, intensities and standard errors: those of the fit, and of the rest of the pattern."""
    if pattern is None:
        return fit.two_theta, fit.observed, fit.sigma
    data = select_data(pattern.two_theta, pattern.intensity, pattern.sigma, None)
    used = np.isin(data.x, fit.two_theta)
    if used.sum() != len(fit.two_theta):
        return fit.two_theta, fit.observed, fit.sigma
    sigma = np.ldexp(np.sqrt(data.variance), data.exponent)
    sigma[used] = fit.sigma
    return data.x, np.ldexp(data.y, data.exponent), sigma


def _excluded(two_theta: Array, fitted: Array) -> tuple[Range, ...]:
    """Ranges of the data that hold no point of the fit; they end halfway between two points."""
    used = np.concatenate([[True], np.isin(two_theta, fitted), [True]])
    middle = np.concatenate([two_theta[:1], (two_theta[1:] + two_theta[:-1]) / 2, two_theta[-1:]])
    edges = np.flatnonzero(np.diff(used.astype(int)))
    return tuple((float(middle[a]), float(middle[b])) for a, b in zip(edges[::2], edges[1::2], strict=True))


def _factor(highest: float) -> float:
    low, high = _INTENSITIES
    return 1.0 if low <= highest < high else 10.0 ** (_USUAL_EXPONENT - math.floor(math.log10(highest)))
