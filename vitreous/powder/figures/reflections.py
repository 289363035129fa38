"""Labels of reflections in figures."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def label_strongest(
    axes: Any,
    position: Floats,
    hkl: Sequence[Sequence[int]],
    strength: Floats,
    curve: tuple[Floats, Floats],
    most: int,
    apart: float,
    reach: float,
) -> None:
    """Write the indices of the strongest reflections above a curve, where labels do not overlap.

    Args:
        axes: matplotlib axes.
        position: `(n,)` on the horizontal axis.
        hkl: indices of the reflections.
        strength: `(n,)`.
        curve: horizontal and vertical values of the curve.
        most: largest number of labels.
        apart: smallest distance between labels on the horizontal axis.
        reach: a label stands above the highest point of the curve within this distance.
    """
    x, y = curve
    labelled: list[float] = []
    for i in np.argsort(-strength):
        place = float(position[i])
        if len(labelled) == most:
            break
        if any(abs(place - other) < apart for other in labelled):
            continue
        labelled.append(place)
        height = float(y[np.abs(x - place) < reach].max(initial=0.0))
        style: Any = {"textcoords": "offset points", "ha": "center", "fontsize": 7, "parse_math": True}
        axes.annotate(format_indices(hkl[i]), (place, height), (0, 3), **style)


def format_indices(hkl: Sequence[int]) -> str:
    """Miller indices as they are printed: bars for minus signs, spaces if one has two digits."""
    words = [rf"\overline{{{-index}}}" if index < 0 else str(index) for index in hkl]
    return "$" + (r"\," if max(map(abs, hkl)) > 9 else "").join(words) + "$"
