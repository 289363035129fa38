"""Two phases in one pattern: the lines that one cell leaves unexplained are indexed, and both cells are refined.

Both phases share the instrument and the sample holder. So the lines of the second one are corrected for the zero shift
that the first has, and no other one is searched. (A refinement of the first phase alone knows the shift less well: its
whole pattern holds the second one, too.) Lines of one phase that coincide with those of the other are missing among its
lines, which the evidence of a cell allows for (`ErrorModel.detection`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vitreous.powder.line_list import LineList, check_lines
from vitreous.powder.pattern import Pattern, require_wavelength
from vitreous.powder.peaks import Peaks, find_peaks
from vitreous.powder.phase_refinement import refine_pair
from vitreous.powder.phases import PhaseCell, Phases, Ranked, is_related, is_same, unexplained_peaks
from vitreous.powder.solution import Solution
from vitreous.powder.tuning import SEARCH_TUNING, SECOND_PHASE_TUNING, SecondPhaseTuning

Search = Callable[[LineList], Ranked]
"""Indexes lines whose zero shift is known to be small."""


def leaves_much(solution: Solution, tuning: SecondPhaseTuning = SECOND_PHASE_TUNING) -> bool:
    """Whether the lines that a solution leaves unexplained have enough of the intensity for another phase.

    They may be few: those of a large cell hide many lines of a small one, and others lie at higher angles.
    """
    return sum(line.share or 0.0 for line in solution.unexplained_lines) >= tuning.least_share


def find_phases(
    pattern: Pattern, ranked: Ranked, search: Search, ratio: float | None = None,
    tuning: SecondPhaseTuning = SECOND_PHASE_TUNING,
) -> Phases | None:  # fmt: skip
    """Two phases that explain a pattern together, if they are likely and clearly better than one.

    `ranked` are the solutions of the whole pattern; `search` indexes lists of lines. `ratio` is the intensity of Kα2
    relative to Kα1, for the peak search; None estimates it.
    """
    if not ranked.solutions or not leaves_much(ranked.solutions[0], tuning):
        return None
    wavelength = require_wavelength(pattern)
    peaks = find_peaks(
        pattern.two_theta, pattern.intensity, pattern.sigma, wavelength, pattern.wavelength2, ratio, tuning.lines
    )
    pairs = _PairSearch(peaks, wavelength, search, tuning, tuning.searches)
    for first in _first_cells(ranked.solutions, tuning):
        others = [each for each in ranked.solutions if each is not first]
        pair = pairs.pair_with(PhaseCell(Ranked([first, *others], ranked.describe), 0.0))
        if pair is not None and (phases := refine_pair(pattern, peaks, pair, ranked.solutions[0], tuning)):
            return phases
    return None


def _first_cells(solutions: Sequence[Solution], tuning: SecondPhaseTuning) -> Iterator[Solution]:
    """Solutions that may be one of the phases: the best one, and others if it is not likely."""
    yield solutions[0]
    if solutions[0].probability >= tuning.certain:
        return
    tried = [solutions[0]]
    for solution in solutions[1:]:
        if len(tried) < tuning.first_cells and not any(is_related(solution, each, tuning) for each in tried):
            tried.append(solution)
            yield solution


@dataclass
class _PairSearch:
    """Searches a second cell for a first one, among the peaks of a pattern, with a limited number of searches."""

    peaks: Peaks
    wavelength: float  # ångström
    search: Search
    tuning: SecondPhaseTuning
    searches: int

    def pair_with(self, first: PhaseCell) -> tuple[PhaseCell, PhaseCell] | None:
        """The first cell with a second one, if each is likely among the lines that the other leaves.

        A first cell that is not certain is searched again among the lines that the second one leaves. If that gives
        another cell, such as a phase where the first had explained lines of both, it takes the place of the first.
        """
        tuning = self.tuning
        second: PhaseCell | None = None
        while True:
            explained = self._explaining_most(first)
            zero = first.zero + explained.zero
            before, second = second, self._search_left(zero, explained, zero)
            if second is None:
                return None
            likely = min(first.best.probability, second.best.probability) >= tuning.probability
            settled = before is not None and is_same(before.best, second.best)
            if likely and (settled or first.best.probability >= tuning.certain):
                return first, second
            again = self._search_left(zero, second.best, zero + second.best.zero)
            if again is None or again.best.probability < tuning.probability:
                return None
            if is_same(again.best, first.best):
                return (again, second) if second.best.probability >= tuning.probability else None
            first = again

    def _explaining_most(self, cell: PhaseCell) -> Solution:
        """The best solution of a phase with cell and zero shift by its lines, or by its refinement if that is better.

        A refinement of one phase alone may follow strong lines of the other, so it must explain clearly more.
        """
        solution = cell.best
        if solution.fit is None:
            return solution
        shift = float(np.mean(solution.fit.shifts_at(self.peaks.two_theta)))
        refined = replace(solution, conventional=solution.fit.cell, zero=shift)

        def left(each: Solution) -> float:
            corrected = self.peaks.two_theta - cell.zero - each.zero
            return float(self.peaks.intensity[unexplained_peaks(corrected, self.peaks, each, self.tuning)].sum())

        return refined if left(refined) < self.tuning.refined_left * left(solution) else solution

    def _search_left(self, zero: float, solution: Solution, own_zero: float) -> PhaseCell | None:
        """The solutions for the peaks that a cell with a zero shift of its own leaves; None if there is no phase.

        These peaks are corrected for `zero`, in degrees.
        """
        peaks, tuning = self.peaks, self.tuning
        corrected = peaks.two_theta - zero
        left = unexplained_peaks(peaks.two_theta - own_zero, peaks, solution, tuning)
        share = float(peaks.intensity[left].sum() / peaks.intensity.sum())
        if left.sum() < tuning.fewest_lines or share < tuning.least_share or self.searches < 1:
            return None
        lines = check_lines(corrected[left], peaks.intensity[left], peaks.error[left], self.wavelength, SEARCH_TUNING)
        if len(lines.two_theta) < tuning.fewest_lines:
            return None
        self.searches -= 1
        ranked = self.search(lines)
        if not ranked.solutions or ranked.solutions[0].indexed < tuning.fewest_phase_lines:
            return None
        return None if is_related(ranked.solutions[0], solution, tuning) else PhaseCell(ranked, zero)
