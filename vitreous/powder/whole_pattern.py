"""The best lattices of a search, refined and compared on the whole pattern.

The lines cannot always tell a lattice from one of its multiples or from a chance solution; the rest of the pattern can.
Another lattice is preferred only if it leaves no line unexplained and removes most of the misfit that noise does not
explain. Pawley fits are compared part by part, and in no part can one lattice gain more than the presence of a foreign
line would explain. Every reflection that is there costs, so a larger cell must explain more.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.bravais import Bravais, bravais
from vitreous.powder.cell import free_indices
from vitreous.powder.lattice import derivatives, distinct, primitive
from vitreous.powder.pattern import Pattern
from vitreous.powder.peaks import Peaks
from vitreous.powder.probability import with_probabilities
from vitreous.powder.refinement.profile import Array
from vitreous.powder.refinement.refine import Refinement, refinement
from vitreous.powder.related_lattices import RelatedLattice, distortions, superlattices
from vitreous.powder.solution import Solution
from vitreous.powder.symmetry import rank_symbols
from vitreous.powder.tuning import COMPARISON_TUNING, SEARCH_TUNING, ComparisonTuning, SearchTuning

Describe = Callable[[Bravais, float], Solution | None]
"""Makes a solution of a lattice and a zero shift in degrees; None if its crystal system is not allowed."""


@dataclass(frozen=True)
class _Candidate:
    """A solution, refined."""

    solution: Solution
    result: Refinement

    def left(self, peaks: Peaks) -> int:
        """The number of peaks in the range of the fit that are at no reflection."""
        positions = self.result.fit.positions
        near = np.abs(peaks.two_theta[:, None] - positions).min(axis=1) < 0.5 * peaks.width
        return int((~near & (peaks.two_theta < self.end)).sum())

    @property
    def misfit(self) -> float:
        """The squared residual of the fit beyond noise, relative."""
        return max(self.result.fit.rwp**2 - self.result.fit.rexp**2, 0.0)

    @property
    def end(self) -> float:
        """The last angle of the fit in degrees."""
        return float(self.result.fit.two_theta[-1])


def refine_best(
    pattern: Pattern, solutions: Sequence[Solution], peaks: Peaks, describe: Describe,
    search: SearchTuning = SEARCH_TUNING, tuning: ComparisonTuning = COMPARISON_TUNING,
) -> list[Solution]:  # fmt: skip
    """The solutions, the best one on the whole pattern first, with its refinement and extinction symbols.

    The best lattice is compared with its superlattices and distortions, for which `describe` makes a solution, and then
    with the next solutions.
    """
    best = _refined(pattern, solutions[0], tuning)
    if best is None:
        return list(solutions)
    for _ in range(tuning.related_rounds):
        before = best
        for related in _related(best, peaks, tuning):
            other = _refined_relative(pattern, before, related, describe, search, tuning)
            if other is not None and other.result.fit.chi2 < tuning.related_chi2:
                best = _better(best, other, peaks, tuning, related.remaining_misfit)
        if best is before:
            break
    rivals = [each for each in solutions[1:] if each.evidence > solutions[0].evidence - tuning.margin]
    for rival in rivals[: tuning.candidates - 1]:
        if not _is_related(rival, best.solution, search, tuning):
            best = _better(best, _refined(pattern, rival, tuning), peaks, tuning)
    symbols = rank_symbols(best.result, best.solution.crystal_system, best.solution.centring)
    first = replace(best.solution, fit=best.result.fit, symbols=tuple(symbols))
    return with_probabilities([first, *(each for each in solutions if each.cell != first.cell)], search)


def _is_related(other: Solution, best: Solution, search: SearchTuning, tuning: ComparisonTuning) -> bool:
    """Whether another lattice is a sublattice of the best one, which explains less, or one of its superlattices."""
    related = derivatives(np.array(best.cell), tuning.largest_multiple)
    return len(related) not in distinct(np.concatenate([related, [other.cell]]), search.same_lattice)


def _related(best: _Candidate, peaks: Peaks, tuning: ComparisonTuning) -> list[RelatedLattice]:
    """Superlattices and distortions that may explain what the best lattice leaves, if it leaves anything."""
    if best.result.fit.chi2 < 1 + tuning.least_misfit:
        return []
    solution = best.solution
    distorted = distortions(best.result, solution.crystal_system, solution.centring, peaks, tuning)
    return distorted + superlattices(best.result, solution.centring, tuning)


def _refined_relative(
    pattern: Pattern, parent: _Candidate, related: RelatedLattice, describe: Describe, search: SearchTuning,
    tuning: ComparisonTuning,
) -> _Candidate | None:  # fmt: skip
    """The refinement of a lattice that is related to a refined one.

    None where it is not possible, or where the lattice has so many reflections that it explains every line by chance.
    """
    solution = describe(related.lattice, parent.solution.zero)
    if solution is None or solution.possible > search.lines_per_observed[1] * solution.lines:
        return None
    candidate = _refined(pattern, solution, tuning)
    if candidate is None:
        return None
    cell, lattice = np.array(candidate.result.fit.cell), related.lattice
    higher = bravais(primitive(cell[None], lattice.centring)[0], search.exact_strain)
    if (higher.system, higher.centring) != (lattice.system, lattice.centring):
        solution = describe(higher, candidate.result.fit.zero)
        other = None if solution is None else _refined(pattern, solution, tuning)
        if other is not None and other.misfit < candidate.misfit / tuning.remaining_misfit:
            candidate, cell, lattice = other, np.array(other.result.fit.cell), higher
    solution = describe(replace(lattice, conventional=cell), candidate.result.fit.zero)
    assert solution is not None
    before = parent.solution
    parameters = len(free_indices(solution.system)) - len(free_indices(before.system))
    price = related.cost + search.parameter_cost * max(0, parameters)
    evidence = before.evidence - price + solution.log_prior - before.log_prior
    return replace(candidate, solution=replace(solution, evidence=evidence))


def _better(
    best: _Candidate, other: _Candidate | None, peaks: Peaks, tuning: ComparisonTuning, remaining: float | None = None
) -> _Candidate:
    """The other candidate, with the evidence of the whole pattern, if it is clearly better, else the first.

    `remaining` is the share of the misfit of the first that the other may have, by default `tuning.remaining_misfit`.
    """
    if other is None or not _may_replace(best, other, peaks, tuning, remaining or tuning.remaining_misfit):
        return best
    gain = _gain(best, other, peaks, tuning) + other.solution.evidence - best.solution.evidence
    if gain <= tuning.switch:
        return best
    return replace(other, solution=replace(other.solution, evidence=best.solution.evidence + gain))


def _refined(pattern: Pattern, solution: Solution, tuning: ComparisonTuning) -> _Candidate | None:
    """The refinement of a solution; None where it is not possible."""
    try:
        result = refinement(
            pattern.two_theta, pattern.intensity, solution.conventional, wavelength=solution.wavelength,
            wavelength2=pattern.wavelength2, ratio=pattern.ratio, sigma=pattern.sigma, zero=solution.zero,
            system=solution.crystal_system, centring=solution.centring, most=tuning.reflections,
        )  # fmt: skip
    except InputError:
        return None
    return _Candidate(solution, result)


def _may_replace(best: _Candidate, other: _Candidate, peaks: Peaks, tuning: ComparisonTuning, remaining: float) -> bool:
    """Whether another lattice explains what the best one does not: most of the misfit, and every line.

    Where lines of another phase are left, a larger cell always explains some of them by chance.
    """
    explains = best.result.fit.chi2 > 1 + tuning.least_misfit and other.misfit < remaining * best.misfit
    return explains and other.left(peaks) <= tuning.left_lines


def _gain(best: _Candidate, other: _Candidate, peaks: Peaks, tuning: ComparisonTuning) -> float:
    """By how much the log-likelihood of the pattern is higher under the other lattice."""
    end = min(best.end, other.end)
    x = best.result.fit.two_theta
    points = int((x <= end).sum())
    width = float(np.median(best.result.state.lines.width))
    left = max(best.left(peaks), other.left(peaks))
    most = -math.log(min(0.5, tuning.least_foreign + left * width / (end - x[0])))
    costs = [_costs(each.result, best.result, points, tuning) for each in (best, other)]
    scale = max(1.0, min(float(cost.sum()) for cost in costs) / points)
    segment = ((x[:points] - x[0]) / (tuning.segment * width)).astype(int)
    gains = np.bincount(segment, costs[0] - costs[1]) / (2 * scale)
    price = [_price_of_reflections(each.result, end, tuning) for each in (best, other)]
    return float(np.clip(gains, -most, most).sum()) - (price[1] - price[0])


def _price_of_reflections(result: Refinement, end: float, tuning: ComparisonTuning) -> float:
    """The log-likelihood cost of the reflections up to an angle, of those that are seen and of those that are not."""
    state, count = result.state, result.problem.count
    significance = state.linear[:count] * np.sqrt(np.diag(state.gram)[:count])
    inside = state.positions <= end
    seen = int((inside & (significance > tuning.seen)).sum())
    return tuning.reflection_cost * seen + tuning.absence_cost * (int(inside.sum()) - seen)


def _costs(result: Refinement, reference: Refinement, points: int, tuning: ComparisonTuning) -> Array:
    """χ² of the first points, with the standard errors of one fit for all."""
    state, data = reference.state, reference.problem.data
    variance = data.variance + (tuning.misfit * (state.calculated - state.background)) ** 2
    residual = data.y[:points] - result.state.calculated[:points]
    return np.asarray(residual**2 / variance[:points])
