"""From the lines of a pattern to its unit cell: all systems are searched, and the answers ranked by their evidence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from vitreous.errors import InputError, check_choice
from vitreous.powder.bravais import bravais
from vitreous.powder.candidates import exhaustive, sampled
from vitreous.powder.files import given_radiation
from vitreous.powder.lattice import derivatives, distinct, niggli, primitive, volumes
from vitreous.powder.peaks import find_peaks
from vitreous.powder.search import Observed, basis_of, cell_of, evidence, merit, observed, refine, reflections

LATTICES = {
    "cubic": "PIF", "hexagonal": "PR", "tetragonal": "PI", "orthorhombic": "PCIF", "monoclinic": "PC", "triclinic": "P",
}  # fmt: skip
_SAMPLED = {"orthorhombic": 4_000, "monoclinic": 40_000, "triclinic": 40_000}
_LINES = 20  # lines that decide
_FEWEST = 4  # lines below which nothing can be said
_COARSE = {"monoclinic": 14}  # lines by which candidates are first scored,
_USUALLY = 10  # or this many
_SIMPLE, _ALL = 150, 500  # reflections, the lowest ones, at first and in the end
_PROMISING, _REFINED, _KEPT = 6_000, 300, 5  # candidates of a lattice after each stage
_SLOW = ("monoclinic", "triclinic")  # searched only where the others leave a doubt
_LONGEST = 30.0  # Å, axes of cells related to those found
_HIGHEST = 24  # index of a reflection
_SURE = 1.75  # evidence a line that leaves none,
_DENSE = 3.0  # if the cell has no more than this many lines for one that was seen: a large one comes near anything
_ERROR = 0.01  # degrees, where no standard errors are given
_LEAST_ERROR = 0.004  # degrees: instruments are no straighter
_FOREIGN = 4.0  # standard errors from the nearest line beyond which a line is not explained


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


def index_peaks(
    two_theta: ArrayLike,
    intensity: ArrayLike | None = None,
    *,
    wavelength: float,
    error: ArrayLike | None = None,
    systems: Sequence[str] = tuple(LATTICES),
    most: int = 10,
    seed: int = 0,
) -> list[Solution]:
    """The unit cells that explain a list of lines, likeliest first.

    Args:
        two_theta: the lines of lowest angle, in degrees; twenty are enough, four the least.
        intensity: of the lines; those without any are left out.
        wavelength: ångström.
        error: standard errors of the angles in degrees; 0.01 where not given.
        systems: crystal systems to search.
        most: solutions to return.
        seed: of the cells that are drawn for systems of low symmetry.
    """
    angle, errors = _lines(two_theta, intensity, error)
    given_radiation(wavelength, None)
    for system in systems:
        check_choice("system", system, LATTICES)
    lines = observed(angle, errors, wavelength).first(_LINES)
    found: list[_Candidate] = []
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        for system in (name for name in LATTICES if name in systems):
            if system in _SLOW and _settled(found, lines):
                break
            for centring in LATTICES[system]:
                found += _search(system, centring, lines)
    return _ranked(found, lines, angle[:_LINES], wavelength, most)


def _lines(
    two_theta: ArrayLike, intensity: ArrayLike | None, error: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Angles by rising value, and their errors."""
    angle = np.asarray(two_theta, np.float64).ravel()
    errors = np.full(len(angle), _ERROR) if error is None else np.asarray(error, np.float64).ravel()
    heights = np.ones(len(angle)) if intensity is None else np.asarray(intensity, np.float64).ravel()
    if not len(angle) == len(errors) == len(heights):
        raise InputError(f"lines: found {len(angle)} angles, {len(heights)} intensities and {len(errors)} errors")
    if not np.isfinite(angle).all() or not np.isfinite(errors).all() or (errors <= 0).any():
        raise InputError("lines: found angles or errors that are not finite, or errors that are not positive")
    if (angle <= 0).any() or (angle >= 180).any():
        raise InputError("lines: found angles outside 0 to 180; they are 2θ in degrees")
    order = np.argsort(angle)
    order = order[heights[order] > 0]
    if len(order) < _FEWEST:
        raise InputError(
            f"lines: found {len(order)}, expected {_FEWEST} at least for a cubic cell, and 20 for one of low symmetry"
        )
    return angle[order], np.maximum(errors[order], _LEAST_ERROR)


def _settled(found: list["_Candidate"], lines: Observed) -> bool:
    """Whether a cell is beyond doubt."""
    if not found or len(lines.q) < _LINES:
        return False
    best = max(found, key=lambda c: c.evidence)
    basis = _around(best.system, best.centring, best.x[None], lines)
    possible = int(((basis @ best.x) <= lines.q[-1]).sum())
    return best.evidence > _SURE * len(lines.q) and possible <= _DENSE * len(lines.q)


