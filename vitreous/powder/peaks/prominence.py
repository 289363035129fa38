"""Local maxima, their prominences and widths: equal to `scipy.signal`, without its import time of half a second."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
