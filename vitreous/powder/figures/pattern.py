"""Figures of powder patterns: one with its reflections, or several above each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vitreous.core.errors import InputError, check_choice
from vitreous.insight.style import check_format, figure, save
from vitreous.powder.bragg import q_from_two_theta
from vitreous.powder.pattern import Floats, Pattern, require_wavelength

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABELS = 8  # reflections with indices
_LABEL_DISTANCE = 0.025  # of the axis: nearer labels would overlap
_MAX_HEIGHT = 60.0  # inches


class Ticks(NamedTuple):
    """Reflections: 2θ in degrees, indices and strengths."""

    two_theta: Floats
    hkl: Sequence[Sequence[int]]
    strength: Floats


def pattern_figure(
    patterns: Pattern | Sequence[Pattern],
    path: Path,
    ticks: Ticks | None = None,
    title: str = "",
    axis: str = "two-theta",
    ylabel: str = "intensity",
) -> None:
    """Draw one pattern, or several above each other, to a .png, .pdf or .svg file; see `draw_patterns`."""
    check_format(path)
    save(draw_patterns(patterns, ticks, title, axis, ylabel), path)


def draw_patterns(
    patterns: Pattern | Sequence[Pattern], ticks: Ticks | None = None, title: str = "", axis: str = "two-theta",
    ylabel: str = "intensity",
) -> "Figure":  # fmt: skip
    """A figure of one pattern, or of several above each other, each scaled to its maximum.

    Args:
        ticks: reflections to mark below a single pattern; the strongest are labelled.
        axis: `two-theta`, or `q` = 4π sin θ / λ to compare patterns of different wavelengths.
        ylabel: label of the intensity axis of a single pattern.
    """
    check_choice("axis", axis, ("two-theta", "q"))
    several = [patterns] if isinstance(patterns, Pattern) else list(patterns)
    if ticks is not None and len(several) > 1:
        raise InputError(f"ticks: found {len(several)} patterns, expected one")
    with figure(9, min(_MAX_HEIGHT, 4 if len(several) == 1 else 1.5 + 0.9 * len(several))) as drawing:
        axes = drawing.subplots()
        axes.set_xlabel(_axis_label(several, axis))
        axes.set_title(title, loc="left", fontsize=9)
        if len(several) == 1:
            x = _positions(several[0].two_theta, several[0], axis)
            axes.plot(x, several[0].intensity, lw=0.7, color="C0")
            axes.set_ylabel(ylabel)
        else:
            _draw_stack(axes, several, axis)
        axes.margins(x=0)
        if ticks is not None:
            _mark(axes, several[0], ticks, axis)
    return drawing


def _axis_label(patterns: Sequence[Pattern], axis: str) -> str:
    if axis == "q":
        return "scattering vector q (1/Å)"
    wavelengths = {pattern.wavelength for pattern in patterns}
    (same,) = wavelengths if len(wavelengths) == 1 else (None,)
    return "2θ (°)" if same is None else f"2θ (°), λ = {same:.7g} Å"


def _positions(two_theta: Floats, pattern: Pattern, axis: str) -> Floats:
    return two_theta if axis == "two-theta" else q_from_two_theta(two_theta, require_wavelength(pattern))


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
    x, grid = (_positions(angles, pattern, axis) for angles in (ticks.two_theta, pattern.two_theta))
    top = float(pattern.intensity.max())
    axes.plot(x, np.full(len(x), -0.05 * top), "|", color="C3", ms=7, mew=0.7)
    axes.set_ylim(-0.1 * top, 1.15 * top)
    apart = _LABEL_DISTANCE * (grid[-1] - grid[0])
    label_strongest(axes, Ticks(x, ticks.hkl, ticks.strength), (grid, pattern.intensity), _LABELS, apart, apart / 2)


def label_strongest(
    axes: Any, ticks: Ticks, curve: tuple[Floats, Floats], most: int, apart: float, reach: float
) -> None:
    """Write the indices of the strongest reflections above a curve, at least `apart` from each other.

    A label stands above the highest point of the curve within `reach`. Positions of the reflections and the curve, and
    both distances, are in the units of the horizontal axis.
    """
    x, y = curve
    labelled: list[float] = []
    for i in np.argsort(-ticks.strength):
        place = float(ticks.two_theta[i])
        if len(labelled) == most:
            break
        if any(abs(place - other) < apart for other in labelled):
            continue
        labelled.append(place)
        height = float(y[np.abs(x - place) < reach].max(initial=0.0))
        style: Any = {"textcoords": "offset points", "ha": "center", "fontsize": 7, "parse_math": True}
        axes.annotate(format_indices(ticks.hkl[i]), (place, height), (0, 3), **style)


def format_indices(hkl: Sequence[int]) -> str:
    """Miller indices as they are printed: bars for minus signs, spaces if one has two digits."""
    words = [rf"\overline{{{-index}}}" if index < 0 else str(index) for index in hkl]
    return "$" + (r"\," if max(map(abs, hkl)) > 9 else "").join(words) + "$"