@dataclass(frozen=True)
class _Candidate:
    system: str
    centring: str
    x: Tensor  # (P,)
    zero: float
    evidence: float


def _search(system: str, centring: str, lines: Observed) -> list[_Candidate]:
    """The best cells of a lattice: candidates, scored by few lines, refined, and scored by all."""
    parts = [] if system == "triclinic" else [exhaustive(system, centring, lines)]
    if system in _SAMPLED:
        parts.append(sampled(system, centring, lines, _SAMPLED[system]))
    parts = [part for part in parts if len(part)]
    if not parts:
        return []
    basis = _nearby(system, centring, torch.cat(parts), lines)
    coarse = _COARSE.get(system, _USUALLY)
    few = lines.first(coarse)
    single = Observed(few.q.float(), few.sigma.float(), few.slope.float())
    simple = basis[:_SIMPLE].float()
    promising = []  # of each way to come by them, or one would crowd out the other
    for part in parts:
        scores = torch.cat([merit(single, simple, some).merit for some in part.float().split(8192)])
        promising.append(part[scores.topk(min(_PROMISING, len(part))).indices])
    x, shift = refine(few, basis[:_SIMPLE], torch.cat(promising), rounds=5, start=7)
    scores = _evidence(system, lines.first(coarse + 4), basis[:_SIMPLE], x, shift)
    x = x[scores.topk(min(_REFINED, len(x))).indices]
    x, shift = refine(lines, basis, x, rounds=8, start=coarse)
    scores = _evidence(system, lines, basis, x, shift)
    best = scores.topk(min(8 * _KEPT, len(x))).indices
    best = best[scores[best] > -1e8]
    if not len(best):
        return []
    cells = niggli(primitive(cell_of(system, x[best]).numpy(), centring))
    kept = best[torch.as_tensor(distinct(cells, 3e-3)[:_KEPT])]
    return [_Candidate(system, centring, x[i], float(shift[i]), float(scores[i])) for i in kept]


def _nearby(system: str, centring: str, x: Tensor, lines: Observed) -> Tensor:
    """The reflections that matter for a set of candidates, lowest first: `(H, P)`."""
    cells = cell_of(system, x[torch.randperm(len(x))[:4096]])
    reach = 1.2 * float(lines.q[-1])
    longest = torch.quantile(cells[:, :3], 0.98, dim=0)
    a, b, c = (min(14, int(length * math.sqrt(reach)) + 1) for length in longest.tolist())
    basis = reflections(system, centring, (a, b, c))
    return basis[(basis @ x.median(0).values).argsort()][:_ALL]


def _evidence(system: str, lines: Observed, basis: Tensor, x: Tensor, shift: Tensor) -> Tensor:
    scores = evidence(lines, basis, x, shift)
    good = cell_of(system, x).isfinite().all(1) & scores.isfinite()
    return torch.where(good, scores, -1e9)


def _ranked(
    found: list[_Candidate], lines: Observed, angle: NDArray[np.float64], wavelength: float, most: int
) -> list[Solution]:
    """Distinct lattices, each in its highest symmetry, with figures of merit and probabilities."""
    found = sorted(found, key=lambda c: -c.evidence)[: 4 * most]
    if not found:
        return []
    cells = np.concatenate([niggli(primitive(cell_of(c.system, c.x[None]).numpy(), c.centring)) for c in found])
    solutions = []
    for place in distinct(cells, 3e-3)[: 2 * most]:
        solutions.append(_solution(cells[place], found[place], lines, angle, wavelength))
    solutions.sort(key=lambda s: -s.evidence)
    related = np.concatenate([_related(solution) for solution in solutions[:3]])
    known = np.concatenate([np.array([s.cell for s in solutions]), related])
    new = [place for place in distinct(known, 3e-3) if place >= len(solutions)]
    for candidate in _promising(known[new], lines):
        cell = niggli(cell_of("triclinic", candidate.x[None]).numpy())[0]
        solutions.append(_solution(cell, candidate, lines, angle, wavelength))
    solutions.sort(key=lambda s: -s.evidence)
    highest = max(0.0, solutions[0].evidence)
    total = math.exp(-highest) + sum(math.exp(s.evidence - highest) for s in solutions)
    return [replace(s, probability=math.exp(s.evidence - highest) / total) for s in solutions[:most]]


