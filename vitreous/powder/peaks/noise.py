"""The noise of measured intensities."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float64]

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
