"""Noise and background of measured intensities."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_MEDIAN_TO_SIGMA = 1.4826
_RELATIVE_NOISE = 0.01  # of intensities that are not counts


@dataclass(frozen=True)
class Noise:
    """Variance of intensities: `floor + slope * level + (relative * level)²`."""

    floor: Floats
    slope: float
    relative: float

    @classmethod
    def estimate(cls, y: Floats, sigma: Floats | None) -> "Noise":
        """From standard errors, Poisson's law for counts, or the roughness of the pattern."""
        if sigma is not None:
            smallest = float(sigma[sigma > 0].min())
            return cls(np.maximum(sigma, smallest) ** 2, 0.0, 0.0)
        local = _local_variance(y)
        level = running_mean(y, 25)
        counts = bool((y >= 0).all() and (y == np.round(y)).all())
        gain = float(np.median(local[level > 0] / level[level > 0])) if (level > 0).any() else 0.0
        if counts and gain < 3:
            return cls(np.full(len(y), 0.5), 1.0, 0.0)
        smallest = (1e-4 * float(np.abs(y).max())) ** 2
        has_background = float(np.mean(level > 3 * np.sqrt(local))) > 0.9
        if has_background and float(np.median(local)) > smallest:
            return cls(np.full(len(y), smallest), gain, 0.0)
        return cls(np.maximum(local, smallest), 0.0, _RELATIVE_NOISE)

    def variance(self, level: Floats) -> Floats:
        """At fitted or measured intensities."""
        level = np.maximum(running_mean(level, 3), 0.0)
        return np.asarray(self.floor + self.slope * level + (self.relative * level) ** 2)

    def first(self, count: int) -> "Noise":
        """The noise of the first points."""
        return replace(self, floor=self.floor[:count])


def _local_variance(y: Floats) -> Floats:
    """Variance from second differences: medians over blocks, which peaks hardly disturb."""
    rough = np.abs(y[1:-1] - (y[2:] + y[:-2]) / 2)
    size = min(100, len(rough))
    whole = len(rough) // size * size
    values = np.median(rough[:whole].reshape(-1, size), axis=1) * (_MEDIAN_TO_SIGMA / math.sqrt(1.5))
    around = np.median(sliding_window_view(np.pad(values, 3, mode="reflect" if len(values) > 3 else "edge"), 7), axis=1)
    return np.asarray(np.interp(np.arange(len(y)), np.arange(len(values)) * size + size / 2, around) ** 2)


def running_mean(y: Floats, points: int) -> Floats:
    """Mean over an odd number of points."""
    half = points // 2
    total = np.cumsum(np.concatenate(([0.0], np.pad(y, half, mode="edge"))))
    return np.asarray((total[points:] - total[:-points]) / points)


def background_splines(x: Floats, width: float) -> Floats:
    """Cubic splines `(points, k)` for the background; knots are close at low angles and far apart at high ones."""
    knots = [float(x[0])]
    while knots[-1] < x[-1]:
        knots.append(knots[-1] + float(np.clip(0.25 * knots[-1], max(1.0, 12 * width), max(5.0, 12 * width))))
    inner = np.array(knots) * (x[-1] - x[0]) / (knots[-1] - x[0]) - x[0] * (x[-1] - knots[-1]) / (knots[-1] - x[0])
    inner[0], inner[-1] = x[0], x[-1]
    return cubic_splines(x, np.pad(inner, 3, mode="edge"))


def cubic_splines(x: Floats, knots: Floats) -> Floats:
    """Cubic B-splines `(points, k)` on knots, by de Boor's recursion; `scipy.interpolate` takes long to import."""
    interval = np.clip(np.searchsorted(knots, x, side="right") - 1, 3, len(knots) - 5)
    values = np.zeros((4, len(x)))
    values[0] = 1
    for order in range(1, 4):
        lower = values[:order].copy()
        values[0] = 0
        for n in range(1, order + 1):
            high, low = knots[interval + n], knots[interval + n - order]
            weight = lower[n - 1] / (high - low)
            values[n - 1] += weight * (high - x)
            values[n] = weight * (x - low)
    splines = np.zeros((len(x), len(knots) - 4))
    splines[np.arange(len(x))[:, None], interval[:, None] + np.arange(-3, 1)] = values.T
    return splines
