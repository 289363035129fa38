"""The noise of a raw pattern, and what stands out of it: maxima of a matched filter at the pattern's own width."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy import signal

Floats = NDArray[np.float64]

_WIDEST = 1.2  # degrees: the widest line; what is wider is amorphous
_SEEN = 4.5  # signal over noise at which the filter sees a candidate, in data and in residuals
_EDGE = 1.0  # FWHM from the ends of the pattern within which no line is believed
_RELATIVE = 0.01  # of the intensity: noise of intensities that are not counts


@dataclass(frozen=True)
class Noise:
    """Variance of intensities: `floor + slope * level + (relative * level)²`."""

    floor: Floats
    slope: float
    relative: float

    @classmethod
    def of(cls, y: Floats, sigma: Floats | None) -> "Noise":
        top = float(np.abs(y).max())
        if sigma is not None:
            least = float(sigma[sigma > 0].min())
            return cls(np.maximum(sigma, least) ** 2, 0.0, 0.0)
        local = _roughness(y)
        level = smoothed(y, 25)
        counts = bool((y >= 0).all() and (y == np.round(y)).all())
        gain = float(np.median(local[level > 0] / level[level > 0])) if (level > 0).any() else 0.0
        if counts and gain < 3:
            return cls(np.full(len(y), 0.5), 1.0, 0.0)
        least = (1e-4 * top) ** 2
        steady = float(np.mean(level > 3 * np.sqrt(local))) > 0.9  # the background was not subtracted
        if steady and float(np.median(local)) > least:
            return cls(np.full(len(y), least), gain, 0.0)
        return cls(np.maximum(local, least), 0.0, _RELATIVE)

    def variance(self, level: Floats) -> Floats:
        """At a fitted or smoothed level."""
        level = np.maximum(smoothed(level, 3), 0.0)
        result: Floats = self.floor + self.slope * level + (self.relative * level) ** 2
        return result

    def first(self, count: int) -> "Noise":
        return replace(self, floor=self.floor[:count])


def _roughness(y: Floats) -> Floats:
    """Variance of the noise from second differences, by medians in blocks that lines hardly disturb."""
    rough = np.abs(y[1:-1] - (y[2:] + y[:-2]) / 2)
    size = min(100, len(rough))
    whole = len(rough) // size * size
    values = np.median(rough[:whole].reshape(-1, size), axis=1) * (1.4826 / math.sqrt(1.5))
    around = np.median(sliding_window_view(np.pad(values, 3, mode="reflect" if len(values) > 3 else "edge"), 7), axis=1)
    result: Floats = np.interp(np.arange(len(y)), np.arange(len(values)) * size + size / 2, around) ** 2
    return result


def smoothed(y: Floats, points: int) -> Floats:
    """Running mean over an odd number of points."""
    half = points // 2
    total = np.cumsum(np.concatenate(([0.0], np.pad(y, half, mode="edge"))))
    result: Floats = (total[points:] - total[:-points]) / points
    return result


def _response(y: Floats, variance: Floats, deviation: float) -> tuple[Floats, Floats]:
    """Height and signal over noise of a Gaussian line of `deviation` (in points) at every point.

    The filter is the Gaussian's second derivative: blind to a background that is locally straight.
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


def typical_width(x: Floats, y: Floats, variance: Floats, step: float) -> float:
    """FWHM in degrees of the strongest lines that stand clear."""
    widest = min(_WIDEST, (x[-1] - x[0]) / 8)
    for points in (1, 3, 5, 9):  # smoothed no more than it takes to see lines
        smooth = smoothed(y, points)
        places, found = signal.find_peaks(smooth, prominence=0.01 * float(np.ptp(smooth)))
        clear = found["prominences"] > 10 * np.sqrt(variance[places] / points)
        places = places[clear]
        strong = np.argsort(found["prominences"][clear])[::-1][:30]
        width = signal.peak_widths(smooth, places[strong], rel_height=0.5)[0] * step
        width = np.sqrt(np.maximum(width**2 - (points**2 - 1) / 12 * 5.5 * step**2, step**2))
        width = width[width < widest]
        if len(width) >= 3:
            break
    # Overlap makes lines wider, never narrower.
    return max(float(np.quantile(width, 0.25)) if len(width) else 0.1, 2 * step)


def _even(x: Floats, y: Floats, variance: Floats, step: float) -> tuple[Floats, Floats, Floats]:
    """On an even grid, where the angles are not one."""
    if np.ptp(np.diff(x)) < 0.02 * step:
        return x, y, variance
    grid = np.arange(x[0], x[-1] + step / 2, step)
    return grid, np.interp(grid, x, y), np.interp(grid, x, variance)


def stand_out(x: Floats, y: Floats, variance: Floats, step: float, width: float) -> tuple[Floats, Floats]:
    """Angles and heights of the maxima of the matched filter."""
    grid, values, errors = _even(x, y, variance, step)
    height, ratio = _response(values, errors, max(0.8, width / step / 2.3548))
    inner = height[1:-1]
    top = (inner > height[:-2]) & (inner >= height[2:]) & (ratio[1:-1] > _SEEN)
    top &= (grid[1:-1] > grid[0] + _EDGE * width) & (grid[1:-1] < grid[-1] - _EDGE * width)
    k = np.flatnonzero(top) + 1
    bend = np.maximum(2 * height[k] - height[k - 1] - height[k + 1], 1e-300)
    return grid[k] + step * np.clip((height[k + 1] - height[k - 1]) / 2 / bend, -0.5, 0.5), height[k]
