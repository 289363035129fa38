"""Panels that entries of the gallery share."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.insight.behaviour import draw_parity
from vitreous.prediction import Prediction

_INTERVALS = 150  # that a panel draws


def parity(axes: Any, answer: Prediction, truth: NDArray[Any], target: int) -> None:
    """One target against its truth `(n, targets)`, with intervals, if there are, and how many hold the truth."""
    assert answer.values is not None
    label, true = answer.targets[target].label, truth[:, target]
    draw_parity(axes, answer.values[:, target], true, label)
    if answer.lower is None or answer.upper is None:
        return
    low, high = answer.lower[:, target], answer.upper[:, target]
    held = (low <= true) & (true <= high)
    limits = axes.get_ylim()  # a few very long intervals must not hide the rest
    some = np.arange(0, len(true), max(1, len(true) // _INTERVALS))
    for part, colour in ((some[held[some]], "C0"), (some[~held[some]], "C3")):
        axes.vlines(true[part], low[part], high[part], color=colour, lw=0.8, alpha=0.4, zorder=1)
    axes.set_ylim(limits)
    axes.set_title(f"{held.mean():.1%} in their {answer.coverage:.0%} intervals", loc="left", fontsize=8)
