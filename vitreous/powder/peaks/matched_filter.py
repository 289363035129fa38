"""Peak candidates: maxima of a matched filter with the width of the pattern's own peaks.

`prominent_maxima` and `half_widths` are equal to `scipy.signal`, without its import time of half a second.
"""

import math

import numpy as np

from vitreous.powder.lineshape import FWHM_PER_SIGMA
from vitreous.powder.peaks.noise import Floats, Ints, running_mean
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


def signal_to_noise(x: Floats, y: Floats, variance: Floats, width: float) -> tuple[Floats, Floats]:
    """An even grid of angles, and the signal-to-noise ratio that a peak of a width in degrees would have at each."""
    step = float(np.median(np.diff(x)))
    grid, values, variances = _even_grid(x, y, variance, step)
    return grid, _filter(values, variances, max(0.8, width / step / FWHM_PER_SIGMA))[1]


def _filter(y: Floats, variance: Floats, deviation: float) -> tuple[Floats, Floats]:
    """Height and signal-to-noise ratio of a Gaussian peak of `deviation` (in points) at every point."""
    reach = max(2, math.ceil(4 * deviation))
    u = np.arange(-reach, reach + 1) / deviation
    bell = np.exp(-0.5 * u * u)
    kernel = (1 - u * u) * bell  # the second derivative: a locally linear background has no effect
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


def prominent_maxima(y: Floats, least: float) -> tuple[Ints, Floats]:
    """Indices and prominences of the local maxima with a prominence of `least` or more; the middle of a plateau."""
    steps = np.flatnonzero(np.diff(y) != 0)
    starts, ends = np.concatenate([[0], steps + 1]), np.concatenate([steps, [len(y) - 1]])
    level = y[starts]
    top = np.flatnonzero((level[1:-1] > level[:-2]) & (level[1:-1] > level[2:])) + 1
    maxima = (starts[top] + ends[top]) // 2
    if not len(maxima):
        return maxima, np.zeros(0)
    left = _lowest_before(y, maxima)
    right = _lowest_before(y[::-1], len(y) - 1 - maxima[::-1])[::-1]
    prominence = y[maxima] - np.maximum(left, right)
    enough = prominence >= least
    return maxima[enough], prominence[enough]


def _lowest_before(y: Floats, maxima: Ints) -> Floats:
    """The lowest value between each maximum and the nearest earlier value above it."""
    valleys = np.minimum.reduceat(y, np.concatenate([[0], maxima]))[:-1]
    higher: list[tuple[float, float]] = [(float(y[0]), float("inf"))]  # falling values, and the lowest before each
    lowest = []
    for value, valley in zip(y[maxima].tolist(), valleys.tolist(), strict=True):
        while higher and higher[-1][0] <= value:
            valley = min(valley, higher.pop()[1])
        higher.append((value, valley))
        lowest.append(valley)
    return np.array(lowest)


def half_widths(y: Floats, maxima: Ints, prominence: Floats) -> Floats:
    """Widths in points at half the prominence of each maximum."""
    widths = []
    for place, height in zip(maxima.tolist(), (y[maxima] - prominence * 0.5).tolist(), strict=True):
        left = place - int(np.argmax(y[place::-1] <= height))
        right = place + int(np.argmax(y[place:] <= height))
        first, last = float(left), float(right)
        if y[left] < height:
            first += (height - y[left]) / (y[left + 1] - y[left])
        if y[right] < height:
            last -= (height - y[right]) / (y[right - 1] - y[right])
        widths.append(last - first)
    return np.array(widths)
