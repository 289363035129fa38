"""From candidates to solutions: each lattice in its highest symmetry, with figures of merit and a probability."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from vitreous.powder.bravais import bravais
from vitreous.powder.cell import volumes
from vitreous.powder.lattice import derivatives, distinct, niggli, primitive, same_lattice
from vitreous.powder.merit import de_wolff, evidence, smith_snyder, superlattice_gains, unexplained_lines
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
        solutions = [self._solution(cells[place], candidates[place]) for place in places]
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
        return [
            self._solution(niggli(cell_from_reciprocal("triclinic", candidate.x[None]).numpy())[0], candidate)
            for candidate in self._refined_cells(cells[new])
        ]

    def _refined_cells(self, cells: Floats) -> list[Candidate]:
        """The best of cells `(n, 6)` after refinement."""
        cells = cells[(cells[:, :3] < self.tuning.longest_related).all(1)]
        if not len(cells):
            return []
        lines, x = self.lines, metric_from_cell("triclinic", torch.as_tensor(cells))
        basis = reflections_in_range("triclinic", "P", x, lines, self.tuning.highest_index)
        x, zero = refine_on_lines(lines, basis, x, rounds=5, start=len(lines.q), tuning=self.tuning)
        scores = evidence("triclinic", lines, basis, x, zero, self.tuning)
        best = scores.topk(min(self.tuning.related, len(x))).indices
        return [Candidate("triclinic", "P", x[i], float(zero[i]), float(scores[i])) for i in best if scores[i] > 0]

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
        candidate = Candidate("triclinic", "P", metrics[place], best.zero, score)
        first = replace(self._solution(cells[place], candidate), evidence=score)
        return [first, *(s for s in solutions if not same_lattice(s.cell, first.cell, self.tuning.same_lattice))]

    def _solution(self, cell: Floats, candidate: Candidate) -> Solution:
        """A lattice refined in its highest symmetry, unless the lines contradict that symmetry."""
        tuning, lines = self.tuning, self.lines
        lattice = bravais(cell, tolerance=tuning.symmetry_strain)
        system, centring = "hexagonal" if lattice.system == "trigonal" else lattice.system, lattice.centring
        start = metric_from_cell(system, torch.as_tensor(lattice.conventional)[None])
        basis = reflections_in_range(system, centring, start, lines, tuning.highest_index)
        x, zero = refine_on_lines(lines, basis, start, rounds=6, start=len(lines.q), tuning=tuning)
        score = float(evidence(system, lines, basis, x, zero, tuning)[0])
        if score < candidate.evidence - tuning.symmetry_loss:
            system, centring, score = candidate.system, candidate.centring, candidate.evidence
            x, zero = candidate.x[None], torch.tensor([candidate.zero])
            basis = reflections_in_range(system, centring, x, lines, tuning.highest_index)
        conventional = cell_from_reciprocal(system, x)[0].numpy()
        merit, explained = de_wolff(lines, basis, x, zero, tuning.unexplained_errors)
        return Solution(
            cell=tuple(niggli(primitive(conventional[None], centring))[0].tolist()),
            conventional=tuple(conventional.tolist()),
            system=system,
            centring=centring,
            volume=float(volumes(conventional[None])[0]),
            m20=float(merit[0]),
            f20=smith_snyder(lines, basis, x, zero, self.two_theta, self.wavelength),
            indexed=int(explained[0]),
            lines=len(lines.q),
            zero=float(zero[0]),
            evidence=score,
            probability=0.0,
            wavelength=self.wavelength,
            two_theta=tuple(self.two_theta.tolist()),
            tolerance=tuple((tuning.unexplained_errors * self.error).tolist()),
        )


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

    A constant, its margin of evidence over the next solution, its evidence per line, and the shortage of lines.
    """
    best = solutions[0]
    margin = min(max(best.evidence - _next_evidence(solutions), -10.0), 20.0) / 10
    strength = min(max(best.evidence / best.lines, -1.0), 4.0)
    return 1.0, margin, strength, math.log(max(1.0, 20 / best.lines))
