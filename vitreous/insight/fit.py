"""A refined powder pattern: what was measured, what the cell explains of it, and what is left."""

from typing import TYPE_CHECKING, Any

import numpy as np

from vitreous.insight.pattern import name_reflection
from vitreous.insight.style import figure
from vitreous.powder.refine import Fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINES = 12  # reflections that the close-up shows
_NAMED = 6  # of them, those with indices


def fit_figure(fit: Fit, title: str = "", ylabel: str = "intensity") -> "Figure":
    """Draw observed points, fitted curve, background, reflections and difference; at low angle once more, larger.

    Args:
        fit: what `refine` returned.
        title: above the figure, before the residual Rwp.
        ylabel: what the intensity is.
    """
    with figure(10, 5.5) as drawing:
        whole, close = drawing.subplots(1, 2, width_ratios=(3, 2))
        _draw(whole, fit, np.ones(len(fit.two_theta), dtype=bool))
        _draw(close, fit, _low(fit))
        _name(close, fit)
        text = f"$R_\\mathrm{{wp}}$ = {fit.rwp:.1%}, χ² = {fit.chi2:.3g}".replace("%", " %")
        name = title.replace("$", r"\$")
        whole.set_title(f"{name}, {text}" if name else text, loc="left", fontsize=9, parse_math=True)
        close.set_title("low angles", loc="left", fontsize=9)
        whole.set_ylabel(ylabel)
        whole.legend(frameon=False, fontsize=8)
    return drawing


def _low(fit: Fit) -> Any:
    """Which points belong to the close-up."""
    strong = fit.positions[fit.intensities > 0]
    end = strong[min(_LINES, len(strong)) - 1] if len(strong) else fit.two_theta[-1]
    step = 0.03 * (fit.two_theta[-1] - fit.two_theta[0])
    start = max(fit.two_theta[0], strong[0] - step) if len(strong) else fit.two_theta[0]
    return (fit.two_theta >= start) & (fit.two_theta <= end + step)


def _draw(axes: Any, fit: Fit, shown: Any) -> None:
    x, observed, calculated = fit.two_theta[shown], fit.observed[shown], fit.calculated[shown]
    top = float(max(observed.max(), calculated.max()))
    left = observed - calculated
    below = -0.1 * top - float(left.max())
    axes.plot(x, observed, ".", ms=2, color="0.45", label="observed")
    axes.plot(x, calculated, lw=0.8, color="C3", label="calculated")
    axes.plot(x, fit.background[shown], lw=0.8, ls="--", color="C2", label="background")
    axes.plot(x, below + left, lw=0.6, color="C0", label="difference")
    inside = (fit.positions >= x[0]) & (fit.positions <= x[-1])
    marks = fit.positions[inside]
    axes.plot(marks, np.full(len(marks), -0.05 * top), "|", color="k", ms=6, mew=0.6, label="reflections")
    axes.set_ylim(below + float(left.min()) - 0.03 * top, 1.12 * top)
    axes.set_xlabel("2θ (°)")
    axes.margins(x=0.01)


def _name(axes: Any, fit: Fit) -> None:
    """The indices of the strongest reflections of the close-up, where they do not run into each other."""
    low, high = axes.get_xlim()
    inside = np.flatnonzero((fit.positions > low) & (fit.positions < high))
    named: list[float] = []
    for i in inside[np.argsort(-fit.intensities[inside])]:
        place = float(fit.positions[i])
        if len(named) == _NAMED or any(abs(place - other) < 0.07 * (high - low) for other in named):
            continue
        named.append(place)
        height = fit.calculated[np.abs(fit.two_theta - place) < 0.02 * (high - low)].max(initial=0.0)
        name_reflection(axes, fit.hkl[i].tolist(), (place, float(height)))
