"""What may be wrong with a pattern, its radiation or its cells."""

import numpy as np

from vitreous.powder.decompose import Floats, second_line
from vitreous.powder.files import ANODES, Pattern
from vitreous.powder.peaks import find_peaks
from vitreous.powder.rank import Solution

_DOUBT = 0.5  # probability below which hints are due
_FEW = 12  # lines with which cells of low symmetry are guesswork
_NEAR = 0.02  # degrees
_WEAKER = (0.3, 0.75)  # intensity of Kα2 relative to Kα1
_PAIRS = 5  # doublets that are no accident,
_OFTEN = 3.0  # if they are so many times as frequent as pairs at other distances
_CLEAR = 0.12  # degrees: doublets nearer than this are one peak


def hints(pattern: Pattern, solutions: list[Solution]) -> list[str]:
    """What to look at, a line each; doublets always, for a wrong wavelength gives a wrong cell of any probability."""
    found = doubts(solutions)
    anode = _anode(pattern)
    if anode is not None:
        said = f"{pattern.wavelength:g} Å" + (" and its Kα2" if pattern.wavelength2 else " alone")
        found.append(f"lines come in pairs as Kα1 and Kα2 of {anode} do, but {said} was said: try --anode {anode}")
    return found


def doubts(solutions: list[Solution]) -> list[str]:
    """Why there may be no cell, or none that is likely."""
    if not solutions:
        return ["no cell: there are too few lines, or none, as of an amorphous sample; 20 lines are wanted"]
    best = solutions[0]
    if best.probability >= _DOUBT:
        return []
    if best.lines < _FEW:
        return [f"there are {best.lines} lines only: enough for a cubic cell, but one of low symmetry needs 20"]
    return ["no cell is likely: a second phase, wrong lines, or a cell with axes beyond 45 Å may be why"]


def _anode(pattern: Pattern) -> str | None:
    """The anode whose doublets the lines of a pattern are, where that is not the one that it names."""
    peaks = find_peaks(pattern.two_theta, pattern.intensity, pattern.sigma, most=200)
    stretches = {name: second / first for name, (first, second) in ANODES.items()}
    known = pattern.wavelength2 / pattern.wavelength if pattern.wavelength and pattern.wavelength2 else 1.0
    counts = {name: _pairs(peaks.two_theta, peaks.intensity, stretch) for name, stretch in stretches.items()}
    best = max(counts, key=lambda name: counts[name])
    widths = np.linspace(0.6, 1.6, 21)
    others = [1 + (stretches[best] - 1) * width for width in widths if abs(width - 1) > 0.2]
    chance = [_pairs(peaks.two_theta, peaks.intensity, stretch) for stretch in others]
    alike = abs((stretches[best] - 1) / (known - 1) - 1) < 0.2 if known > 1 else False
    return best if counts[best] >= max(_PAIRS, _OFTEN * float(np.mean(chance))) and not alike else None


def _pairs(angle: Floats, intensity: Floats, stretch: float) -> int:
    """Lines with another, weaker one where their Kα2 would be, of those where it could be seen."""
    expected = second_line(angle, stretch)
    clear = expected - angle > _CLEAR
    near = np.abs(angle[None, :] - expected[:, None]) < _NEAR
    ratio = intensity[None, :] / np.maximum(intensity[:, None], 1e-12)
    pairs = near & (ratio > _WEAKER[0]) & (ratio < _WEAKER[1]) & clear[:, None]
    return int(pairs.any(1).sum())
