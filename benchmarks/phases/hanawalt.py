"""A classical match by the strongest lines, after Hanawalt: the peer of `vitreous identify` in `identify_table`.

Each entry of a database is a card with its eight strongest lines in the measured range. A card is a candidate if its
three strongest lines are among those of the pattern, within a window of 2θ. Candidates are ordered by how many of the
eight lines are there, how well their intensities agree, and how much of the pattern they explain. The lines of the best
one are subtracted, and the rest is searched again. Amounts follow from the strongest lines of the phases and their
calculated intensities (reference intensity ratios).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitreous.powder.bragg import two_theta_from_s
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.entry import powder_strength
from vitreous.powder.identify.retrieval import pattern_peaks
from vitreous.powder.pattern import Pattern, require_wavelength

Floats = NDArray[np.float64]
_TOGETHER = 0.05  # degrees: nearer lines are one on a card


@dataclass(frozen=True)
class HanawaltTuning:
    """Constants of the match; of window, faint and complete, the best of two or three on 40 simulated mixtures.

    Args:
        window: degrees, between a line of a card and of the pattern.
        strong: lines of a card that must all be there.
        lines: of a card, that are compared.
        faint: of the strongest line of the pattern: fainter lines need not be there.
        ratio: factor by which intensities may differ.
        complete: least share of the intensity of a card's lines that is there.
        least: intensity that a phase must explain, relative to all lines.
        left: of a line's intensity that is left after a subtraction and taken for nothing.
        unknown: share of the intensity of all lines left at the end, from which an unknown phase is said to be there.
        most: phases.
    """

    window: float = 0.2
    strong: int = 3
    lines: int = 8
    faint: float = 0.02
    ratio: float = 3.0
    complete: float = 0.8
    least: float = 0.02
    left: float = 0.35
    unknown: float = 0.1
    most: int = 4


HANAWALT_TUNING = HanawaltTuning()


class Match(NamedTuple):
    """A phase found: its place in the database, its mass fraction and its share of the intensity, both 0 to 1."""

    entry: int
    fraction: float
    share: float


class Answer(NamedTuple):
    """The phases in the order in which they were found, the order of the cards at first, and what is left."""

    phases: tuple[Match, ...]
    ranking: tuple[int, ...]
    has_unknown: bool


class _Cards(NamedTuple):
    """The lines of all entries within the measured range, one entry after another, those of each by intensity."""

    owner: NDArray[np.int64]  # (lines,)
    angle: Floats  # degrees
    height: Floats  # relative to the strongest of the entry
    rank: NDArray[np.int64]  # of a line in its entry, 0 for the strongest
    strongest: Floats  # (n,), calculated intensity of the strongest line of each entry, electrons²


def search_match(
    database: Database, pattern: Pattern, allowed: NDArray[np.bool_], tuning: HanawaltTuning = HANAWALT_TUNING
) -> Answer:
    """The phases of a pattern among the entries that are allowed `(n,)`, by their strongest lines."""
    peaks = pattern_peaks(pattern)
    cards = _cards(database, require_wavelength(pattern), float(pattern.two_theta[0]), float(pattern.two_theta[-1]))
    angle, height = peaks.two_theta, peaks.intensity.astype(float).copy()
    total = float(height.sum())
    ranking: tuple[int, ...] = ()
    scales: dict[int, float] = {}
    while len(scales) < tuning.most:
        order, score, scale = _compare(cards, angle, height, total, tuning)
        order = order[allowed[order]]
        ranking = ranking or tuple(order[:50].tolist())
        order = np.array([entry for entry in order.tolist() if entry not in scales], dtype=int)
        if not len(order) or score[order[0]] <= 0:
            break
        best = int(order[0])
        scales[best] = float(scale[best])
        height = _subtract(cards, best, scale[best], angle, height, tuning)
    return Answer(_amounts(database, cards, scales), ranking, bool(height.sum() > tuning.unknown * total))


def _cards(database: Database, wavelength: float, first: float, last: float) -> _Cards:
    """Lines in the measured range; lines that a pattern cannot separate are one."""
    import torch

    arrays = database.arrays
    owner = np.repeat(np.arange(database.count), np.diff(database.line_start))
    s = arrays["line_s"].astype(float)
    reached = s * wavelength < 2
    owner, s = owner[reached], s[reached]
    strength = powder_strength(s, arrays["line_intensity"][reached].astype(float))
    angle = two_theta_from_s(torch.from_numpy(s), wavelength).numpy()
    inside = (angle > first) & (angle < last) & (strength > 0)
    owner, angle, strength = owner[inside], angle[inside], strength[inside]
    starts = np.concatenate([[True], (np.diff(owner) > 0) | (np.diff(angle) > _TOGETHER)])
    group = np.cumsum(starts) - 1
    sums = np.bincount(group, strength)
    angle = np.bincount(group, strength * angle) / sums
    owner = owner[starts]
    strongest = np.zeros(database.count)
    np.maximum.at(strongest, owner, sums)
    order = np.lexsort((-sums, owner))
    owner, angle, sums = owner[order], angle[order], sums[order]
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    return _Cards(owner, angle, sums / strongest[owner], rank, strongest)


def _compare(
    cards: _Cards, angle: Floats, height: Floats, total: float, tuning: HanawaltTuning
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Entries by descending score, the score `(n,)` of each, 0 for none, and its scale `(n,)` in the pattern."""
    shown = cards.rank < tuning.lines
    count = len(cards.strongest)
    expected, seen = np.zeros((count, tuning.lines)), np.zeros((count, tuning.lines))
    place = cards.owner[shown], cards.rank[shown]
    expected[place] = cards.height[shown]
    near = np.abs(cards.angle[shown][:, None] - angle) < tuning.window
    seen[place] = (near * height).max(axis=1, initial=0.0)
    ratio = np.where(expected > 0, seen / np.maximum(expected, 1e-12), np.inf)
    scale = ratio[:, : tuning.strong].min(axis=1)  # other phases may add to a line
    scale[~np.isfinite(scale)] = 0.0
    height_there = expected * scale[:, None]
    visible = height_there > tuning.faint * height.max(initial=0.0)
    agrees = visible & (seen * tuning.ratio > height_there)
    weight = expected * visible
    weight /= np.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
    complete = (weight * agrees).sum(axis=1)
    deviation = np.abs(np.log(np.maximum(seen, 1e-12) / np.maximum(height_there, 1e-12)))
    most = np.log(tuning.ratio)
    agreement = np.exp(-(weight * np.where(agrees, np.minimum(deviation, most), most)).sum(axis=1))
    explained = np.minimum(seen, height_there).sum(axis=1) / total
    possible = (scale > 0) & (complete >= tuning.complete) & (explained >= tuning.least)
    score = np.where(possible, complete * agreement * np.sqrt(explained), 0.0)
    order = np.argsort(-score, kind="stable")
    return order[score[order] > 0], score, scale


