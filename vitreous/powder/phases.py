"""Two phases of one pattern: their solutions, the lines that one leaves to the other, and related lattices."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.lattice import derivatives, distinct, same_lattice
from vitreous.powder.pattern import Floats
from vitreous.powder.peaks import Peaks
from vitreous.powder.refinement import reflections
from vitreous.powder.refinement.profile import Mask
from vitreous.powder.solution import Solution
from vitreous.powder.tuning import SEARCH_TUNING, SECOND_PHASE_TUNING, SearchTuning, SecondPhaseTuning
from vitreous.powder.whole_pattern import Describe

_MOST_REFLECTIONS = 5000


class Ranked(NamedTuple):
    """Solutions for a list of lines, best first, and what makes a solution of another lattice for these lines."""

    solutions: Sequence[Solution]
    describe: Describe


class PhaseCell(NamedTuple):
    """One phase: its solutions, and the zero shift in degrees for which its lines were corrected before the search."""

    ranked: Ranked
    zero: float

    @property
    def best(self) -> Solution:
        """The first solution."""
        return self.ranked.solutions[0]


@dataclass(frozen=True)
class Phases:
    """The two phases of a pattern, refined together; the first has more of the intensity."""

    first: Solution
    second: Solution

    def among(self, solutions: Sequence[Solution], tuning: SearchTuning = SEARCH_TUNING) -> list[Solution]:
        """The first phase and the other solutions of the search; their probabilities share what the first leaves."""
        cells = np.array([self.first.cell, self.second.cell, *(each.cell for each in solutions)])
        rivals = [solutions[place - 2] for place in distinct(cells, tuning.same_lattice) if place >= 2]
        total = sum(each.probability for each in rivals)
        factor = min(1.0, (1 - self.first.probability) / max(total, 1e-12))
        return [self.first, *(replace(each, probability=factor * each.probability) for each in rivals)]


def unexplained_peaks(
    corrected: Floats, peaks: Peaks, solution: Solution, tuning: SecondPhaseTuning = SECOND_PHASE_TUNING
) -> Mask:
    """Which peaks `(n,)`, at angles corrected for the zero shift, are farther from a cell's lines than their errors."""
    limits, lattice = (0.1, min(179.0, float(corrected[-1]) + 1)), (solution.crystal_system, solution.centring)
    try:
        _, angle = reflections(solution.conventional, *lattice, solution.wavelength, limits, _MOST_REFLECTIONS)
    except InputError:  # no reflection in the range
        return np.ones(len(corrected), dtype=bool)
    miss = np.abs(corrected[:, None] - angle).min(axis=1)
    return np.asarray(miss > np.hypot(tuning.position_errors * peaks.error, tuning.position_share * peaks.width))


def is_same(one: Solution, other: Solution) -> bool:
    """Whether two solutions have the same lattice."""
    return same_lattice(one.cell, other.cell, SEARCH_TUNING.same_lattice)


def is_related(one: Solution, other: Solution, tuning: SecondPhaseTuning = SECOND_PHASE_TUNING) -> bool:
    """Whether two lattices are the same, or one is a sublattice of the other."""
    cells = np.array([other.cell, *derivatives(np.array(other.cell), tuning.largest_multiple), one.cell])
    return len(cells) - 1 not in distinct(cells, SEARCH_TUNING.same_lattice)
