"""The figure of an in-situ series: mass fractions and changes of the cells against frame, temperature or time."""

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from vitreous.insight.style import figure
from vitreous.powder.cell import volumes
from vitreous.powder.figures.identify import colour_of, named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from vitreous.powder.identify.answer import IdentifiedPhase
    from vitreous.powder.identify.series import Series, SeriesPhase


def draw_series(series: "Series") -> "Figure":
    """Draw mass percent with standard errors, and the volume of each cell relative to its first frame."""
    with figure(8, 6) as drawing:
        amounts, cells = drawing.subplots(2, 1, sharex=True)
        for number, phase in enumerate(series.phases):
            _draw_phase(amounts, cells, series, phase, colour_of(number))
        amounts.set_ylim(bottom=0)
        amounts.set_ylabel("mass (%)")
        cells.set_ylabel("change of the cell's volume (%)")
        cells.axhline(0, lw=0.5, color="0.7", zorder=0)
        cells.set_xlabel(series.axis)
        amounts.set_title(series.name, loc="left", fontsize=9)
        if series.phases:
            amounts.legend(frameon=False, fontsize=8)
    return drawing


def _draw_phase(amounts: Any, cells: Any, series: "Series", phase: "SeriesPhase", colour: str) -> None:
    """Fractions and volumes of one phase; a gap where a frame does not have it."""
    x = np.array([frame.at for frame in series.frames])
    fraction, error, volume, volume_error = np.full((4, len(x)), np.nan)
    for k, own in phase.frames.items():
        if own.fraction is not None and own.fraction_error is not None:
            fraction[k], error[k] = 100 * own.fraction, 100 * own.fraction_error
        volume[k] = float(volumes([own.cell])[0])
        volume_error[k] = _relative_error(own)
    first = volume[min(phase.frames)]
    style: Any = {"fmt": "o-", "ms": 3, "lw": 1, "elinewidth": 0.8, "color": colour}
    label = named(phase.name, phase.formula)
    amounts.errorbar(x, fraction, error, label=label, **style)
    cells.errorbar(x, 100 * (volume / first - 1), 100 * volume_error, label=label, **style)


def _relative_error(phase: "IdentifiedPhase") -> float:
    """Of the volume of a cell, by the errors of its lengths: equal ones change together."""
    pairs = zip(phase.cell[:3], phase.cell_errors[:3], strict=True)
    lengths = Counter((round(a, 6), round(error, 9)) for a, error in pairs)
    return math.hypot(*(count * error / a for (a, error), count in lengths.items()))
