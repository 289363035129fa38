"""Hints: what may be wrong with a pattern, its radiation or its cells."""

import numpy as np

from vitreous.powder.bragg import second_wavelength
from vitreous.powder.line_list import LineList
from vitreous.powder.pattern import Floats, Pattern
from vitreous.powder.peaks import find_peaks
from vitreous.powder.radiation import ANODES, NEUTRONS
from vitreous.powder.solution import Solution
from vitreous.powder.tuning import SEARCH_TUNING, SearchTuning

_NEAR = 0.02  # degrees
_KALPHA2_SHARE = (0.3, 0.75)  # intensity of Kα2 relative to Kα1
_FEWEST_DOUBLETS = 5  # doublets that are no accident,
_EXCESS = 3.0  # if they are so many times as frequent as pairs at other distances
_SMALL_ANGLE = 12.0  # degrees: few lists of angles end before, but those of d or Q do
_RESOLVED = 0.12  # degrees: closer doublets are one peak


def pattern_hints(pattern: Pattern, solutions: list[Solution], tuning: SearchTuning = SEARCH_TUNING) -> list[str]:
    """Hints on the cells and the radiation of a pattern, one sentence each.

    The radiation is always checked, because a wrong wavelength gives a wrong cell of any probability.
    """
    hints = [*pattern.notes, *doubts(solutions, tuning)]
    anode = None if pattern.radiation == NEUTRONS else _doublet_anode(pattern)
    if anode is not None:
        stated = f"{pattern.wavelength:g} Å" + (" and its Kα2" if pattern.wavelength2 else " alone")
        pairs = f"lines come in pairs like Kα1 and Kα2 of {anode}"
        hints.append(f"{pairs}, but the wavelength is {stated}: try --anode {anode}")
    return hints


def list_hints(lines: LineList, solutions: list[Solution], tuning: SearchTuning = SEARCH_TUNING) -> list[str]:
    """Hints on the cells of a list of lines, and on a list that may not be of angles, one sentence each."""
    hints = doubts(solutions, tuning)
    highest = float(lines.two_theta.max(initial=0.0))
    if hints and highest < _SMALL_ANGLE:
        hints.append(f"no line lies above {highest:.4g}°: a list of d or Q needs a heading, --axis d or --axis q")
    return hints


def doubts(solutions: list[Solution], tuning: SearchTuning = SEARCH_TUNING) -> list[str]:
    """Why there may be no cell, or no likely cell."""
    if not solutions:
        return ["no cell: too few lines, or none, as of an amorphous sample; 20 lines are needed"]
    best = solutions[0]
    if best.probability >= tuning.doubt:
        return []
    if best.lines < tuning.few_lines:
        return [f"only {best.lines} lines: enough for a cubic cell, but a cell of low symmetry needs 20"]
    return [f"no cell is likely: there may be a second phase, wrong lines, or an axis above {tuning.length[1]:g} Å"]


def _doublet_anode(pattern: Pattern) -> str | None:
    """The anode whose Kα doublets the pattern shows, if it is not the stated one."""
    peaks = find_peaks(pattern.two_theta, pattern.intensity, pattern.sigma, most=200)
    ratios = {name: second / first for name, (first, second) in ANODES.items()}
    stated = pattern.wavelength2 / pattern.wavelength if pattern.wavelength and pattern.wavelength2 else 1.0
    counts = {name: _count_doublets(peaks.two_theta, peaks.intensity, ratio) for name, ratio in ratios.items()}
    best = max(counts, key=lambda name: counts[name])
    others = [1 + (ratios[best] - 1) * factor for factor in np.linspace(0.6, 1.6, 21) if abs(factor - 1) > 0.2]
    chance = [_count_doublets(peaks.two_theta, peaks.intensity, ratio) for ratio in others]
    same = stated > 1 and abs((ratios[best] - 1) / (stated - 1) - 1) < 0.2
    enough = counts[best] >= max(_FEWEST_DOUBLETS, _EXCESS * float(np.mean(chance)))
    return best if enough and not same else None


def _count_doublets(angle: Floats, intensity: Floats, ratio: float) -> int:
    """Lines with a weaker line where their Kα2 would be, counted where it would be resolved."""
    expected = second_wavelength(angle, ratio)
    resolved = expected - angle > _RESOLVED
    near = np.abs(angle[None, :] - expected[:, None]) < _NEAR
    share = intensity[None, :] / np.maximum(intensity[:, None], 1e-12)
    doublets = near & (share > _KALPHA2_SHARE[0]) & (share < _KALPHA2_SHARE[1]) & resolved[:, None]
    return int(doublets.any(1).sum())