def _related(solution: Solution) -> NDArray[np.float64]:
    """Lattices of which a solution may be a multiple; or that are twice it, where it leaves lines unexplained."""
    cells = derivatives(np.array(solution.cell), 3)
    ratio = volumes(cells) / volumes(np.array([solution.cell]))
    return cells[(ratio < 0.9) | ((ratio < 2.5) & (solution.indexed < solution.lines))]


def _promising(cells: NDArray[np.float64], lines: Observed) -> list[_Candidate]:
    """Those of the given cells `(n, 6)` that explain the lines, refined."""
    cells = cells[(cells[:, :3] < _LONGEST).all(1)]
    if not len(cells):
        return []
    x = basis_of("triclinic", torch.as_tensor(cells))
    basis = _around("triclinic", "P", x, lines)
    x, shift = refine(lines, basis, x, rounds=5, start=len(lines.q))
    scores = _evidence("triclinic", lines, basis, x, shift)
    best = scores.topk(min(_KEPT, len(x))).indices
    return [_Candidate("triclinic", "P", x[i], float(shift[i]), float(scores[i])) for i in best if scores[i] > 0]


def _solution(
    cell: NDArray[np.float64], candidate: _Candidate, lines: Observed, angle: NDArray[np.float64], wavelength: float
) -> Solution:
    """A lattice refined in the highest symmetry that it has within the errors, if the lines bear that out."""
    lattice = bravais(cell, tolerance=2e-3)
    system = "hexagonal" if lattice.system == "trigonal" else lattice.system
    start = basis_of(system, torch.as_tensor(np.asarray(lattice.conventional))[None])
    basis = _around(system, lattice.centring, start, lines)
    x, shift = refine(lines, basis, start, rounds=6, start=len(lines.q))
    score = float(_evidence(system, lines, basis, x, shift)[0])
    centring = lattice.centring
    if score < candidate.evidence - 2:  # the symmetry is not there after all
        system, centring, x, shift = (
            candidate.system,
            candidate.centring,
            candidate.x[None],
            torch.tensor([candidate.zero]),
        )
        basis, score = _around(system, centring, x, lines), candidate.evidence
    conventional = cell_of(system, x)[0].numpy()
    reduced = niggli(primitive(conventional[None], centring))[0]
    figure = merit(lines, basis, x, shift, tolerance=_FOREIGN)
    return Solution(
        tuple(reduced.tolist()), tuple(conventional.tolist()), system, centring, float(volumes(conventional[None])[0]),
        float(figure.merit[0]), _smith_snyder(lines, basis, x, shift, angle, wavelength), int(figure.indexed[0]),
        len(lines.q), float(shift[0]), score, 0.0,
    )  # fmt: skip


def _around(system: str, centring: str, x: Tensor, lines: Observed) -> Tensor:
    """Every reflection that one of the cells has up to a little beyond the last line."""
    reach = 1.1 * float(lines.q[-1])
    a, b, c = (
        min(_HIGHEST, int(length * math.sqrt(reach)) + 1) for length in cell_of(system, x)[:, :3].amax(0).tolist()
    )
    basis = reflections(system, centring, (a, b, c))
    return basis[((basis @ x.T) < reach).any(1)]


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


def index(
    two_theta: ArrayLike,
    intensity: ArrayLike,
    *,
    wavelength: float,
    wavelength2: float | None = None,
    ratio: float | None = None,
    sigma: ArrayLike | None = None,
    systems: Sequence[str] = tuple(LATTICES),
    most: int = 10,
    seed: int = 0,
) -> list[Solution]:
    """The unit cells that explain a measured pattern, likeliest first; none where it has too few lines.

    Args:
        two_theta: degrees, rising.
        intensity: counts, or in any other unit.
        wavelength: ångström; of Kα1 where there is a doublet.
        wavelength2: of Kα2.
        ratio: of Kα2 to Kα1; None finds it in the pattern, 0 for one line.
        sigma: standard errors of the intensities, where known.
        systems: crystal systems to search.
        most: solutions to return.
        seed: of the cells that are drawn for systems of low symmetry.
    """
    given_radiation(wavelength, None)
    x, y = (np.asarray(values, np.float64) for values in (two_theta, intensity))
    errors = None if sigma is None else np.asarray(sigma, np.float64)
    peaks = find_peaks(x, y, errors, wavelength, wavelength2, ratio if wavelength2 is not None else 0.0)
    if len(peaks.two_theta) < _FEWEST:
        return []
    return index_peaks(
        peaks.two_theta,
        peaks.intensity,
        wavelength=wavelength,
        error=peaks.error,
        systems=systems,
        most=most,
        seed=seed,
    )
