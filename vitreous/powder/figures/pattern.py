"""Figures of powder patterns: one with its reflections, or several above each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError, check_choice
from vitreous.insight.style import check_format, figure, save
from vitreous.powder.bragg import q_from_two_theta
from vitreous.powder.figures.reflections import label_strongest
from vitreous.powder.pattern import Pattern, require_wavelength

_LABELS = 8  # reflections with indices
_LABEL_DISTANCE = 0.025  # of the axis: nearer labels would overlap
_MAX_HEIGHT = 60.0  # inches


class Ticks(NamedTuple):
    """Reflections: 2θ in degrees, indices and strengths."""

    two_theta: NDArray[np.float64]
    hkl: Sequence[Sequence[int]]
    strength: NDArray[np.float64]


def pattern_figure(
    patterns: Pattern | Sequence[Pattern],
    path: Path,
    ticks: Ticks | None = None,
    title: str = "",
    axis: str = "two-theta",
    ylabel: str = "intensity",
) -> None:
    """Draw one pattern, or several above each other, each scaled to its maximum, to a file.

    Args:
        patterns: the patterns.
        path: a .png, .pdf or .svg file.
        ticks: reflections to mark below a single pattern; the strongest are labelled.
        title: above the figure.
        axis: `two-theta`, or `q` = 4π sin θ / λ to compare patterns of different wavelengths.
        ylabel: label of the intensity axis of a single pattern.
    """
    check_format(path)
    check_choice("axis", axis, ("two-theta", "q"))
    several = [patterns] if isinstance(patterns, Pattern) else list(patterns)
    if ticks is not None and len(several) > 1:
        raise InputError(f"ticks: found {len(several)} patterns, expected one")
    with figure(9, min(_MAX_HEIGHT, 4 if len(several) == 1 else 1.5 + 0.9 * len(several))) as drawing:
        axes = drawing.subplots()
        axes.set_xlabel(_axis_label(several, axis))
        axes.set_title(title, loc="left", fontsize=9)
        if len(several) == 1:
            _draw_one(axes, several[0], axis, ylabel)
        else:
            _draw_stack(axes, several, axis)
        axes.margins(x=0)
        if ticks is not None:
            _mark(axes, several[0], ticks, axis)
    save(drawing, path)


def _axis_label(patterns: Sequence[Pattern], axis: str) -> str:
    if axis == "q":
        return "scattering vector q (1/Å)"
    wavelengths = {pattern.wavelength for pattern in patterns}
    (same,) = wavelengths if len(wavelengths) == 1 else (None,)
    return "2θ (°)" if same is None else f"2θ (°), λ = {same:.7g} Å"


def _positions(two_theta: NDArray[np.float64], pattern: Pattern, axis: str) -> NDArray[np.float64]:
    if axis == "two-theta":
        return two_theta
    return q_from_two_theta(two_theta, require_wavelength(pattern))


def _draw_one(axes: Any, pattern: Pattern, axis: str, ylabel: str) -> None:
    axes.plot(_positions(pattern.two_theta, pattern, axis), pattern.intensity, lw=0.7, color="C0")
    axes.set_ylabel(ylabel)


def _draw_stack(axes: Any, patterns: Sequence[Pattern], axis: str) -> None:
    """The first pattern at the top."""
    for place, pattern in enumerate(reversed(patterns)):
        height = pattern.intensity / np.abs(pattern.intensity).max()
        x = _positions(pattern.two_theta, pattern, axis)
        axes.plot(x, 1.1 * place + height, lw=0.7, color=f"C{(len(patterns) - 1 - place) % 10}")
        axes.annotate(pattern.name, (1, 1.1 * place + 0.5), xycoords=("axes fraction", "data"), ha="right", fontsize=7)
    axes.set_ylim(-0.1, 1.1 * len(patterns))
    axes.set_yticks([])
    axes.set_ylabel("intensity, each relative to its maximum")


def _mark(axes: Any, pattern: Pattern, ticks: Ticks, axis: str) -> None:
    """Marks below the pattern, and the indices of the strongest reflections above it."""
    x = _positions(ticks.two_theta, pattern, axis)
    grid = _positions(pattern.two_theta, pattern, axis)
    top = float(pattern.intensity.max())
    axes.plot(x, np.full(len(x), -0.05 * top), "|", color="C3", ms=7, mew=0.7)
    axes.set_ylim(-0.1 * top, 1.15 * top)
    apart = _LABEL_DISTANCE * (grid[-1] - grid[0])
    label_strongest(axes, x, ticks.hkl, ticks.strength, (grid, pattern.intensity), _LABELS, apart, apart / 2)
