"""Arrays as JSON: finite numbers of few digits, curves of few points."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_HUGE = 1e300  # what JSON has in place of infinity


def plain(values: ArrayLike, digits: int = 5) -> Any:
    """Numbers, in lists if there are several.

    >>> plain([0.0123456789, np.inf])
    [0.012346, 1e+300]
    """
    found = np.nan_to_num(np.asarray(values, np.float64), nan=0.0, posinf=_HUGE, neginf=-_HUGE)
    size = np.floor(np.log10(np.abs(found), out=np.zeros_like(found), where=found != 0))
    with np.errstate(all="ignore"):
        scale = 10.0 ** (digits - 1 - size)
        rounded = np.round(found * scale) / scale
    kept = np.where(np.isfinite(rounded), rounded, found)
    return kept.tolist()


def thinned(curve: NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Places of at most so many points that show a curve: of each stretch the lowest and the highest.

    >>> thinned(np.array([0.0, 5.0, 1.0, 0.0, 7.0, 6.0, 0.0, 0.0]), 4)
    array([0, 1, 4, 6])
    """
    if len(curve) <= most:
        return np.arange(len(curve))
    edges = np.linspace(0, len(curve), most // 2 + 1).astype(np.intp)
    stretches = [(start, curve[start:end]) for start, end in pairwise(edges)]
    return np.unique([start + place for start, part in stretches for place in (part.argmin(), part.argmax())])


def chosen(columns: Sequence[NDArray[np.float64]], places: NDArray[np.intp], digits: int = 6) -> list[list[float]]:
    """Some points of several curves."""
    return [plain(column[places], digits) for column in columns]
