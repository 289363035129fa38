"""From the lines of a pattern to its unit cell: all systems are searched, and the answers ranked by their evidence."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from vitreous.errors import InputError, check_choice
from vitreous.powder.bravais import bravais
from vitreous.powder.candidates import exhaustive, possible, reduced, triclinic
from vitreous.powder.files import given_radiation
from vitreous.powder.lattice import derivatives, distinct, niggli, primitive, same_lattice, volumes
from vitreous.powder.peaks import find_peaks
from vitreous.powder.proposals import propose
from vitreous.powder.search import Observed, basis_of, cell_of, evidence, gains, merit, observed, refine, reflections

LATTICES = {
    "cubic": "PIF", "hexagonal": "PR", "tetragonal": "PI", "orthorhombic": "PCIF", "monoclinic": "PC", "triclinic": "P",
}  # fmt: skip
_LINES = 20  # lines of the crystal that decide
_FEWEST = 4  # lines below which nothing can be said
_COARSE = 13  # of the crystal's lines, on which candidates are first refined
_SIMPLE, _ALL = 150, 500  # reflections, the lowest ones, at first and in the end
_PROMISING, _REFINED, _KEPT = 500, 60, 5  # candidates of a lattice after each stage
_CHUNK = 2048
_PATIENCE = ((3000, 6), (12000, 12))  # triclinic candidates, and angles tried for a pair of lines
_SLOW = ("triclinic", "monoclinic")
_SLOW_STEPS = (("triclinic", 0), ("monoclinic", 0), ("triclinic", 1))  # each only where the others leave a doubt
_SUPER = 4.0  # how much rarer a superstructure of twice the volume is than none, a logarithm
_LONGEST = 30.0  # Å, axes of cells related to those found
_HIGHEST = 24  # index of a reflection
_SURE = 1.75  # evidence a line that leaves none,
_DENSE = 3.0  # if the cell has no more than this many lines for one that was seen: a large one comes near anything
_LEFT = 1.5  # and leaves no more of the crystal's own lines than this
_REACH = 0.02  # degrees by which the lines of a candidate may miss, and matter
_HARD = 0.3  # Å: of radiation with a longer wavelength, a whole pattern lies not below 3°
_LOGISTIC = (-2.71, 2.45, 1.69, -2.41)  # of the probability, for `features`; by tools/fit_index_probability.py
_ERROR = 0.01  # degrees, where no standard errors are given
_LEAST_ERROR = 0.002  # degrees: instruments are no straighter
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
    proposals: int = 3000,
) -> list[Solution]:
    """The unit cells that explain a list of lines, likeliest first.

    Args:
        two_theta: the lines of lowest angle, in degrees; twenty are enough, four the least.
        intensity: of the lines, in any unit; those without any are left out, and weak ones count less.
        wavelength: ångström.
        error: standard errors of the angles in degrees; 0.01 where not given.
        systems: crystal systems to search.
        most: solutions to return.
        proposals: lattices that the trained model proposes where high symmetry leaves a doubt; 0 does without it.
    """
    angle, errors, heights = _lines(two_theta, intensity, error, wavelength)
    given_radiation(wavelength, None)
    for system in systems:
        check_choice("system", system, LATTICES)
    whole = observed(angle, errors, wavelength, heights)
    lines = whole.holding(_LINES)
    strength = torch.as_tensor(np.ones(len(angle)) if heights is None else heights)
    with _one_thread():
        found = _candidates(lines, systems, partial(propose, whole.q, strength, proposals) if proposals else None)
        return _ranked(found, lines, angle[: len(lines.q)], wavelength, most)


@contextmanager
def _one_thread() -> Iterator[None]:
    """The tensors are small: on a busy machine, threads wait for each other many times as long as they work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _candidates(lines: Observed, systems: Sequence[str], proposed: Callable[[], Tensor] | None) -> list["_Candidate"]:
    """The best cells of every lattice; those that take long only where the others leave a doubt."""
    found: list[_Candidate] = []
    for system in (name for name in LATTICES if name in systems and name not in _SLOW):
        for centring in LATTICES[system]:
            found += _finished(system, centring, *exhaustive(system, centring, lines, _PROMISING), lines)
    if "triclinic" in systems and proposed is not None and not _settled(found, lines):
        found += _proposed(proposed(), lines)
    for system, effort in _SLOW_STEPS:
        if system in systems and not _settled(found, lines):
            found += _slow(system, effort, lines)
    return found


def _lines(
    two_theta: ArrayLike, intensity: ArrayLike | None, error: ArrayLike | None, wavelength: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]:
    """Angles by rising value, their errors, and intensities where known."""
    angle = np.asarray(two_theta, np.float64).ravel()
    errors = np.full(len(angle), _ERROR) if error is None else np.asarray(error, np.float64).ravel()
    heights = np.ones(len(angle)) if intensity is None else np.asarray(intensity, np.float64).ravel()
    if not len(angle) == len(errors) == len(heights):
        raise InputError(f"lines: found {len(angle)} angles, {len(heights)} intensities and {len(errors)} errors")
    if not np.isfinite(angle).all() or not np.isfinite(errors).all() or (errors <= 0).any():
        raise InputError("lines: found angles or errors that are not finite, or errors that are not positive")
    if (angle <= 0).any() or (angle >= 180).any():
        raise InputError("lines: found angles outside 0 to 180; they are 2θ in degrees")
    if angle[-1] < angle[0] and (np.diff(angle) < 0).all() and len(angle) > 2:
        raise InputError(
            f"lines: fall from {angle[0]:g} to {angle[-1]:g}, as d in ångström does; expected 2θ in degrees, rising"
        )
    if angle.max() < math.pi and wavelength > _HARD:
        raise InputError(
            f"lines: none is above {angle.max():.3g}, so they may be radians, 1/d or q; expected 2θ in degrees"
        )
    order = np.argsort(angle)
    order = order[heights[order] > 0]
    if len(order) < _FEWEST:
        raise InputError(
            f"lines: found {len(order)}, expected {_FEWEST} at least for a cubic cell, and 20 for one of low symmetry"
        )
    return angle[order], np.hypot(errors[order], _LEAST_ERROR), None if intensity is None else heights[order]