def _subtract(cards: _Cards, entry: int, scale: float, angle: Floats, height: Floats, tuning: HanawaltTuning) -> Floats:
    """The intensities of the lines of a pattern without those of a phase."""
    own = cards.owner == entry
    calculated = np.zeros(len(height))
    for position, expected in zip(cards.angle[own], scale * cards.height[own], strict=True):
        near = np.flatnonzero(np.abs(angle - position) < tuning.window)
        if len(near):
            calculated[near[np.argmax(height[near])]] += expected
    rest = height - calculated
    return np.where((calculated > 0) & (rest < tuning.left * height), 0.0, rest)


def _amounts(database: Database, cards: _Cards, scales: dict[int, float]) -> tuple[Match, ...]:
    """Mass fractions by Z·M·V over the calculated intensity, and shares of the intensity."""
    entries = np.array(list(scales), dtype=int)
    if not len(entries):
        return ()
    scale = np.array(list(scales.values()))
    mass = scale / cards.strongest[entries] * database.cell_mass[entries] * database.volume[entries]
    areas = np.bincount(cards.owner, cards.height, minlength=database.count)[entries] * scale
    mass, areas = mass / max(mass.sum(), 1e-300), areas / areas.sum()
    return tuple(Match(int(e), float(m), float(a)) for e, m, a in zip(entries, mass, areas, strict=True))
