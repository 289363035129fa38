"""Arrays for JSON responses: finite numbers with few digits, curves with few points."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_HUGE = 1e300  # replaces infinity, which JSON does not have


def to_json(values: ArrayLike, digits: int = 5) -> Any:
    """Convert an array to nested lists of finite numbers, rounded to significant digits.

    >>> to_json([0.0123456789, np.inf])
    [0.012346, 1e+300]
    """
    finite = np.nan_to_num(np.asarray(values, np.float64), nan=0.0, posinf=_HUGE, neginf=-_HUGE)
    exponent = np.floor(np.log10(np.abs(finite), out=np.zeros_like(finite), where=finite != 0))
    with np.errstate(all="ignore"):
        scale = 10.0 ** (digits - 1 - exponent)
        rounded = np.round(finite * scale) / scale
    return np.where(np.isfinite(rounded), rounded, finite).tolist()


def thin_curve(curve: NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Return indices of at most `most` points: the lowest and the highest of each interval, so that peaks remain.

    >>> thin_curve(np.array([0.0, 5.0, 1.0, 0.0, 7.0, 6.0, 0.0, 0.0]), 4)
    array([0, 1, 4, 6])
    """
    if len(curve) <= most:
        return np.arange(len(curve))
    edges = np.linspace(0, len(curve), most // 2 + 1).astype(np.intp)
    intervals = [(start, curve[start:end]) for start, end in pairwise(edges)]
    return np.unique([start + index for start, part in intervals for index in (part.argmin(), part.argmax())])


def bin_values(values: NDArray[Any], steps: Sequence[int]) -> NDArray[np.float64]:
    """Group values `(*grid)` into bins: `(*coarse grid, values of a bin)`. The last values repeat to fill a bin.

    >>> bin_values(np.array([1.0, 2.0, 3.0]), (2,))
    array([[1., 2.],
           [3., 3.]])
    """
    padding = [(0, -count % step) for count, step in zip(values.shape, steps, strict=True)]
    padded = np.pad(values.astype(np.float64), padding, "edge")
    shape = [part for count, step in zip(padded.shape, steps, strict=True) for part in (count // step, step)]
    order = [*range(0, len(shape), 2), *range(1, len(shape), 2)]
    bins = padded.reshape(shape).transpose(order)  # (*coarse grid, *steps)
    return bins.reshape(*bins.shape[: len(steps)], -1)


def coarsen_sample(sample: NDArray[Any], steps: Sequence[int]) -> NDArray[np.float64]:
    """Reduce a sample `(channels, *grid)` to one value per bin: the farthest from the median, so that peaks remain."""
    channels = []
    for channel in sample:
        bins = bin_values(channel, steps)
        index = np.abs(bins - np.median(channel)).argmax(-1)[..., None]
        channels.append(np.take_along_axis(bins, index, -1)[..., 0])
    return np.stack(channels)