def _settled(found: list["_Candidate"], lines: Observed) -> bool:
    """Whether a cell is beyond doubt."""
    if not found or float((1 - lines.foreign).sum()) < _LINES - 1:
        return False
    best = max(found, key=lambda c: c.evidence)
    basis = _around(best.system, best.centring, best.x[None], lines)
    q = basis @ best.x
    possible = int((q <= lines.q[-1]).sum())
    miss = (lines.q[:, None] - best.zero * lines.slope[:, None] - q).abs().amin(1)
    left = float((1 - lines.foreign)[miss > _FOREIGN * lines.sigma].sum())
    return best.evidence > _SURE * len(lines.q) and possible <= _DENSE * len(lines.q) and left < _LEFT


@dataclass(frozen=True)
class _Candidate:
    system: str
    centring: str
    x: Tensor  # (P,)
    zero: float
    evidence: float


def _proposed(x: Tensor, lines: Observed) -> list[_Candidate]:
    """The best of cells `(C, 6)` which may be some way off."""
    x = reduced(x[possible("triclinic", x)])
    if not len(x):
        return []
    x, shift = refine(lines.holding(_COARSE), _nearby("triclinic", "P", x, lines)[:_SIMPLE], x, rounds=5, start=7)
    good = possible("triclinic", x)
    return _finished("triclinic", "P", reduced(x[good]), shift[good], lines)


def _slow(system: str, effort: int, lines: Observed) -> list[_Candidate]:
    """Systems with many candidates."""
    if system == "triclinic":
        return _finished(system, "P", *triclinic(lines, *_PATIENCE[effort]), lines)
    return [
        candidate
        for centring in LATTICES[system]
        for candidate in _finished(system, centring, *exhaustive(system, centring, lines, _PROMISING), lines)
    ]


def _finished(system: str, centring: str, x: Tensor, zero: Tensor, lines: Observed) -> list[_Candidate]:
    """The best of the candidates `(C, P)` of a lattice, refined on few lines, and then on all."""
    if not len(x):
        return []
    basis = _nearby(system, centring, x, lines)
    if len(x) > _PROMISING:
        blurred = replace(lines, sigma=torch.hypot(lines.sigma, _REACH * lines.slope))
        parts = zip(x.split(_CHUNK), zero.split(_CHUNK), strict=True)
        scores = torch.cat([_evidence(system, blurred, basis[:_SIMPLE], *part) for part in parts])
        best = scores.topk(_PROMISING).indices
        x, zero = x[best], zero[best]
    few = lines.holding(_COARSE)
    x, shift = refine(few, basis[:_SIMPLE], x, rounds=4, start=_COARSE, zero=zero, reach=_REACH)
    scores = _evidence(system, lines, basis[:_SIMPLE], x, shift)
    best = scores.topk(min(_REFINED, len(x))).indices
    x, shift = refine(lines, basis, x[best], rounds=6, start=_COARSE, zero=shift[best], reach=_REACH)
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
    cells = cell_of(system, x)
    reach = 1.2 * float(lines.q[-1])
    longest = torch.nanquantile(cells[:, :3], 0.98, dim=0)
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
    zero = torch.tensor([best.zero], dtype=torch.float64)
    x = basis_of("triclinic", torch.tensor([best.cell], dtype=torch.float64))
    before = gains(lines, _around("triclinic", "P", x, lines), x, zero)[0]
    q = _around("triclinic", "P", x, lines) @ x[0]
    left = (lines.q[:, None] - zero * lines.slope[:, None] - q).abs().amin(1) > _FOREIGN * lines.sigma
    cells = derivatives(np.array(best.cell), 4)
    times = (volumes(cells) / volumes(np.array([best.cell]))).round()
    system = bravais(best.cell).system
    wanted = (times > 1) & (cells[:, 2] < _LONGEST) & (int(left.sum()) > 1)
    kept = [i for i in np.flatnonzero(wanted) if bravais(cells[i]).system == system]  # few lose symmetry
    if not kept:
        return solutions
    cells = cells[kept]
    larger = basis_of("triclinic", torch.as_tensor(cells))
    basis = _around("triclinic", "P", larger, lines)
    more = (gains(lines, basis, larger, zero.expand(len(larger))) - before)[:, left].sum(1)
    more -= _SUPER * torch.as_tensor(times[kept]).log2() + math.log(len(cells))
    place = int(more.argmax())
    if more[place] <= 0:
        return solutions
    score = best.evidence + float(more[place])
    candidate = _Candidate("triclinic", "P", larger[place], best.zero, score)
    first = replace(_solution(cells[place], candidate, lines, angle, wavelength), evidence=score)
    return [first, *(s for s in solutions if not same_lattice(s.cell, first.cell, 3e-3))]


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
    )
