"""Which extinction symbol a pattern has: the evidence that the reflections it makes absent are absent.

After Markvardsen, David, Johnson and Shankland (2001): the fit of the whole pattern gives the likelihood of all
intensities, with the correlations of overlapping ones. Under a symbol, absent reflections have no intensity, and the
others follow a prior; the integral over all intensities is the evidence of the symbol. A reflection that a symbol makes
absent may still carry the line of another phase.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from vitreous.powder.bragg import bragg_angle
from vitreous.powder.cell import PAIRS, allowed_by_centring
from vitreous.powder.extinction_symbols import ExtinctionSymbol, SpaceGroup, extinction_symbols
from vitreous.powder.refinement.metric import metric_of_cell
from vitreous.powder.refinement.products import LineRows
from vitreous.powder.refinement.profile import Array, Indices, Mask
from vitreous.powder.refinement.refine import Refinement
from vitreous.powder.truncated_normal import Prior, log_evidence
from vitreous.powder.tuning import SYMMETRY_TUNING, SymmetryTuning

_SHOWN_GROUPS = 4


@dataclass(frozen=True)
class RankedSymbol:
    """An extinction symbol with its probability, given the lattice.

    Args:
        symbol: as in the International Tables.
        groups: its space groups in the setting of the conventional cell, likeliest first.
        probability: of the symbol.
        absences: number of reflections in the range of the fit that it makes absent.
    """

    symbol: str
    groups: tuple[SpaceGroup, ...]
    probability: float
    absences: int

    @property
    def text(self) -> str:
        """The symbol, its probability, and its commonest space groups."""
        names = [f"{group.name} (No. {group.number})" for group in self.groups[:_SHOWN_GROUPS]]
        more = ", …" if len(self.groups) > _SHOWN_GROUPS else ""
        return f"{self.symbol} {self.probability:.0%}: {', '.join(names)}{more}"

    def to_dict(self) -> dict[str, Any]:
        """The symbol as JSON values."""
        groups = [{"number": group.number, "name": group.name, "share": round(group.share, 3)} for group in self.groups]
        return {
            "symbol": self.symbol, "probability": round(self.probability, 4), "absences": self.absences,
            "space_groups": groups,
        }  # fmt: skip


def rank_symbols(
    refined: Refinement, system: str, centring: str, tuning: SymmetryTuning = SYMMETRY_TUNING
) -> list[RankedSymbol]:
    """The extinction symbols of a refined lattice, likeliest first."""
    symbols = extinction_symbols(system, centring)
    lines = _equal_reflections(refined, system, centring)
    information, pull = _areas(refined, tuning)
    prior = _intensity_prior(refined, [len(hkl) for hkl in lines], tuning)
    blocks = _overlapping(information, tuning)
    known: dict[tuple[int, bytes], float] = {}

    def evidence(absent: Mask) -> float:
        total = 0.0
        for place, block in enumerate(blocks):
            key = place, absent[block].tobytes()
            if key not in known:
                known[key] = _block_evidence(information, pull, prior, block, absent[block], tuning)
            total += known[key]
        return total

    absences = [_absent_lines(symbol, lines) for symbol in symbols]
    scores = np.array([evidence(absent) for absent in absences])
    scores = tuning.trust * (scores - scores.max()) + np.log([symbol.frequency for symbol in symbols])
    probability = np.exp(scores - np.logaddexp.reduce(scores))
    ranked = [
        RankedSymbol(symbol.symbol, symbol.groups, float(p), int(absent.sum()))
        for symbol, p, absent in zip(symbols, probability, absences, strict=True)
    ]
    return sorted(ranked, key=lambda each: -each.probability)


def _absent_lines(symbol: ExtinctionSymbol, lines: Sequence[Indices]) -> Mask:
    """Which lines `(n,)` have only absent reflections."""
    owner = np.repeat(np.arange(len(lines)), [len(hkl) for hkl in lines])
    shown = ~symbol.absent(np.concatenate(lines))
    return np.asarray(np.bincount(owner, shown, len(lines)) == 0)


def _equal_reflections(refined: Refinement, system: str, centring: str) -> list[Indices]:
    """For each line of the fit, all reflections `(m, 3)` with its 1/d², one of each ±h."""
    lattice = metric_of_cell(list(refined.fit.cell), system)
    own = np.empty_like(refined.fit.hkl)  # by line
    own[np.argsort(refined.state.positions)] = refined.fit.hkl
    farthest = float(np.einsum("ni,ij,nj->n", own, lattice.inverse, own).max()) * (1 + 1e-6)  # 1/d², 1/Å²
    a, b, c = (np.array(refined.fit.cell[:3]) * math.sqrt(farthest)).astype(int).tolist()
    hkl = np.mgrid[0 : a + 1, -b : b + 1, -c : c + 1].reshape(3, -1).T
    hkl = hkl[(np.sign(hkl) @ np.array([9, 3, 1]) > 0) & allowed_by_centring(hkl, centring)]
    hkl = hkl[np.einsum("ni,ij,nj->n", hkl, lattice.inverse, hkl) <= farthest]
    every = np.concatenate([own, hkl])
    pairs = np.stack([every[:, i] * every[:, j] * (1 if i == j else 2) for i, j in PAIRS], axis=1)
    _, label = np.unique(np.round(2 * pairs @ lattice.forms.T).astype(np.int64), axis=0, return_inverse=True)
    line_of = np.full(int(label.max()) + 1, -1)
    line_of[label[: len(own)]] = np.arange(len(own))
    line = line_of[label[len(own) :]]
    return [hkl[line == n] for n in range(len(own))]


def _areas(refined: Refinement, tuning: SymmetryTuning) -> tuple[Array, Array]:
    """The likelihood of the areas, exp(bᵀa - aᵀSa/2), with the background eliminated: S `(n, n)` and b `(n,)`."""
    problem, state = refined.problem, refined.state
    data, count = problem.data, problem.count
    variance = data.variance * problem.excess(state) + (tuning.misfit * (state.calculated - state.background)) ** 2
    root = 1 / np.sqrt(variance)
    columns = LineRows(state.columns.blocks, state.lines.value * root[state.lines.windows.points])
    gram = LineRows.gram_matrix([columns], np.concatenate([problem.splines, data.y[None]]) * root)
    gram, right = gram[:-1, :-1], gram[:-1, -1]
    cross = np.linalg.solve(gram[count:, count:], gram[count:, :count])
    information = gram[:count, :count] - gram[:count, count:] @ cross
    return (information + information.T) / 2, right[:count] - cross.T @ right[count:]


def _intensity_prior(refined: Refinement, multiplicity: Sequence[int], tuning: SymmetryTuning) -> Prior:
    """Wilson's distribution about the local mean of areas over multiplicity and Lorentz factor, and weak lines."""
    problem, state = refined.problem, refined.state
    s = np.sqrt(problem.form @ state.theta[: problem.metric])
    theta = bragg_angle(s, problem.wavelengths[0], 0.9999)
    expected = np.array(multiplicity) / (np.sin(theta) ** 2 * np.cos(theta))
    areas = np.maximum(state.linear[: problem.count], 0)
    spread = tuning.smooth * max(float(np.ptp(s)), 1e-6)
    near = np.exp(-0.5 * ((s[:, None] - s) / spread) ** 2)
    mean = expected * (near @ areas) / (near @ expected)
    mean = np.maximum(mean, tuning.weakest_mean * max(float(areas.max()), 1e-300))
    weights, factors = (np.array(part) for part in zip(*tuning.strengths, strict=True))
    return Prior(weights, factors[:, None] * mean)


