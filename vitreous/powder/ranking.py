"""From candidates to solutions: each lattice in its highest symmetry, with figures of merit and a probability."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.powder.bravais import Bravais, bravais, bravais_options
from vitreous.powder.cell import volumes
from vitreous.powder.lattice import derivatives, distinct, niggli, primitive, same_lattice
from vitreous.powder.merit import (
    de_wolff,
    error_scales,
    evidence,
    smith_snyder,
    superlattice_gains,
    unexplained_lines,
)  # fmt: skip
from vitreous.powder.observed_lines import ObservedLines, refine_on_lines
from vitreous.powder.reciprocal import cell_from_reciprocal, metric_from_cell, reflections_in_range
from vitreous.powder.search import Candidate
from vitreous.powder.solution import Solution
from vitreous.powder.tuning import SearchTuning

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ranking:
    """Ranks candidates by the observed lines."""

    lines: ObservedLines
    two_theta: Floats  # angles of the lines in degrees
    error: Floats  # standard errors of the angles in degrees
    wavelength: float  # ångström
    systems: Sequence[str]  # crystal systems that an answer may have
    tuning: SearchTuning

    def rank(self, candidates: Sequence[Candidate], most: int) -> list[Solution]:
        """Distinct lattices, each in its highest symmetry, best first, with probabilities."""
        candidates = sorted(candidates, key=lambda candidate: -candidate.evidence)[: 4 * most]
        if not candidates:
            return []
        cells = np.concatenate(
            [niggli(primitive(cell_from_reciprocal(c.system, c.x[None]).numpy(), c.centring)) for c in candidates]
        )
        places = distinct(cells, self.tuning.same_lattice)[: most + 2]
        solutions = self._solutions(cells[places])
        if not solutions:
            return []
        solutions.sort(key=lambda solution: -solution.evidence)
        solutions += self._related_solutions(solutions)
        solutions.sort(key=lambda solution: -solution.evidence)
        return _with_probabilities(self._with_superlattice(solutions), self.tuning)[:most]

    def _related_solutions(self, solutions: list[Solution]) -> list[Solution]:
        """Smaller lattices of which the best solutions are multiples, and doubles of those with unexplained lines."""
        cells = np.array([solution.cell for solution in solutions])
        for solution in solutions[:3]:
            related = derivatives(np.array(solution.cell), 3)
            ratio = volumes(related) / volumes(np.array([solution.cell]))
            useful = (ratio < 0.9) | ((ratio < 2.5) & (solution.indexed < solution.lines))
            cells = np.concatenate([cells, related[useful]])
        new = [place for place in distinct(cells, self.tuning.same_lattice) if place >= len(solutions)]
        return self._solutions(self._refined_cells(cells[new]))

    def _refined_cells(self, cells: Floats) -> Floats:
        """The best of cells `(n, 6)` after refinement."""
        cells = cells[(cells[:, :3] < self.tuning.longest_related).all(1)]
        if not len(cells):
            return cells
        lines, x = self.lines, metric_from_cell("triclinic", torch.as_tensor(cells))
        basis = reflections_in_range("triclinic", "P", x, lines, self.tuning.highest_index)
        x, zero = refine_on_lines(lines, basis, x, rounds=5, start=len(lines.q), tuning=self.tuning)
        scores = evidence("triclinic", lines, basis, x, zero, self.tuning)
        best = scores.topk(min(self.tuning.related, len(x))).indices
        return niggli(cell_from_reciprocal("triclinic", x[best[scores[best] > 0]]).numpy())

    def _with_superlattice(self, solutions: list[Solution]) -> list[Solution]:
        """The solutions with a superlattice of the best one put first, if it explains lines that the best does not."""
        best, lines, highest = solutions[0], self.lines, self.tuning.highest_index
        x = metric_from_cell("triclinic", torch.tensor([best.cell], dtype=torch.float64))
        own = reflections_in_range("triclinic", "P", x, lines, highest)
        left = unexplained_lines(lines, own @ x[0], best.zero, self.tuning.unexplained_errors)
        if left.sum() < 2:
            return solutions
        zero = torch.tensor([best.zero], dtype=torch.float64)
        cells = derivatives(np.array(best.cell), 4)
        multiples = (volumes(cells) / volumes(np.array([best.cell]))).round()
        system = bravais(best.cell).system
        larger = np.flatnonzero((multiples > 1) & (cells[:, 2] < self.tuning.longest_related))
        larger = np.array([i for i in larger if bravais(cells[i]).system == system], dtype=np.int64)
        if not len(larger):
            return solutions
        cells = cells[larger]
        metrics = metric_from_cell("triclinic", torch.as_tensor(cells))
        q = [reflections_in_range("triclinic", "P", each[None], lines, highest) @ each for each in metrics]
        gain = superlattice_gains(lines, own, x, zero, left, q, self.tuning)
        gain -= self.tuning.superlattice_cost * torch.as_tensor(multiples[larger]).log2() + math.log(len(cells))
        place = int(gain.argmax())
        if gain[place] <= 0:
            return solutions
        score = best.evidence + float(gain[place])
        found = [replace(solution, evidence=score) for solution in self._solutions(cells[place : place + 1])]
        near = self.tuning.same_lattice
        return found + [s for s in solutions if not any(same_lattice(s.cell, first.cell, near) for first in found)]

    def _solutions(self, cells: Floats) -> list[Solution]:
        """Primitive cells `(n, 6)` as solutions; those that no allowed crystal system describes are left out."""
        found = (self._solution(cell) for cell in cells)
        return [solution for solution in found if solution is not None]

    def _solution(self, cell: Floats) -> Solution | None:
        """A lattice refined in the symmetry with most evidence, among those that its metric nearly has."""
        fits = [self._fit(option) for option in self._options(cell, self.tuning.symmetry_strain)]
        if not fits:
            return None
        best = max(fits, key=lambda fit: fit.evidence)
        exact = self._options(best.primitive, self.tuning.exact_strain)
        if exact and (exact[0].system, exact[0].centring) != (best.option.system, best.option.centring):
            best = self._fit(exact[0])
        return self._described(best)

    def _options(self, cell: Floats, strain: float) -> list[Bravais]:
        """The allowed symmetries of a primitive cell, highest first."""
        return [option for option in bravais_options(cell, strain) if _search_system(option) in self.systems]

    def _fit(self, option: Bravais) -> "_LineFit":
        system, lines, tuning = _search_system(option), self.lines, self.tuning
        start = metric_from_cell(system, torch.as_tensor(option.conventional)[None])
        basis = reflections_in_range(system, option.centring, start, lines, tuning.highest_index)
        x, zero = refine_on_lines(lines, basis, start, rounds=6, start=len(lines.q), tuning=tuning)
        score = float(evidence(system, lines, basis, x, zero, tuning)[0])
        return _LineFit(option, basis, x, zero, score, cell_from_reciprocal(system, x)[0].numpy())

    def _described(self, fit: "_LineFit") -> Solution:
        lines, tuning, basis, x, zero = self.lines, self.tuning, fit.basis, fit.x, fit.zero
        scale = max(1.0, float(error_scales(lines, basis, x, zero, tuning)[0]))
        tolerance = tuning.unexplained_errors * scale
        merit, explained = de_wolff(lines, basis, x, zero, tolerance)
        own = 1 - lines.foreign
        left = unexplained_lines(lines, basis @ x[0], float(zero[0]), tolerance)
        return Solution(
            cell=tuple(fit.primitive.tolist()),
            conventional=tuple(fit.conventional.tolist()),
            system=_search_system(fit.option),
            centring=fit.option.centring,
            volume=float(volumes(fit.conventional[None])[0]),
            m20=float(merit[0]),
            f20=smith_snyder(lines, basis, x, zero, self.two_theta, self.wavelength),
            indexed=int(explained[0]),
            lines=len(lines.q),
            unexplained=float(own[left].sum() / own.sum()),
            zero=float(zero[0]),
            evidence=fit.evidence,
            probability=0.0,
            wavelength=self.wavelength,
            two_theta=tuple(self.two_theta.tolist()),
            tolerance=tuple((tolerance * self.error).tolist()),
        )


class _LineFit(NamedTuple):
    """A lattice in one symmetry, refined on the lines: `x` `(1, P)`, zero shift `(1,)` in degrees."""

    option: Bravais
    basis: Tensor
    x: Tensor
    zero: Tensor
    evidence: float
    conventional: Floats

    @property
    def primitive(self) -> Floats:
        """The Niggli-reduced cell `(6,)`."""
        reduced: Floats = niggli(primitive(self.conventional[None], self.option.centring))[0]
        return reduced


def _search_system(lattice: Bravais) -> str:
    """The crystal system as the search names it: hexagonal includes trigonal."""
    return "hexagonal" if lattice.system == "trigonal" else lattice.system


def _with_probabilities(solutions: list[Solution], tuning: SearchTuning) -> list[Solution]:
    """Solutions, best first, with probabilities: the first by logistic regression, the others share the remainder."""
    weighted = sum(feature * weight for feature, weight in zip(features(solutions), tuning.logistic, strict=True))
    first = 1 / (1 + math.exp(-weighted))
    highest = _next_evidence(solutions)
    total = math.exp(-highest) + sum(math.exp(s.evidence - highest) for s in solutions[1:])
    others = [min(first, (1 - first) * math.exp(s.evidence - highest) / total) for s in solutions[1:]]
    best = replace(solutions[0], margin=solutions[0].evidence - highest)
    return [replace(s, probability=p) for s, p in zip([best, *solutions[1:]], [first, *others], strict=True)]


def _next_evidence(solutions: Sequence[Solution]) -> float:
    return max([0.0, *(s.evidence for s in solutions[1:])])


def features(solutions: Sequence[Solution]) -> tuple[float, ...]:
    """The features from which the probability of the first solution is calculated.

    A constant, its margin of evidence over the next solution, its evidence per line and in all, the shortage of lines,
    the share of unexplained lines, and the logarithm of M20.
    """
    best = solutions[0]
    margin = min(max(best.evidence - _next_evidence(solutions), -10.0), 20.0) / 10
    strength = min(max(best.evidence / best.lines, -1.0), 4.0)
    total = min(max(best.evidence, 0.0), 40.0) / 10
    shortage = math.log(max(1.0, 20 / best.lines))
    return 1.0, margin, strength, total, shortage, best.unexplained, math.log(max(1.0, best.m20))
