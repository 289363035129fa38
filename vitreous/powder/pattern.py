"""`Pattern`: one powder diffraction pattern, checked, and its intensities on a grid in q."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.powder.bragg import q_from_two_theta
from vitreous.powder.radiation import Radiation, radiation_from_user

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

MIN_POINTS = 50  # of a pattern; fewer are a list of peaks
_MOST_COUNTS = 2.0**40
_LEAST_ERROR = 1e-9  # of the highest intensity: smaller and, as the inverse, larger standard errors mean nothing
_LARGEST_ANGLE = 360.0  # degrees: what is larger is another quantity
_SAME_WAVELENGTH = 1e-4  # relative: two spellings of one wavelength


@dataclass(frozen=True)
class Pattern:
    """One powder pattern.

    Args:
        two_theta: degrees, ascending.
        intensity: counts, or any other unit.
        sigma: standard errors of the intensities, if available.
        wavelength: ångström, Kα1 of a doublet; None if unknown.
        name: file name.
        wavelength2: Kα2 in ångström, if there is a doublet.
        ratio: intensity of Kα2 relative to Kα1.
        radiation: `X-rays` or `neutrons`, if that is known.
        notes: what was decided when the file was read, one sentence each.
    """

    two_theta: Floats
    intensity: Floats
    sigma: Floats | None = None
    wavelength: float | None = None
    name: str = "pattern"
    wavelength2: float | None = None
    ratio: float = 0.0
    radiation: str | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        from vitreous.powder.notebook import pattern_line

        return pattern_line(self)

    def plot(self, axis: str = "two-theta") -> "Figure":
        """A figure of the pattern along 2θ (`two-theta`) or the scattering vector (`q`)."""
        from vitreous.powder.figures.pattern import draw_patterns

        return draw_patterns(self, title=self.name, axis=axis)

    def part(self, points: NDArray[np.bool_]) -> "Pattern":
        """The chosen points `(n,)` of the pattern."""
        sigma = None if self.sigma is None else self.sigma[points]
        return replace(self, two_theta=self.two_theta[points], intensity=self.intensity[points], sigma=sigma)

    def with_radiation(self, radiation: Radiation) -> "Pattern":
        """The same pattern with the radiation that a user states, if any.

        A wavelength equal to that of the pattern keeps the pattern's Kα2.
        """
        named = self if radiation.name is None else replace(self, radiation=radiation.name)
        if radiation.wavelength is None:
            return named
        same = self.wavelength is not None and abs(radiation.wavelength / self.wavelength - 1) < _SAME_WAVELENGTH
        if same and radiation.wavelength2 is None:
            return replace(named, wavelength=radiation.wavelength)
        return replace(named, wavelength=radiation.wavelength, wavelength2=radiation.wavelength2, ratio=radiation.ratio)


def pattern_from_arrays(
    two_theta: Floats,
    intensity: Floats,
    sigma: Floats | None,
    wavelength: float | None,
    anode: str | None,
    neutrons: bool = False,
) -> Pattern:
    """A pattern from arrays, with the same checks as a pattern from a file."""
    radiation = radiation_from_user(wavelength, anode, neutrons)
    for label, values in (("intensity", intensity), ("sigma", sigma)):
        if values is not None and len(values) != len(two_theta):
            raise InputError(f"pattern: found {len(values)} numbers of {label} for {len(two_theta)} of two_theta")
    try:
        return check_pattern(Pattern(two_theta, intensity, sigma)).with_radiation(radiation)
    except InputError as error:
        raise InputError(f"pattern: {error}") from None


def require_wavelength(pattern: Pattern) -> float:
    """The wavelength in ångström; raises `InputError` if it is unknown."""
    if pattern.wavelength is None:
        advice = "give --wavelength (in ångström) or --anode Cu"
        raise InputError(f"{pattern.name}: does not state its wavelength; {advice}")
    return pattern.wavelength


def check_pattern(pattern: Pattern) -> Pattern:
    """A copy with ascending 2θ; raises `InputError` for values that no measurement gives."""
    x, y, sigma = pattern.two_theta, pattern.intensity, pattern.sigma
    for name, values in (("2θ", x), ("intensity", y), ("standard error", sigma)):
        if values is not None and not np.all(np.isfinite(values)):
            point = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InputError(f"{name}: found {values[point]} in point {point + 1}, expected a finite number")
    if len(x) < MIN_POINTS:
        raise InputError(f"found {len(x)} point(s), expected {MIN_POINTS} or more; is this a list of peaks?")
    if x[0] > x[-1]:
        x, y, sigma = x[::-1], y[::-1], sigma if sigma is None else sigma[::-1]
    steps = np.diff(x)
    if np.any(steps <= 0):
        if np.all(np.diff(y) > 0) or np.all(np.diff(y) < 0):
            raise InputError("found a sorted second column and an unsorted first one; are 2θ and intensity swapped?")
        k = int(np.flatnonzero(steps <= 0)[0])
        raise InputError(f"2θ: found {x[k + 1]:g} after {x[k]:g}, expected ascending angles")
    if x[0] < 0 or x[-1] > 180:
        times = "; times of flight must be converted to d first" if x[-1] > _LARGEST_ANGLE else ""
        raise InputError(f"2θ: found {x[0]:g} to {x[-1]:g}, expected degrees within 0 to 180{times}")
    if y.min() == y.max():
        raise InputError(f"intensity: found {y[0]:g} throughout, expected a pattern")
    noise = float(np.median(np.abs(np.diff(y))))  # about one standard deviation: peaks are too few to matter
    lowest = int(np.argmin(y))
    if y[lowest] < -max(0.1 * float(y.max()), 10 * noise):
        raise InputError(f"intensity: found {y[lowest]:g} at 2θ = {x[lowest]:g}, expected at most noise below zero")
    if sigma is not None and np.any(sigma < 0):
        raise InputError(f"standard error: found {sigma.min():g}, expected no negative number")
    sigma = None if sigma is None else sigma.copy()
    return replace(pattern, two_theta=x.copy(), intensity=y.copy(), sigma=sigma)


def normalise_intensity(intensity: Floats, sigma: Floats | None) -> tuple[Floats, Floats | None, int]:
    """Intensities and standard errors over 2ⁿ, and n: the highest is then 0.5 to 1, so that no square overflows.

    Counts stay as they are (n = 0), because their size states their noise.
    """
    highest = float(np.abs(intensity).max())
    is_count = highest < _MOST_COUNTS and bool((intensity >= 0).all() and (intensity == np.round(intensity)).all())
    exponent = 0 if is_count else math.frexp(highest)[1]
    errors = None if sigma is None else np.ldexp(sigma, -exponent)
    if errors is not None and (errors > 0).any():
        scale = math.ldexp(highest, -exponent)
        errors = np.where(errors > 0, np.clip(errors, _LEAST_ERROR * scale, scale / _LEAST_ERROR), 0.0)
    return np.ldexp(intensity, -exponent), errors, exponent


def to_grid(pattern: Pattern, q: Floats) -> Floats:
    """Intensities at ascending values of q = 4π sin θ / λ in 1/Å; zero outside the measured range.

    Where the grid is finer than the data, intensities are interpolated linearly; where it is coarser, they are averaged
    over the interval around each grid point, so that peak areas are preserved.
    """
    wavelength = require_wavelength(pattern)
    if q.ndim != 1 or len(q) < 2 or not np.all(np.isfinite(q)) or np.any(np.diff(q) <= 0):
        raise InputError(f"grid of q: found shape {q.shape}, expected two or more finite ascending numbers")
    measured_q, y = q_from_two_theta(pattern.two_theta, wavelength), pattern.intensity  # (points,)
    middle = (q[1:] + q[:-1]) / 2
    edges = np.concatenate(([2 * q[0] - middle[0]], middle, [2 * q[-1] - middle[-1]]))  # (grid + 1,)
    edges = np.clip(edges, measured_q[0], measured_q[-1])
    width = np.diff(edges)
    inside = (q >= measured_q[0]) & (q <= measured_q[-1])
    spacing = np.interp(q, (measured_q[1:] + measured_q[:-1]) / 2, np.diff(measured_q))
    coarse = inside & (width > spacing)
    result = np.where(inside, np.interp(q, measured_q, y), 0.0)
    result[coarse] = np.diff(_integral(measured_q, y, edges))[coarse] / width[coarse]
    return result


def _integral(x: Floats, y: Floats, ends: Floats) -> Floats:
    """Integrals of the piecewise linear curve through the points, from the first point to each of `ends`."""
    whole = np.concatenate(([0.0], np.cumsum(np.diff(x) * (y[1:] + y[:-1]) / 2)))
    left = np.clip(np.searchsorted(x, ends, side="right") - 1, 0, len(x) - 2)
    along = ends - x[left]
    slope = (y[left + 1] - y[left]) / (x[left + 1] - x[left])
    return np.asarray(whole[left] + along * (y[left] + slope * along / 2))
