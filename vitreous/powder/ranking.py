"""From candidates to solutions: each lattice in its highest symmetry, with figures of merit and a probability."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.powder.bravais import Bravais, bravais, bravais_options
from vitreous.powder.cell import volumes
from vitreous.powder.known import Known
from vitreous.powder.lattice import derivatives, distinct, niggli, primitive, same_lattice
from vitreous.powder.lattice_prior import log_prior
from vitreous.powder.merit import (
    de_wolff,
    error_scales,
    evidence,
    is_shoulder,
    smith_snyder,
    superlattice_gains,
    unexplained_lines,
)  # fmt: skip
from vitreous.powder.observed_lines import ObservedLines, refine_on_lines
from vitreous.powder.probability import with_probabilities
from vitreous.powder.reciprocal import cell_from_reciprocal, metric_from_cell, reflections_in_range
from vitreous.powder.search import Candidate, left_share
from vitreous.powder.solution import Solution
from vitreous.powder.tuning import PROFILE_TUNING, SearchTuning

if TYPE_CHECKING:
    from vitreous.powder.profile_symmetry import ProfileSymmetry

Floats = NDArray[np.float64]

_MERIT_LINES = 20  # lines of de Wolff's and of Smith and Snyder's figures of merit


@dataclass(frozen=True)
class Ranking:
    """Ranks candidates by the observed lines."""

    lines: ObservedLines
    two_theta: Floats  # angles of the lines in degrees
    error: Floats  # standard errors of the angles in degrees
    intensity: Floats | None  # relative to the strongest line
    wavelength: float  # ångström
    systems: Sequence[str]  # crystal systems that an answer may have
    known: Known
    tuning: SearchTuning
    symmetry: "ProfileSymmetry | None" = None  # what the profile says, where lines are few
    reaches: tuple[float, ...] = (math.inf,)  # degrees: misses of lines that count in least squares, tried in turn
    rhombohedral: bool = True  # whether an answer may be rhombohedral, where hexagonal lattices are allowed

    def rank(self, candidates: Sequence[Candidate], most: int) -> list[Solution]:
        """Distinct lattices, each in its highest symmetry, best first, with probabilities."""
        candidates = sorted(candidates, key=lambda candidate: -candidate.evidence)[: 4 * most]
        if not candidates:
            return []
        if left_share(candidates[0], self.lines, self.tuning) > self.tuning.ample_left:
            return replace(self, reaches=(math.inf, self.tuning.reach))._ranked(candidates, most)
        return self._ranked(candidates, most)

    def _ranked(self, candidates: Sequence[Candidate], most: int) -> list[Solution]:
        """`rank` of candidates with the most evidence, best first."""
        cells = np.concatenate(
            [niggli(primitive(cell_from_reciprocal(c.system, c.x[None]).numpy(), c.centring)) for c in candidates]
        )
        places = distinct(cells, self.tuning.same_lattice)[: most + 2]
        zeros = np.array([candidate.zero for candidate in candidates])
        solutions = self._solutions(cells[places], zeros[places])
        if not solutions:
            return []
        solutions.sort(key=lambda solution: -solution.evidence)
        solutions += self._related_solutions(solutions)
        solutions.sort(key=lambda solution: -solution.evidence)
        solutions[:3] = [self._distorted(solution) for solution in solutions[:3]]
        solutions.sort(key=lambda solution: -solution.evidence)
        solutions = self.known.filter(self._with_superlattice(solutions))
        return with_probabilities(solutions, self.tuning)[:most] if solutions else []

    def describe(self, lattice: Bravais, zero: float) -> Solution | None:
        """A lattice as it is, with a zero shift in degrees; None if its crystal system is not allowed."""
        system = _search_system(lattice)
        if not self.allows(lattice):
            return None
        x = metric_from_cell(system, torch.as_tensor(lattice.conventional)[None])
        basis = reflections_in_range(system, lattice.centring, x, self.lines, self.tuning.highest_index)
        return self._described(self._line_fit(lattice, basis, x, x.new_full((1,), zero)))

    def allows(self, lattice: Bravais) -> bool:
        """Whether an answer may have this lattice."""
        return _search_system(lattice) in self.systems and (self.rhombohedral or lattice.centring != "R")

    def _related_solutions(self, solutions: list[Solution]) -> list[Solution]:
        """Smaller lattices of which the best solutions are multiples, and doubles of those with unexplained lines."""
        cells, zeros = np.array([solution.cell for solution in solutions]), [solution.zero for solution in solutions]
        for solution in solutions[:3]:
            related = derivatives(np.array(solution.cell), 3)
            ratio = volumes(related) / volumes(np.array([solution.cell]))
            useful = (ratio < 0.9) | ((ratio < 2.5) & (solution.indexed < solution.lines))
            cells = np.concatenate([cells, related[useful]])
            zeros += [solution.zero] * int(useful.sum())
        new = [place for place in distinct(cells, self.tuning.same_lattice) if place >= len(solutions)]
        return self._solutions(*self._refined_cells(cells[new], np.array(zeros)[new]))

    def _refined_cells(self, cells: Floats, zeros: Floats) -> tuple[Floats, Floats]:
        """The best of cells `(n, 6)` and zero shifts `(n,)` after refinement."""
        short = (cells[:, :3] < self.tuning.longest_related).all(1)
        cells, zeros = cells[short], zeros[short]
        if not len(cells):
            return cells, zeros
        lines, x = self.lines, metric_from_cell("triclinic", torch.as_tensor(cells))
        basis = reflections_in_range("triclinic", "P", x, lines, self.tuning.highest_index)
        x, zero = self._refined("triclinic", basis, x, torch.as_tensor(zeros), rounds=5)
        scores = evidence("triclinic", lines, basis, x, zero, self.tuning)
        best = scores.topk(min(self.tuning.related, len(x))).indices
        best = best[scores[best] > 0]
        return niggli(cell_from_reciprocal("triclinic", x[best]).numpy()), zero[best].numpy()

    def _with_superlattice(self, solutions: list[Solution]) -> list[Solution]:
        """The solutions and a superlattice of the best one, if it explains lines that the best does not.

        It comes first if it explains most of them.
        """
        best, lines, highest = solutions[0], self.lines, self.tuning.highest_index
        x = metric_from_cell("triclinic", torch.tensor([best.cell], dtype=torch.float64))
        own = reflections_in_range("triclinic", "P", x, lines, highest)
        left = unexplained_lines(lines, own @ x[0], best.zero, self.tuning.unexplained_errors)
        left &= ~is_shoulder(lines, own @ x[0], best.zero, self.tuning.shoulder)
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
        still = unexplained_lines(lines, q[place], best.zero, self.tuning.unexplained_errors) & left
        superlattice = self._solutions(cells[place : place + 1], zero.numpy())
        score = best.evidence + float(gain[place])
        larger_lattice = [replace(each, evidence=score + each.log_prior - best.log_prior) for each in superlattice]
        near = self.tuning.same_lattice
        others = [s for s in solutions if not any(same_lattice(s.cell, new.cell, near) for new in larger_lattice)]
        if still.sum() <= self.tuning.superlattice_left * left.sum():
            return larger_lattice + others
        # Where many lines are foreign, it may explain some of them by chance: then it is only a rival.
        rivals = [replace(each, evidence=min(each.evidence, best.evidence)) for each in larger_lattice]
        return sorted(others + rivals, key=lambda solution: -solution.evidence)

    def _solutions(self, cells: Floats, zeros: Floats) -> list[Solution]:
        """Primitive cells `(n, 6)` with zero shifts `(n,)` as solutions, but those of no allowed crystal system."""
        solutions = (self._solution(cell, zero) for cell, zero in zip(cells, zeros.tolist(), strict=True))
        return [solution for solution in solutions if solution is not None]

    def _solution(self, cell: Floats, zero: float) -> Solution | None:
        """A lattice refined in the symmetry with most evidence, among those that its metric nearly has."""
        fits = [self._fit(option, zero) for option in self._options(cell, self.tuning.symmetry_strain)]
        return self._described(self._in_exact_symmetry(_most_evident(fits, self.tuning))) if fits else None

    def _distorted(self, solution: Solution) -> Solution:
        """The solution, or a distortion of its lattice to lower symmetry that explains the lines better.

        The reflections of an exactly symmetric lattice coincide, so a refinement from there cannot split them: it
        begins from several small distortions.
        """
        if solution.indexed == solution.lines or solution.system == "triclinic":
            return solution
        options = self._options(np.array(solution.cell), self.tuning.symmetry_strain)
        fits = [self._fit(option, solution.zero, distort=place > 0) for place, option in enumerate(options)]
        best = self._in_exact_symmetry(_most_evident(fits, self.tuning))
        return self._described(best) if best.evidence > solution.evidence else solution

    def _in_exact_symmetry(self, fit: "_LineFit") -> "_LineFit":
        """The fit in the highest symmetry that its lattice has within what no list of lines can show."""
        exact = self._options(fit.primitive, self.tuning.exact_strain)
        if not exact or (exact[0].system, exact[0].centring) == (fit.option.system, fit.option.centring):
            return fit
        return self._fit(exact[0], float(fit.zero[0]))

    def _options(self, cell: Floats, strain: float) -> list[Bravais]:
        """The allowed symmetries of a primitive cell, highest first."""
        return [option for option in bravais_options(cell, strain) if self.allows(option)]

    def _fit(self, option: Bravais, zero: float, distort: bool = False) -> "_LineFit":
        """A lattice refined in one symmetry, from its metric or from the best of small distortions of it."""
        system, lines, tuning = _search_system(option), self.lines, self.tuning
        start = metric_from_cell(system, torch.as_tensor(option.conventional)[None])
        if distort:
            start = _distortions(start, tuning.distortions)
        basis = reflections_in_range(system, option.centring, start, lines, tuning.highest_index)
        x, zeros = self._refined(system, basis, start, start.new_full((len(start),), zero), rounds=6)
        return self._line_fit(option, basis, x, zeros)

    def _refined(self, system: str, basis: Tensor, start: Tensor, zeros: Tensor, rounds: int) -> tuple[Tensor, Tensor]:
        """Metrics `(C, P)` and zero shifts `(C,)` refined on all lines.

        Where many lines are foreign, they pull the cell, so each lattice is refined once more with the lines that are
        near a reflection alone. The result with more evidence is returned.
        """
        count, tuning = len(self.lines.q), self.tuning
        fits = [
            refine_on_lines(self.lines, basis, start, rounds, count, zeros, reach, tuning) for reach in self.reaches
        ]
        if len(fits) == 1:
            return fits[0]
        scores = torch.stack([evidence(system, self.lines, basis, *fit, tuning) for fit in fits])
        best, lattices = scores.argmax(0), torch.arange(len(start))
        x, zero = (torch.stack(parts)[best, lattices] for parts in zip(*fits, strict=True))
        return x, zero

    def _line_fit(self, option: Bravais, basis: Tensor, x: Tensor, zeros: Tensor) -> "_LineFit":
        """The metric among `(C, P)` with most evidence, with its zero shift among `(C,)`."""
        system = _search_system(option)
        scores = evidence(system, self.lines, basis, x, zeros, self.tuning)
        best = int(scores.argmax())
        x, zeros = x[best : best + 1], zeros[best : best + 1]
        cell = cell_from_reciprocal(system, x)[0].numpy()
        score = float(scores[best])
        if score > -1e8:
            volume = float(volumes(primitive(cell[None], option.centring))[0])
            score += log_prior(system, option.centring, volume) + self.known.log_prior(volume)
            if self.symmetry is not None:
                score += PROFILE_TUNING.trust * self.symmetry.support(system, option.centring)
        return _LineFit(option, basis, x, zeros, score, cell)

    def _described(self, fit: "_LineFit") -> Solution:
        lines, tuning, basis, x, zero = self.lines, self.tuning, fit.basis, fit.x, fit.zero
        scale = max(1.0, float(error_scales(lines, basis, x, zero, tuning)[0]))
        tolerance = tuning.unexplained_errors * scale
        first = lines.first(_MERIT_LINES)
        merit = de_wolff(first, basis, x, zero, tolerance)[0]
        own = 1 - lines.foreign
        left = unexplained_lines(lines, basis @ x[0], float(zero[0]), tolerance)
        return Solution(
            cell=tuple(fit.primitive.tolist()),
            conventional=tuple(fit.conventional.tolist()),
            system=_search_system(fit.option),
            centring=fit.option.centring,
            volume=float(volumes(fit.conventional[None])[0]),
            m20=float(merit[0]),
            f20=smith_snyder(first, basis, x, zero, self.two_theta[:_MERIT_LINES], self.wavelength),
            indexed=int((~left).sum()),
            lines=len(lines.q),
            possible=int((basis @ x[0] <= lines.q[-1]).sum()),
            unexplained=float(own[left].sum() / own.sum()),
            zero=float(zero[0]),
            evidence=fit.evidence,
            probability=0.0,
            formula_units=self.known.units_in(float(volumes(fit.conventional[None])[0])),
            wavelength=self.wavelength,
            two_theta=tuple(self.two_theta.tolist()),
            intensity=() if self.intensity is None else tuple(np.round(self.intensity, 5).tolist()),
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


def _most_evident(fits: Sequence[_LineFit], tuning: SearchTuning) -> _LineFit:
    """The fit with most evidence; the highest symmetry, which comes first, is the most likely one beforehand."""
    free = fits[0].x.shape[1]
    return max(fits, key=lambda fit: fit.evidence - tuning.distortion_cost * (fit.x.shape[1] - free))


def _distortions(x: Tensor, strains: Sequence[float]) -> Tensor:
    """A metric `(1, P)` and its changes by positive and negative strains of each parameter, `(2 S P + 1, P)`."""
    size = x[0, :3].mean() if x.shape[1] > 3 else x[0]
    each = torch.diag_embed((x[0].abs() + 0.3 * size).broadcast_to(x.shape[1:]))
    return torch.cat([x, *(x + sign * strain * each for strain in strains for sign in (1, -1))])


def _search_system(lattice: Bravais) -> str:
    """The crystal system as the search names it: hexagonal includes trigonal."""
    return "hexagonal" if lattice.system == "trigonal" else lattice.system
