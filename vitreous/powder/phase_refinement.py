"""The refinement of two phases together, each compared with its rivals on the whole pattern."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.pattern import Pattern, require_wavelength
from vitreous.powder.peaks import Peaks
from vitreous.powder.phases import PhaseCell, Phases, Ranked, is_related, unexplained_peaks
from vitreous.powder.probability import with_probabilities
from vitreous.powder.refinement import Fit
from vitreous.powder.refinement.lattices import Lattice
from vitreous.powder.refinement.refine import PhaseRefinement, refine_phases
from vitreous.powder.solution import Solution
from vitreous.powder.tuning import COMPARISON_TUNING, SEARCH_TUNING, SECOND_PHASE_TUNING, SecondPhaseTuning
from vitreous.powder.whole_pattern import refine_best


def refine_pair(
    pattern: Pattern, peaks: Peaks, pair: tuple[PhaseCell, PhaseCell], best: Solution,
    tuning: SecondPhaseTuning = SECOND_PHASE_TUNING,
) -> Phases | None:  # fmt: skip
    """Both phases with their refinement, the major one first; None unless they are clearly better than each alone.

    The second cell's lines were corrected for the zero shift that the first cell has. `best` is the best solution for
    all lines as a single phase.
    """
    zero, cells = pair[1].zero, list(pair)
    result = _refined(pattern, [cell.best for cell in cells], zero, tuning)
    if result is None:
        return None
    for number in (1, 0):
        cells[number], result = _with_better_rival(pattern, cells, number, result, zero, tuning)
    phases = [_compared(pattern, peaks, cells, result, number, zero, tuning) for number in (0, 1)]
    result = _refined(pattern, phases, zero, tuning)
    if result is None or min(fit.share for fit in result.fits) < tuning.least_area:
        return None
    if min(phase.probability for phase in phases) < tuning.probability or is_related(phases[0], phases[1], tuning):
        return None
    last = float(result.fits[0].two_theta[-1])
    alone = [_refined(pattern, [phase], zero, tuning, last) for phase in (*phases, best)]
    if misfit(result) > tuning.remaining_misfit * min(map(misfit, alone)):
        return None
    both = [_on_all_lines(phase, best, fit) for phase, fit in zip(phases, result.fits, strict=True)]
    return Phases(*both) if result.fits[0].share >= result.fits[1].share else Phases(*reversed(both))


def misfit(result: PhaseRefinement | None) -> float:
    """The squared residual of a refinement beyond noise, relative; infinite if there is none."""
    return np.inf if result is None else max(result.fits[0].rwp ** 2 - result.fits[0].rexp ** 2, 0.0)


def _refined(
    pattern: Pattern, phases: Sequence[Solution], zero: float, tuning: SecondPhaseTuning, last: float = 180.0
) -> PhaseRefinement | None:
    """The refinement of one phase or two up to an angle in degrees; None where it is not possible."""
    lattices = [Lattice(phase.conventional, phase.crystal_system, phase.centring) for phase in phases]
    try:
        return refine_phases(
            pattern.two_theta, pattern.intensity, lattices, wavelength=require_wavelength(pattern),
            wavelength2=pattern.wavelength2, ratio=pattern.ratio, sigma=pattern.sigma, zero=zero, limit=(0.0, last),
            most=tuning.reflections,
        )  # fmt: skip
    except InputError:
        return None


def _with_better_rival(
    pattern: Pattern, cells: Sequence[PhaseCell], number: int, result: PhaseRefinement, zero: float,
    tuning: SecondPhaseTuning,
) -> tuple[PhaseCell, PhaseRefinement]:  # fmt: skip
    """A phase led by the rival with which both phases leave much less misfit, if there is one, and their refinement.

    `result` is the refinement of the cells as they are. Without the lines that the other phase hides, lists of lines
    often cannot tell a lattice from its relatives.
    """
    cell, other = cells[number], cells[1 - number].best
    both, chosen = [each.best for each in cells], cell.best
    if result.fits[0].chi2 < tuning.good_chi2:
        return cell, result
    rivals = [
        each for each in cell.ranked.solutions[1:] if each.evidence > cell.best.evidence - COMPARISON_TUNING.margin
    ]
    for rival in rivals[: tuning.rivals]:
        dense = rival.possible > SEARCH_TUNING.lines_per_observed[1] * rival.lines
        if dense or is_related(rival, other, tuning):
            continue
        both[number] = rival
        trial = _refined(pattern, both, zero, tuning)
        if trial is not None and misfit(trial) < tuning.remaining_misfit * misfit(result):
            result, chosen = trial, rival
    if chosen is cell.best:
        return cell, result
    others = [each for each in cell.ranked.solutions if each is not chosen]
    raised = replace(chosen, evidence=cell.best.evidence + tuning.rival_gain)
    return cell._replace(ranked=Ranked(with_probabilities([raised, *others]), cell.ranked.describe)), result


def _compared(
    pattern: Pattern, peaks: Peaks, cells: Sequence[PhaseCell], result: PhaseRefinement, number: int, zero: float,
    tuning: SecondPhaseTuning,
) -> Solution:  # fmt: skip
    """The best solution of a phase by the whole pattern without the lines of the other, with extinction symbols."""
    cell, other, problem = cells[number], cells[1 - number].best, result.problem
    own = unexplained_peaks(peaks.two_theta - zero, peaks, other, tuning)
    if not own.any():
        return cell.best
    areas = np.where(result.phase == number, 0.0, result.state.linear[: problem.count])
    others = problem.sum_of_lines(result.state.lines, areas)
    data = problem.data
    clean = replace(
        pattern, two_theta=data.x - cell.zero, intensity=data.y - others, sigma=np.sqrt(data.variance)
    )  # fmt: skip
    columns = (peaks.two_theta - cell.zero, peaks.error, peaks.intensity, peaks.width, peaks.significance)
    solutions = [replace(each, fit=None) for each in cell.ranked.solutions]
    return refine_best(clean, solutions, Peaks(*(values[own] for values in columns)), cell.ranked.describe)[0]


def _on_all_lines(phase: Solution, whole: Solution, fit: Fit) -> Solution:
    """A phase with the refinement of both, and with all lines of the pattern as they were observed."""
    lines = {name: getattr(whole, name) for name in ("two_theta", "intensity", "tolerance")}
    return replace(phase, zero=float(np.mean(fit.shifts_at(np.array(whole.two_theta)))), fit=fit, **lines)
