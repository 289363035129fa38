"""Powder patterns: one with the reflections below it, or several above each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitreous.errors import InputError, check_choice
from vitreous.insight.style import check_format, figure, save
from vitreous.powder.files import Pattern, require_wavelength

_LABELS = 8  # reflections that are named
_APART = 0.025  # of the axis: labels nearer than this would overlap
_HIGHEST = 60.0  # inches


class Ticks(NamedTuple):
    """Reflections: 2θ in degrees, indices, and how strong they are."""

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
    """Draw one pattern, or several above each other, each scaled to its highest point, to a file.

    Args:
        patterns: what to draw.
        path: a .png, .pdf or .svg file.
        ticks: reflections to mark below; the strongest few are named. Not where there are several patterns.
        title: above the figure.
        axis: `two-theta`, or `q` = 4π sin θ / λ, which is comparable where the wavelengths differ.
        ylabel: what the intensity of a single pattern is.
    """
    check_format(path)
    check_choice("axis", axis, ("two-theta", "q"))
    several = [patterns] if isinstance(patterns, Pattern) else list(patterns)
    if ticks is not None and len(several) > 1:
        raise InputError(f"ticks: found {len(several)} patterns, expected one")
    with figure(9, min(_HIGHEST, 4 if len(several) == 1 else 1.5 + 0.9 * len(several))) as drawing:
        axes = drawing.subplots()
        axes.set_xlabel(_label(several, axis))
        axes.set_title(title, loc="left", fontsize=9)
        if len(several) == 1:
            _single(axes, several[0], axis, ylabel)
        else:
            _stack(axes, several, axis)
        axes.margins(x=0)
        if ticks is not None:
            _mark(axes, several[0], ticks, axis)
    save(drawing, path)


def _label(patterns: Sequence[Pattern], axis: str) -> str:
    if axis == "q":
        return "scattering vector q (1/Å)"
    found = {pattern.wavelength for pattern in patterns}
    (same,) = found if len(found) == 1 else (None,)
    return "2θ (°)" if same is None else f"2θ (°), λ = {same:.7g} Å"


def _places(two_theta: NDArray[np.float64], pattern: Pattern, axis: str) -> NDArray[np.float64]:
    if axis == "two-theta":
        return two_theta
    return np.asarray(4 * np.pi / require_wavelength(pattern) * np.sin(np.radians(two_theta / 2)))


def _single(axes: Any, pattern: Pattern, axis: str, ylabel: str) -> None:
    axes.plot(_places(pattern.two_theta, pattern, axis), pattern.intensity, lw=0.7, color="C0")
    axes.set_ylabel(ylabel)


def _stack(axes: Any, patterns: Sequence[Pattern], axis: str) -> None:
    """The first at the top, as they were listed."""
    for place, pattern in enumerate(reversed(patterns)):
        height = pattern.intensity / np.abs(pattern.intensity).max()
        x = _places(pattern.two_theta, pattern, axis)
        axes.plot(x, 1.1 * place + height, lw=0.7, color=f"C{(len(patterns) - 1 - place) % 10}")
        axes.annotate(pattern.name, (1, 1.1 * place + 0.5), xycoords=("axes fraction", "data"), ha="right", fontsize=7)
    axes.set_ylim(-0.1, 1.1 * len(patterns))
    axes.set_yticks([])
    axes.set_ylabel("intensity, each relative to its highest")


def _mark(axes: Any, pattern: Pattern, ticks: Ticks, axis: str) -> None:
    """A row of marks below the pattern, and the indices of the strongest above their lines."""
    x = _places(ticks.two_theta, pattern, axis)
    grid = _places(pattern.two_theta, pattern, axis)
    top = float(pattern.intensity.max())
    axes.plot(x, np.full(len(x), -0.05 * top), "|", color="C3", ms=7, mew=0.7)
    axes.set_ylim(-0.1 * top, 1.15 * top)
    near, named = _APART * (grid[-1] - grid[0]), list[float]()
    for i in np.argsort(-ticks.strength):
        if len(named) == _LABELS or any(abs(x[i] - other) < near for other in named):
            continue
        named.append(float(x[i]))
        height = pattern.intensity[np.abs(grid - x[i]) < near / 2].max(initial=0.0)
        name_reflection(axes, ticks.hkl[i], (float(x[i]), float(height)))


def name_reflection(axes: Any, hkl: Sequence[int], place: tuple[float, float]) -> None:
    """Write a reflection's indices above a place."""
    style: Any = {"textcoords": "offset points", "ha": "center", "fontsize": 7, "parse_math": True}
    axes.annotate(indices(hkl), place, (0, 3), **style)


def indices(hkl: Sequence[int]) -> str:
    """Miller indices as they are printed, with bars for signs and spaces where one has two digits."""
    words = [rf"\overline{{{-index}}}" if index < 0 else str(index) for index in hkl]
    return "$" + (r"\," if max(map(abs, hkl)) > 9 else "").join(words) + "$"