def _overlapping(information: Array, tuning: SymmetryTuning) -> list[Indices]:
    """Sets of lines that overlap directly or through others; where they are large, only by stronger overlap."""
    size = np.sqrt(np.maximum(np.diag(information), 1e-300))
    correlation = np.abs(information / size / size[:, None])
    blocks, least = [np.arange(len(size))], tuning.overlap
    while least < 1 and (least == tuning.overlap or max(map(len, blocks), default=0) > tuning.largest_block):
        count, label = connected_components(correlation > least, directed=False)
        blocks = [np.flatnonzero(label == n) for n in range(count)]
        least *= 1.3
    return blocks


def _block_evidence(
    information: Array, pull: Array, prior: Prior, block: Indices, absent: Mask, tuning: SymmetryTuning
) -> float:
    """The evidence of a set of lines of which some are absent, or carry lines of another phase."""
    clean = _present_evidence(information, pull, prior, block[~absent])
    if not absent.any():
        return clean
    foreign = 1 - (1 - tuning.foreign) ** int(absent.sum())
    dirty = _present_evidence(information, pull, prior, block)
    return float(np.logaddexp(math.log1p(-foreign) + clean, math.log(foreign) + dirty))


def _present_evidence(information: Array, pull: Array, prior: Prior, present: Indices) -> float:
    some = np.ix_(present, present)
    return log_evidence(information[some], pull[present], Prior(prior.weights, prior.means[:, present]))
