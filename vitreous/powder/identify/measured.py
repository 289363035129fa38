"""A measured pattern, ready to be compared with the phases of a database: noise, background, lines and line widths."""

from dataclasses import dataclass

import numpy as np

from vitreous.powder.lineshape import FWHM_PER_SIGMA
from vitreous.powder.pattern import Floats, Pattern, normalise_intensity, require_wavelength
from vitreous.powder.peaks import Peaks
from vitreous.powder.peaks.find import measured_points
from vitreous.powder.peaks.noise import Noise, background_splines

_POINTS_PER_WIDTH = 6  # that a comparison needs
_ROUNDS = 12  # of the first background
_ABOVE = 1.5  # standard errors by which a point may lie above the first background


@dataclass(frozen=True)
class Measured:
    """A pattern on the points of a comparison.

    Args:
        x: 2θ in degrees, ascending.
        y: intensities, in the unit of the noise.
        variance: of the intensities, by counting.
        splines: `(points, k)`, functions that make a background.
        background: a first estimate.
        width: full width of the lines at half maximum, degrees.
        peaks: the lines that were found.
        pattern: what was measured.
    """

    x: Floats
    y: Floats
    variance: Floats
    splines: Floats
    background: Floats
    width: float
    peaks: Peaks
    pattern: Pattern

    @property
    def wavelength(self) -> float:
        """Of Kα1, ångström."""
        return require_wavelength(self.pattern)

    @property
    def wavelength_ratio(self) -> float:
        """Wavelength of Kα2 over Kα1; 0 without a doublet."""
        second = self.pattern.wavelength2
        return second / self.wavelength if second and self.pattern.ratio else 0.0


def prepare(pattern: Pattern, peaks: Peaks) -> Measured:
    """A pattern of known wavelength and its lines, on as many points as its line widths need."""
    used = measured_points(pattern.intensity)
    x, sigma = pattern.two_theta[used], None if pattern.sigma is None else pattern.sigma[used]
    y, sigma, _ = normalise_intensity(pattern.intensity[used], sigma)
    noise = Noise.estimate(y, sigma)
    variance = noise.variance(y)
    step = float(np.median(np.diff(x)))
    width = float(np.median(peaks.width)) if len(peaks.width) else 10 * step
    together = max(1, int(width / _POINTS_PER_WIDTH / step))
    if together > 1:
        x, y, variance = (_means(values, together) for values in (x, y, variance))
        variance = variance / together
    splines = background_splines(x, max(width, 0.1))
    return Measured(x, y, variance, splines, _background(y, variance, splines), width, peaks, pattern)


def _means(values: Floats, together: int) -> Floats:
    whole = len(values) // together * together
    return np.asarray(values[:whole].reshape(-1, together).mean(axis=1))


def _background(y: Floats, variance: Floats, splines: Floats) -> Floats:
    """A smooth curve below the lines: points far above it count less and less."""
    weight = 1 / variance
    level = y
    for _ in range(_ROUNDS):
        normal = splines.T @ (splines * weight[:, None])
        normal[np.diag_indices_from(normal)] *= 1 + 1e-6
        level = splines @ np.linalg.solve(normal, splines.T @ (weight * y))
        sigma = np.sqrt(variance)
        above = np.maximum(0, (y - level) / sigma - _ABOVE)
        weight = 1 / (variance * (1 + above**2))
    return np.asarray(level)


def gaussian_sigma(width: Floats) -> Floats:
    """Standard deviations of Gaussians of full widths at half maximum."""
    return np.asarray(width / FWHM_PER_SIGMA)
