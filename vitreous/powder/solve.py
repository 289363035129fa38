"""From the lines of a pattern to its unit cell: all systems are searched, and the answers ranked by their evidence."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from vitreous.errors import InputError, check_choice
from vitreous.powder.candidates import exhaustive, possible, reduced, triclinic
from vitreous.powder.files import given_radiation
from vitreous.powder.lattice import distinct, niggli, primitive
from vitreous.powder.peaks import Peaks, find_peaks
from vitreous.powder.proposals import propose
from vitreous.powder.rank import Candidate, Solution, around, ranked, scored, unexplained
from vitreous.powder.search import Observed, cell_of, observed, refine, reflections

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
_SURE = 1.75  # evidence a line that leaves none,
_DENSE = 3.0  # if the cell has no more than this many lines for one that was seen: a large one comes near anything
_LEFT = 1.5  # and leaves no more of the crystal's own lines than this
_REACH = 0.02  # degrees by which the lines of a candidate may miss, and matter
_HARD = 0.3  # Å: of radiation with a longer wavelength, a whole pattern lies not below 3°
_ERROR = 0.01  # degrees, where no standard errors are given
_LEAST_ERROR = 0.002  # degrees: instruments are no straighter


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
        return ranked(found, lines, angle[: len(lines.q)], wavelength, most)


@contextmanager
def _one_thread() -> Iterator[None]:
    """The tensors are small: on a busy machine, threads wait for each other many times as long as they work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _candidates(lines: Observed, systems: Sequence[str], proposed: Callable[[], Tensor] | None) -> list[Candidate]:
    """The best cells of every lattice; those that take long only where the others leave a doubt."""
    found: list[Candidate] = []
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


def _settled(found: list[Candidate], lines: Observed) -> bool:
    """Whether a cell is beyond doubt."""
    if not found or float((1 - lines.foreign).sum()) < _LINES - 1:
        return False
    best = max(found, key=lambda c: c.evidence)
    q = around(best.system, best.centring, best.x[None], lines) @ best.x
    possible = int((q <= lines.q[-1]).sum())
    left = float((1 - lines.foreign)[unexplained(lines, q, best.zero)].sum())
    return best.evidence > _SURE * len(lines.q) and possible <= _DENSE * len(lines.q) and left < _LEFT


def _proposed(x: Tensor, lines: Observed) -> list[Candidate]:
    """The best of cells `(C, 6)` which may be some way off."""
    x = reduced(x[possible("triclinic", x)])
    if not len(x):
        return []
    x, shift = refine(lines.holding(_COARSE), _nearby("triclinic", "P", x, lines)[:_SIMPLE], x, rounds=5, start=7)
    good = possible("triclinic", x)
    return _finished("triclinic", "P", reduced(x[good]), shift[good], lines)


def _slow(system: str, effort: int, lines: Observed) -> list[Candidate]:
    """Systems with many candidates."""
    if system == "triclinic":
        return _finished(system, "P", *triclinic(lines, *_PATIENCE[effort]), lines)
    return [
        candidate
        for centring in LATTICES[system]
        for candidate in _finished(system, centring, *exhaustive(system, centring, lines, _PROMISING), lines)
    ]


def _finished(system: str, centring: str, x: Tensor, zero: Tensor, lines: Observed) -> list[Candidate]:
    """The best of the candidates `(C, P)` of a lattice, refined on few lines, and then on all."""
    if not len(x):
        return []
    basis = _nearby(system, centring, x, lines)
    if len(x) > _PROMISING:
        blurred = replace(lines, sigma=torch.hypot(lines.sigma, _REACH * lines.slope))
        parts = zip(x.split(_CHUNK), zero.split(_CHUNK), strict=True)
        scores = torch.cat([scored(system, blurred, basis[:_SIMPLE], *part) for part in parts])
        best = scores.topk(_PROMISING).indices
        x, zero = x[best], zero[best]
    few = lines.holding(_COARSE)
    x, shift = refine(few, basis[:_SIMPLE], x, rounds=4, start=_COARSE, zero=zero, reach=_REACH)
    scores = scored(system, lines, basis[:_SIMPLE], x, shift)
    best = scores.topk(min(_REFINED, len(x))).indices
    x, shift = refine(lines, basis, x[best], rounds=6, start=_COARSE, zero=shift[best], reach=_REACH)
    scores = scored(system, lines, basis, x, shift)
    best = scores.topk(min(8 * _KEPT, len(x))).indices
    best = best[scores[best] > -1e8]
    if not len(best):
        return []
    cells = niggli(primitive(cell_of(system, x[best]).numpy(), centring))
    kept = best[torch.as_tensor(distinct(cells, 3e-3)[:_KEPT])]
    return [Candidate(system, centring, x[i], float(shift[i]), float(scores[i])) for i in kept]


def _nearby(system: str, centring: str, x: Tensor, lines: Observed) -> Tensor:
    """The reflections that matter for a set of candidates, lowest first: `(H, P)`."""
    cells = cell_of(system, x)
    reach = 1.2 * float(lines.q[-1])
    longest = torch.nanquantile(cells[:, :3], 0.98, dim=0)
    a, b, c = (min(14, int(length * math.sqrt(reach)) + 1) for length in longest.tolist())
    basis = reflections(system, centring, (a, b, c))
    return basis[(basis @ x.median(0).values).argsort()][:_ALL]


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
    return index_found(peaks, wavelength, systems, most)


def index_found(peaks: Peaks, wavelength: float, systems: Sequence[str], most: int) -> list[Solution]:
    """The same from the lines that were found in the pattern."""
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
