"""Observed lines of a pattern above the calculated lines of a cell."""

from typing import TYPE_CHECKING

import numpy as np

from vitreous.insight.style import figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from vitreous.powder.solution import Solution


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
