"""The points of a pattern that are fitted, with their variances."""

from typing import NamedTuple

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.pattern import MIN_POINTS
from vitreous.powder.refinement.profile import Array

_MEDIAN_OF_CHI2 = 0.455  # of one degree of freedom


class Data(NamedTuple):
    """Angles in degrees, intensities, their variances, and whether the intensities are counts."""

    x: Array
    y: Array
    variance: Array
    counted: bool

    def before(self, angle: float) -> "Data":
        """Points below an angle."""
        used = self.x < angle
        return Data(self.x[used], self.y[used], self.variance[used], self.counted)


def select_data(two_theta: Array, intensity: Array, sigma: Array | None, limit: tuple[float, float] | None) -> Data:
    """Points within the limits, checked; zeros at the start are angles that were not measured."""
    x, y = np.asarray(two_theta, dtype=float), np.asarray(intensity, dtype=float)
    errors = None if sigma is None else np.asarray(sigma, dtype=float)
    for name, values in (("two_theta", x), ("intensity", y), ("sigma", errors)):
        if values is not None and (values.ndim != 1 or len(values) != len(x)):
            raise InputError(f"{name}: found shape {values.shape}, expected as many numbers as angles")
        if values is not None and not np.all(np.isfinite(values)):
            raise InputError(f"{name}: found a number that is not finite")
    low, high = limit or (0.0, 180.0)
    used = (x >= low) & (x <= high) & (x > 0) & (np.cumsum(np.abs(y)) > 0)
    if used.sum() < MIN_POINTS:
        raise InputError(
            f"two_theta: found {used.sum()} measured point(s) between {low:g} and {high:g}°, expected {MIN_POINTS} "
            "or more"
        )
    x, y = x[used], y[used]
    if np.any(np.diff(x) <= 0) or x[-1] >= 180:
        raise InputError("two_theta: expected ascending angles between 0 and 180°")
    counted = False
    near = np.convolve(np.pad(np.maximum(y, 0), 2, mode="edge"), np.full(5, 0.2), mode="valid")
    if errors is not None:
        errors = errors[used]
        if not np.any(errors > 0):
            raise InputError("sigma: found no standard error above 0")
        variance = np.maximum(errors, errors[errors > 0].min()) ** 2
    elif counted := bool(np.all(y >= 0) and np.all(y == np.round(y))):
        variance = np.maximum(near, 1.0)
    else:
        variance = _estimate_variance(y, near)
    return Data(x, y, variance, counted)


def _estimate_variance(y: Array, near: Array) -> Array:
    """Variances of intensities in an unknown unit: a constant plus a multiple of the intensity."""
    rough = (y[:-3] - 3 * y[1:-2] + 3 * y[2:-1] - y[3:]) ** 2 / 20  # third differences remove smooth curves
    level = np.maximum(y[1:-2] + y[2:-1], 0) / 2
    flat = level <= np.median(level)
    floor = max(float(np.median(rough[flat])) / _MEDIAN_OF_CHI2, (1e-4 * float(np.ptp(y))) ** 2, 1e-30)
    high = level > np.quantile(level, 0.8)
    gain = max(0.0, float(np.median((rough[high] / _MEDIAN_OF_CHI2 - floor) / np.maximum(level[high], 1e-30))))
    return np.asarray(floor + gain * near)
