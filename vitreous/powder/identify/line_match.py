"""Which entries' strongest lines are among the lines of a pattern: a fast likelihood ratio for every entry.

A line of an entry that is present lies near an observed line; a line of one that is absent does so by chance, the more
often the more lines are observed. Lines of other phases count neither for nor against an entry, nor do lines outside
the measured range. As nobody knows how much of an entry there is, it may be strong or weak: its strongest line then has
any of a few heights, and only observed lines that are high enough count.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vitreous.powder.peaks import Peaks

Scores = NDArray[np.float32]
_STEP = 0.02  # degrees, of the tables
_NO_ANGLE = -1.0  # degrees: no such line


@dataclass(frozen=True)
class MatchTuning:
    """Constants of the match by lines; tuned on simulated mixtures of minerals."""

    levels: tuple[float, ...] = (0.7, 0.3, 0.12, 0.05, 0.02, 0.01)
    """Heights that the strongest line of an entry may have, relative to the highest of the pattern."""
    share: tuple[float, ...] = (0.5, 0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.06)
    """Least height of the lines of an entry, strongest first, relative to its level: texture may weaken them."""
    seen: tuple[float, ...] = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6)
    """Probabilities that the lines of an entry are observed."""
    strains: tuple[float, ...] = (-0.009, -0.006, -0.003, 0.0, 0.003, 0.006, 0.009)
    """Changes of the lengths of a cell that are tried."""
    zeros: tuple[float, ...] = (-0.08, 0.0, 0.08)
    """Shifts of the lines that are tried, degrees."""
    strain_error: float = 0.006
    """Usual change of lengths."""
    zero_error: float = 0.06
    """Usual shift, degrees."""
    position_error: float = 0.05
    """Of a line after both corrections, degrees,"""
    shape_error: float = 0.0016
    """and relative to 1/d, because a cell does not change equally along all axes."""
    density_width: float = 6.0
    """Degrees over which observed lines are counted for their density."""


MATCH_TUNING = MatchTuning()


def match_lines(
    strongest: NDArray[np.float32], peaks: Peaks, measured: tuple[float, float], wavelength: float,
    tuning: MatchTuning = MATCH_TUNING,
) -> Scores:  # fmt: skip
    """Logarithms of likelihood ratios `(n,)` of presence and absence of entries, 0 for one without lines in the range.

    Args:
        strongest: `(n, 8)`, 1/d of the strongest lines of each entry in 1/Å, strongest first; 0 for none.
        peaks: the lines of the pattern.
        measured: first and last angle of the pattern, degrees.
        wavelength: ångström.
    """
    best = np.zeros(len(strongest), np.float32)
    if not len(peaks.two_theta) or not len(strongest):
        return best
    margin = math.ceil(max(map(abs, tuning.zeros)) / _STEP) + 1  # cells of value 0 on both sides
    tables = np.pad(_tables(peaks, measured, tuning), ((0, 0), (0, 0), (margin, margin)))
    ranks = range(min(strongest.shape[1], len(tuning.share)))
    s = np.ascontiguousarray(strongest.T[: len(ranks)])  # (8, n)
    best[:] = -np.inf
    score, value = np.empty_like(best), np.empty_like(best)
    for strain in tuning.strains:
        cell = _cells(s * np.float32(1 - strain), measured, wavelength, tables.shape[-1] - 2 * margin)  # (8, n)
        for zero in tuning.zeros:
            unlikely = 0.5 * ((strain / tuning.strain_error) ** 2 + (zero / tuning.zero_error) ** 2)
            shifted = tables[..., margin + round(zero / _STEP) :]
            for level in shifted:
                score.fill(-unlikely)
                for rank in ranks:
                    np.take(level[rank], cell[rank], out=value, mode="clip")
                    score += value
                np.maximum(best, score, out=best)
    best[(_cells(s, measured, wavelength, tables.shape[-1] - 2 * margin) == 0).all(0)] = 0.0
    return best


def _cells(s: NDArray[np.float32], measured: tuple[float, float], wavelength: float, cells: int) -> NDArray[np.intp]:
    """Places in a table of lines at 1/d (1/Å); 0 for those outside the measured range."""
    sine = s * np.float32(wavelength / 2)
    angle = np.where((sine > 0) & (sine < 1), 2 * np.degrees(np.arcsin(np.minimum(sine, 1))), _NO_ANGLE)
    place = np.rint((angle - measured[0]) / _STEP).astype(np.intp) + 1
    return np.where((place >= 1) & (place < cells - 1), place, 0)


def _tables(peaks: Peaks, measured: tuple[float, float], tuning: MatchTuning) -> NDArray[np.float32]:
    """What a line of each rank at each angle says for an entry of each level: `(levels, ranks, cells)`.

    The first and the last cell, outside the measured range, are 0.
    """
    angle = np.arange(measured[0], measured[1] + _STEP / 2, _STEP)  # (cells - 2,)
    order = np.argsort(-peaks.intensity)
    position, height = peaks.two_theta[order, None], peaks.intensity[order]  # strongest first
    spread = np.hypot(tuning.position_error, tuning.shape_error * 2 * np.degrees(np.tan(np.radians(angle / 2))))
    near = np.exp(-0.5 * ((angle - position) / spread) ** 2) / (spread * math.sqrt(2 * math.pi))  # (lines, cells - 2)
    near = np.maximum.accumulate(near, axis=0)
    wide = np.exp(-0.5 * ((angle - position) / tuning.density_width) ** 2)
    anywhere = np.arange(1, len(height) + 1)[:, None] / (measured[1] - measured[0])
    local = np.cumsum(wide, axis=0) / (tuning.density_width * math.sqrt(2 * math.pi))
    density = (anywhere + local) / 2  # lines per degree by chance
    result = np.zeros((len(tuning.levels), len(tuning.share), len(angle) + 2), np.float32)
    for i, level in enumerate(tuning.levels):
        for rank, (share, seen) in enumerate(zip(tuning.share, tuning.seen, strict=True)):
            last = int((height >= level * share).sum()) - 1
            ratio = near[last] / density[last] if last >= 0 else 0.0
            result[i, rank, 1:-1] = np.log(1 - seen + seen * ratio)
    return result
