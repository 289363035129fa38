"""Candidates to answers: each lattice in its highest symmetry, with figures of merit, ranked, and how sure it is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.powder.bravais import bravais
from vitreous.powder.lattice import derivatives, distinct, niggli, primitive, same_lattice, volumes
from vitreous.powder.search import Observed, basis_of, cell_of, evidence, gains, merit, refine, reflections

_FOREIGN = 4.0  # standard errors from the nearest line beyond which a line is not explained
_KEPT = 5  # related lattices that are looked at closely
_SUPER = 4.0  # how much rarer a superstructure of twice the volume is than none, a logarithm
_LONGEST = 30.0  # Å, axes of cells related to those found
_HIGHEST = 24  # index of a reflection
_LOGISTIC = (-2.71, 2.45, 1.69, -2.41)  # of the probability, for `features`; by tools/fit_index_probability.py


@dataclass(frozen=True)
class Solution:
    """A unit cell that explains a pattern.

    Attributes:
        cell: a, b, c (Å), α, β, γ (°) of the Niggli-reduced primitive cell.
        conventional: the same of the conventional cell.
        system, centring: of the lattice; hexagonal stands for trigonal crystals with a primitive lattice too.
        volume: of the conventional cell, Å³.
        m20: de Wolff's figure of merit over the first 20 lines, or as many as there are.
        f20: Smith and Snyder's, in 1/°.
        indexed, lines: how many of the lines it explains.
        zero: zero shift in degrees.
        evidence: logarithm of how much likelier the lines are than by chance.
        probability: that this is the right lattice, among those found and the chance that none is.
    """

    cell: tuple[float, ...]
    conventional: tuple[float, ...]
    system: str
    centring: str
    volume: float
    m20: float
    f20: float
    indexed: int
    lines: int
    zero: float
    evidence: float
    probability: float


@dataclass(frozen=True)
class Candidate:
    """A cell of a lattice that may be the right one."""

    system: str
    centring: str
    x: Tensor  # (P,)
    zero: float
    evidence: float


def ranked(
    found: list[Candidate], lines: Observed, angle: NDArray[np.float64], wavelength: float, most: int
) -> list[Solution]:
    """Distinct lattices, each in its highest symmetry, with figures of merit and probabilities."""
    found = sorted(found, key=lambda c: -c.evidence)[: 4 * most]
    if not found:
        return []
    cells = np.concatenate([niggli(primitive(cell_of(c.system, c.x[None]).numpy(), c.centring)) for c in found])
    solutions = []
    for place in distinct(cells, 3e-3)[: most + 2]:
        solutions.append(_solution(cells[place], found[place], lines, angle, wavelength))
    solutions.sort(key=lambda s: -s.evidence)
    related = np.concatenate([_related(solution) for solution in solutions[:3]])
    known = np.concatenate([np.array([s.cell for s in solutions]), related])
    new = [place for place in distinct(known, 3e-3) if place >= len(solutions)]
    for candidate in _promising(known[new], lines):
        cell = niggli(cell_of("triclinic", candidate.x[None]).numpy())[0]
        solutions.append(_solution(cell, candidate, lines, angle, wavelength))
    solutions.sort(key=lambda s: -s.evidence)
    solutions = _with_superlattice(solutions, lines, angle, wavelength)
    return _believed(solutions)[:most]


def _believed(solutions: list[Solution]) -> list[Solution]:
    """With probabilities: of the first by what is known of such, of the others what it leaves, by their evidence."""
    first = 1 / (1 + math.exp(-sum(f * w for f, w in zip(features(solutions), _LOGISTIC, strict=True))))
    highest = max([0.0, *(s.evidence for s in solutions[1:])])
    total = math.exp(-highest) + sum(math.exp(s.evidence - highest) for s in solutions[1:])
    others = [min(first, (1 - first) * math.exp(s.evidence - highest) / total) for s in solutions[1:]]
    return [replace(s, probability=p) for s, p in zip(solutions, [first, *others], strict=True)]


def features(solutions: Sequence[Solution]) -> tuple[float, ...]:
    """What tells whether the first of some solutions is right.

    By how much its evidence is above the next, its evidence a line, and how few lines there are.
    """
    best = solutions[0]
    second = max([0.0, *(s.evidence for s in solutions[1:])])
    margin = min(max(best.evidence - second, -10.0), 20.0) / 10
    strength = min(max(best.evidence / best.lines, -1.0), 4.0)
    return 1.0, margin, strength, math.log(max(1.0, 20 / best.lines))


def _related(solution: Solution) -> NDArray[np.float64]:
    """Lattices of which a solution may be a multiple; or that are twice it, where it leaves lines unexplained."""
    cells = derivatives(np.array(solution.cell), 3)
    ratio = volumes(cells) / volumes(np.array([solution.cell]))
    return cells[(ratio < 0.9) | ((ratio < 2.5) & (solution.indexed < solution.lines))]


def _with_superlattice(
    solutions: list[Solution], lines: Observed, angle: NDArray[np.float64], wavelength: float
) -> list[Solution]:
    """The solutions with a multiple of the best put first, where that explains lines which the best leaves.

    A superstructure adds weak lines between the strong ones of the cell that it multiplies. So these stay as unlikely
    by chance as they were, and only what they leave is compared.
    """
    best = solutions[0]
    x = basis_of("triclinic", torch.tensor([best.cell], dtype=torch.float64))
    own = around("triclinic", "P", x, lines)
    left = unexplained(lines, own @ x[0], best.zero)
    if left.sum() < 2:
        return solutions
    zero = torch.tensor([best.zero], dtype=torch.float64)
    before = gains(lines, own, x, zero)[0]
    cells = derivatives(np.array(best.cell), 4)
    times = (volumes(cells) / volumes(np.array([best.cell]))).round()
    system = bravais(best.cell).system
    wanted = (times > 1) & (cells[:, 2] < _LONGEST)
    kept = [i for i in np.flatnonzero(wanted) if bravais(cells[i]).system == system]  # few lose symmetry
    if not kept:
        return solutions
    cells = cells[kept]
    larger = basis_of("triclinic", torch.as_tensor(cells))
    basis = around("triclinic", "P", larger, lines)
    more = (gains(lines, basis, larger, zero.expand(len(larger))) - before)[:, left].sum(1)
    more -= _SUPER * torch.as_tensor(times[kept]).log2() + math.log(len(cells))
    place = int(more.argmax())
    if more[place] <= 0:
        return solutions
    score = best.evidence + float(more[place])
    candidate = Candidate("triclinic", "P", larger[place], best.zero, score)
    first = replace(_solution(cells[place], candidate, lines, angle, wavelength), evidence=score)
    return [first, *(s for s in solutions if not same_lattice(s.cell, first.cell, 3e-3))]


def _promising(cells: NDArray[np.float64], lines: Observed) -> list[Candidate]:
    """Those of the given cells `(n, 6)` that explain the lines, refined."""
    cells = cells[(cells[:, :3] < _LONGEST).all(1)]
    if not len(cells):
        return []
    x = basis_of("triclinic", torch.as_tensor(cells))
    basis = around("triclinic", "P", x, lines)
    x, shift = refine(lines, basis, x, rounds=5, start=len(lines.q))
    scores = scored("triclinic", lines, basis, x, shift)
    best = scores.topk(min(_KEPT, len(x))).indices
    return [Candidate("triclinic", "P", x[i], float(shift[i]), float(scores[i])) for i in best if scores[i] > 0]


def _solution(
    cell: NDArray[np.float64], candidate: Candidate, lines: Observed, angle: NDArray[np.float64], wavelength: float
) -> Solution:
    """A lattice refined in the highest symmetry that it has within the errors, if the lines bear that out."""
    lattice = bravais(cell, tolerance=2e-3)
    system = "hexagonal" if lattice.system == "trigonal" else lattice.system
    start = basis_of(system, torch.as_tensor(np.asarray(lattice.conventional))[None])
    basis = around(system, lattice.centring, start, lines)
    x, shift = refine(lines, basis, start, rounds=6, start=len(lines.q))
    score = float(scored(system, lines, basis, x, shift)[0])
    centring = lattice.centring
    if score < candidate.evidence - 2:  # the symmetry is not there after all
        system, centring, x, shift = (
            candidate.system,
            candidate.centring,
            candidate.x[None],
            torch.tensor([candidate.zero]),
        )
        basis, score = around(system, centring, x, lines), candidate.evidence
    conventional = cell_of(system, x)[0].numpy()
    reduced = niggli(primitive(conventional[None], centring))[0]
    figure = merit(lines, basis, x, shift, tolerance=_FOREIGN)
    return Solution(
        tuple(reduced.tolist()), tuple(conventional.tolist()), system, centring, float(volumes(conventional[None])[0]),
        float(figure.merit[0]), _smith_snyder(lines, basis, x, shift, angle, wavelength), int(figure.indexed[0]),
        len(lines.q), float(shift[0]), score, 0.0,
    )  # fmt: skip


def around(system: str, centring: str, x: Tensor, lines: Observed) -> Tensor:
    """Every reflection that one of the cells has up to a little beyond the last line."""
    reach = 1.1 * float(lines.q[-1])
    a, b, c = (
        min(_HIGHEST, int(length * math.sqrt(reach)) + 1) for length in cell_of(system, x)[:, :3].amax(0).tolist()
    )
    basis = reflections(system, centring, (a, b, c))
    return basis[((basis @ x.T) < reach).any(1)]


def unexplained(lines: Observed, q: Tensor, zero: float) -> Tensor:
    """Which of the lines `(n,)` are near none of the calculated ones `(H,)`."""
    miss = (lines.q[:, None] - zero * lines.slope[:, None] - q).abs().amin(1)
    return miss > _FOREIGN * lines.sigma


def _smith_snyder(
    lines: Observed, basis: Tensor, x: Tensor, shift: Tensor, angle: NDArray[np.float64], wavelength: float
) -> float:
    """F_N = N / (<|Δ2θ|> N_possible), in 1/°."""
    q = (basis @ x[0]).sort().values
    calculated = 2 * torch.rad2deg(torch.arcsin((q.clamp(min=0).sqrt() * wavelength / 2).clamp(max=1)))
    seen = torch.as_tensor(angle) - shift[0]
    miss = (seen[:, None] - calculated).abs().amin(1)
    possible = int((q <= lines.q[-1] * (1 + 1e-6)).sum())
    return float(len(seen) / (miss.mean().clamp(min=1e-6) * max(1, possible)))


def scored(system: str, lines: Observed, basis: Tensor, x: Tensor, shift: Tensor) -> Tensor:
    """Their evidence `(C,)`; hardly any of what is no cell."""
    scores = evidence(lines, basis, x, shift)
    good = cell_of(system, x).isfinite().all(1) & scores.isfinite()
    return torch.where(good, scores, -1e9)
