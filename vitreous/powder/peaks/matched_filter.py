"""Peak candidates: maxima of a matched filter with the width of the pattern's own peaks."""

import math

import numpy as np

from vitreous.powder.lineshape import FWHM_PER_SIGMA
from vitreous.powder.peaks.noise import Floats, running_mean
from vitreous.powder.peaks.prominence import half_widths, prominent_maxima
from vitreous.powder.tuning import PeakTuning


def typical_width(x: Floats, y: Floats, variance: Floats, step: float, tuning: PeakTuning) -> float:
    """FWHM in degrees of the strongest isolated peaks."""
    widest = min(tuning.widest, (x[-1] - x[0]) / 8)
    for points in (1, 3, 5, 9):  # as little smoothing as possible
        smooth = running_mean(y, points)
        places, prominence = prominent_maxima(smooth, 0.01 * float(np.ptp(smooth)))
        clear = prominence > 10 * np.sqrt(variance[places] / points)
        places, prominence = places[clear], prominence[clear]
        strong = np.argsort(prominence)[::-1][:30]
        width = half_widths(smooth, places[strong], prominence[strong]) * step
        width = np.sqrt(np.maximum(width**2 - (points**2 - 1) / 12 * 5.5 * step**2, step**2))
        width = width[width < widest]
        if len(width) >= 3:
            break
    # Overlap makes peaks wider, never narrower.
    return max(float(np.quantile(width, 0.25)) if len(width) else 0.1, 2 * step)


def filter_maxima(
    x: Floats, y: Floats, variance: Floats, step: float, width: float, tuning: PeakTuning
) -> tuple[Floats, Floats]:
    """Positions in degrees and heights of the significant maxima of the matched filter."""
    grid, values, variances = _even_grid(x, y, variance, step)
    height, ratio = _filter(values, variances, max(0.8, width / step / FWHM_PER_SIGMA))
    inner = height[1:-1]
    top = (inner > height[:-2]) & (inner >= height[2:]) & (ratio[1:-1] > tuning.detection)
    top &= (grid[1:-1] > grid[0] + tuning.edge * width) & (grid[1:-1] < grid[-1] - tuning.edge * width)
    k = np.flatnonzero(top) + 1
    bend = np.maximum(2 * height[k] - height[k - 1] - height[k + 1], 1e-300)
    return grid[k] + step * np.clip((height[k + 1] - height[k - 1]) / 2 / bend, -0.5, 0.5), height[k]


def _filter(y: Floats, variance: Floats, deviation: float) -> tuple[Floats, Floats]:
    """Height and signal-to-noise ratio of a Gaussian peak of `deviation` (in points) at every point.

    The kernel is the second derivative of the Gaussian, so a locally linear background has no effect.
    """
    reach = max(2, math.ceil(4 * deviation))
    u = np.arange(-reach, reach + 1) / deviation
    bell = np.exp(-0.5 * u * u)
    kernel = (1 - u * u) * bell
    kernel -= kernel.mean()
    kernel /= kernel @ bell
    height = np.convolve(np.pad(y, reach, mode="edge"), kernel, mode="valid")
    noise = np.convolve(np.pad(variance, reach, mode="edge"), kernel * kernel, mode="valid")
    return height, height / np.sqrt(np.maximum(noise, 1e-300))


def _even_grid(x: Floats, y: Floats, variance: Floats, step: float) -> tuple[Floats, Floats, Floats]:
    """Interpolated to equal steps, unless the angles have them."""
    if np.ptp(np.diff(x)) < 0.02 * step:
        return x, y, variance
    grid = np.arange(x[0], x[-1] + step / 2, step)
    return grid, np.interp(grid, x, y), np.interp(grid, x, variance)
