"""Figures of an indexed pattern: its refinement or, if there was none, its observed and calculated lines."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vitreous.core.errors import InputError
from vitreous.insight.style import figure
from vitreous.powder.figures.pattern import Ticks, label_strongest
from vitreous.powder.refinement import Fit
from vitreous.powder.refinement.profile import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from vitreous.powder.solution import Solution

_CLOSE_UP = 12  # reflections in the close-up
_LABELS = 6  # of them with indices
_LABEL_DISTANCE, _LABEL_REACH = 0.07, 0.02  # of the axis
_ROW = 0.05  # distance of rows of reflections, of the highest intensity
_ROW_COLOURS = ("k", "C1")


def phases_figure(phases: Sequence["Solution"], title: str = "") -> "Figure":
    """`fit_figure` of refined phases, with a row of reflections for each, named by its lattice and share."""
    rows = {}
    for number, phase in enumerate(phases, 1):
        if phase.fit is None:
            raise InputError("phases: found one without a refinement, expected refined solutions")
        rows[f"{number}: {phase.system} {phase.centring}, {phase.fit.share:.0%}"] = phase.fit.positions
    fit = phases[0].fit
    assert fit is not None
    return fit_figure(fit, title, rows=rows if len(phases) > 1 else None)


def fit_figure(
    fit: Fit, title: str = "", ylabel: str = "intensity", rows: Mapping[str, Array] | None = None
) -> "Figure":
    """Draw observed points, fitted curve, background, reflections and difference, and a close-up of low angles.

    The title stands before the residual Rwp. `rows` are names of phases and the positions of their reflections in
    degrees; by default there is one row with those of the fit.
    """
    rows = {"reflections": fit.positions} if rows is None else rows
    with figure(10, 5.5) as drawing:
        whole, close = drawing.subplots(1, 2, width_ratios=(3, 2))
        _draw(whole, fit, np.ones(len(fit.two_theta), dtype=bool), rows)
        _draw(close, fit, _low_angles(fit), rows)
        low, high = close.get_xlim()
        inside = np.flatnonzero((fit.positions > low) & (fit.positions < high))
        ticks = Ticks(fit.positions[inside], fit.hkl[inside].tolist(), fit.intensities[inside])
        apart, reach = _LABEL_DISTANCE * (high - low), _LABEL_REACH * (high - low)
        label_strongest(close, ticks, (fit.two_theta, fit.calculated), _LABELS, apart, reach)
        text = f"$R_\\mathrm{{wp}}$ = {fit.rwp:.1%}, χ² = {fit.chi2:.3g}".replace("%", " %")
        name = title.replace("$", r"\$")
        whole.set_title(f"{name}, {text}" if name else text, loc="left", fontsize=9, parse_math=True)
        close.set_title("low angles", loc="left", fontsize=9)
        whole.set_ylabel(ylabel)
        whole.legend(frameon=False, fontsize=8)
    return drawing


def _low_angles(fit: Fit) -> Any:
    """The points of the close-up."""
    strong = fit.positions[fit.intensities > 0]
    end = strong[min(_CLOSE_UP, len(strong)) - 1] if len(strong) else fit.two_theta[-1]
    step = 0.03 * (fit.two_theta[-1] - fit.two_theta[0])
    start = max(fit.two_theta[0], strong[0] - step) if len(strong) else fit.two_theta[0]
    return (fit.two_theta >= start) & (fit.two_theta <= end + step)


def _draw(axes: Any, fit: Fit, points: Any, rows: Mapping[str, Array]) -> None:
    x, observed, calculated = fit.two_theta[points], fit.observed[points], fit.calculated[points]
    top = float(max(observed.max(), calculated.max()))
    difference = observed - calculated
    below = -_ROW * top * (len(rows) + 1) - float(difference.max())
    axes.plot(x, observed, ".", ms=2, color="0.45", label="observed")
    axes.plot(x, calculated, lw=0.8, color="C3", label="calculated")
    axes.plot(x, fit.background[points], lw=0.8, ls="--", color="C2", label="background")
    axes.plot(x, below + difference, lw=0.6, color="C0", label="difference")
    for number, (name, positions) in enumerate(rows.items(), 1):
        marks = positions[(positions >= x[0]) & (positions <= x[-1])]
        height = np.full(len(marks), -_ROW * top * number)
        axes.plot(marks, height, "|", color=_ROW_COLOURS[number - 1], ms=6, mew=0.6, label=name)
    axes.set_ylim(below + float(difference.min()) - 0.03 * top, 1.12 * top)
    axes.set_xlabel("2θ (°)")
    axes.margins(x=0.01)


def lines_figure(solution: "Solution", title: str = "") -> "Figure":
    """Draw the observed lines, those without indices in another colour, and the calculated lines below."""
    lines = solution.indexed_lines()
    angles = np.array([line.two_theta for line in lines])
    explained = np.array([line.hkl is not None for line in lines], dtype=bool)
    limits = (max(0.1, angles[0] - 1), min(179.0, angles[-1] + 1)) if len(angles) else (0.1, 90.0)
    _, calculated = solution.reflections(limits)
    with figure(9, 3) as drawing:
        axes = drawing.subplots()
        for chosen, colour, label in ((explained, "C0", "indexed"), (~explained, "C3", "not indexed")):
            axes.vlines(angles[chosen], 0.1, 1.0, color=colour, lw=1, label=label)
        axes.vlines(calculated, -1.0, -0.1, color="0.5", lw=0.6, label="calculated")
        axes.set_yticks([])
        axes.set_xlabel("2θ (°)")
        name = f"{solution.system} {solution.centring}, M20 {solution.m20:.1f}"
        axes.set_title(f"{title}, {name}" if title else name, loc="left", fontsize=9)
        axes.legend(frameon=False, fontsize=8, loc="upper right")
    return drawing
