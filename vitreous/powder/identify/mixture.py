"""Which phases a pattern holds: the one that explains most is added, all are refined together, and so on.

A phase is added while the evidence says so, not up to a fixed number: what it gains in likelihood must pay for its
parameters and for the choice among all entries of the database. Phases that the later ones make needless are taken out.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitreous.powder.identify.database import Database
from vitreous.powder.identify.measured import Measured
from vitreous.powder.identify.phase_lines import PhaseLines
from vitreous.powder.identify.sample_fit import PhaseState, SampleFit, SampleState, first_state, fit_sample, with_phase
from vitreous.powder.identify.screen import (
    LineTable,
    Matches,
    Places,
    blurred_gains,
    chosen_lines,
    line_table,
    sharp_gains,
)
from vitreous.powder.pattern import Floats


@dataclass(frozen=True)
class MixtureTuning:
    """Constants of the choice of phases."""

    screened: int = 300
    """Entries for which strains and zero shifts are tried."""
    major: float = 0.3
    """Share of the intensity of phases whose rivals are all refined beside the others."""
    near: float = 0.6
    """Share of the gain of the best entry that others must have to be refined."""
    refined: int = 12
    """Entries that are refined for each new phase."""
    failures: int = 2
    """Entries that may turn out to be needless before the search ends."""
    quick_steps: int = 4
    """Steps of their refinement."""
    intensity_error: float = 0.15
    """Relative error of the intensities of lines where entries are compared and phases judged."""
    line_reach: float = 2.0
    """Widths of a line around each point in which lines of other phases disturb."""
    tail_error: float = 0.01
    """Error of the tails of lines, relative to the highest point within `tail_reach`."""
    tail_reach: float = 5.0
    """Widths of a line."""
    segment: float = 4.0
    """Widths of a line: parts of the pattern in which evidence is limited."""
    line_evidence: float = 14.0
    """Most evidence that a part of the pattern can give: lines may be there for other reasons."""
    own_error: float = 0.2
    """Relative error of the lines of the phase that is judged."""
    absence: float = 2.0
    """How much more the absence of a line can say against a phase than its presence for it."""
    parameter: float = 3.0
    """Evidence that each parameter of a phase costs."""
    least: float = 8.0
    """Evidence that a phase must have beyond the costs."""
    essential: float = 0.15
    """Share of the misfit that a phase removes which stays until others explain it."""
    least_share: float = 0.002
    """Of the intensity of all lines, that a phase must have."""
    same: float = 60.0
    """Evidence by which a rival of a minor phase may be worse before it is refined beside the others."""
    rivals: int = 8
    """Entries that are compared with each phase at the end."""


MIXTURE_TUNING = MixtureTuning()


@dataclass(frozen=True)
class Candidate:
    """An entry in the place of a phase: its place in the database, and how unlikely the fit with it is."""

    entry: int
    unlikely: float  # the negative logarithm of a likelihood, with how common the entry is


class Mixture(NamedTuple):
    """The phases of a pattern.

    Args:
        entries: their places in the database.
        fit: of all of them together.
        rivals: of each phase, itself and the entries that may be in its place, likeliest first.
    """

    entries: tuple[int, ...]
    fit: SampleFit
    rivals: tuple[tuple[Candidate, ...], ...]


class Search:
    """The choice of phases for one pattern."""

    def __init__(
        self, database: Database, measured: Measured, allowed: NDArray[np.bool_], favoured: Floats | None = None,
        tuning: MixtureTuning = MIXTURE_TUNING,
    ) -> None:  # fmt: skip
        self.database, self.measured, self.tuning = database, measured, tuning
        self.entries: Places = np.flatnonzero(allowed)
        self.favoured = favoured  # (n,), of all entries: those with the highest are compared, too
        self.table: LineTable = line_table(database, self.entries, measured)
        self._lines: dict[int, PhaseLines] = {}

    def run(self, most: int) -> Mixture:
        """Add phases while the evidence asks for them, and compare each with its rivals."""
        chosen: tuple[int, ...] = ()
        fit = fit_sample(self.measured, first_state(self.measured), steps=1)
        tried: set[int] = set()
        while len(chosen) < most + 2 and len(tried) < most + self.tuning.failures:
            found = self._best_addition(fit, tried)
            if found is None:
                break
            tried.add(found[0])
            more = self._without_needless((*chosen, found[0]), fit_sample(self.measured, found[1]))
            if found[0] in more[0] and set(more[0]) - set(chosen):
                chosen, fit = more
        while len(chosen) > most:
            costs = [self._without(fit, k).cost for k in range(len(chosen))]
            least = int(np.argmin(costs))
            chosen = (*chosen[:least], *chosen[least + 1 :])
            fit = fit_sample(self.measured, dropped(fit.state, least))
        chosen, fit, rivals = self._compared(chosen, fit)
        kept, fit = self._without_needless(chosen, fit)
        return Mixture(kept, fit, tuple(rivals[chosen.index(entry)] for entry in kept))

    def evidence(self, fit: SampleFit, without: SampleFit, number: int) -> float:
        """Of a phase of a fit, against a fit without it: what it gains in log-likelihood less its costs.

        Where other phases have lines, the model may be wrong by more than counting says, and in no part of the pattern
        can a phase gain more than a line of something else would explain.
        """
        measured, tuning = self.measured, self.tuning
        others = _around(np.delete(fit.parts, number, axis=0).sum(axis=0), measured, tuning.line_reach)
        tails = _around(fit.parts.sum(axis=0), measured, tuning.tail_reach)
        variance = measured.variance + (tuning.intensity_error * others) ** 2 + (tuning.tail_error * tails) ** 2
        variance += (tuning.own_error * fit.parts[number]) ** 2
        costs = [(measured.y - each.calculated) ** 2 / variance for each in (without, fit)]
        scale = max(1.0, float(np.median(costs[1])) / 0.455)  # the median of χ² of one degree of freedom
        part = ((measured.x - measured.x[0]) / (tuning.segment * measured.width)).astype(int)
        gains = np.bincount(part, costs[0] - costs[1]) / (2 * scale)
        gain = float(np.clip(gains, -tuning.absence * tuning.line_evidence, tuning.line_evidence).sum())
        return (
            gain - math.log(max(len(self.entries), 2)) - tuning.parameter * (len(fit.state.phases[number].change) + 2)
        )

    def _is_essential(self, fit: SampleFit, without: SampleFit) -> bool:
        """Whether a phase removes so much of the misfit that another must take its place, if it is not the phase."""
        return without.cost - fit.cost > self.tuning.essential * without.cost

    def commonness(self, entry: int) -> float:
        """The logarithm of how many structures of a phase were read: what is determined often is met often."""
        return math.log(max(int(self.database.determined[entry]), 1))

    def matches(self, fit: SampleFit) -> tuple[Places, Matches]:
        """The entries that would explain most of what a fit leaves, best first."""
        measured, tuning = self.measured, self.tuning
        parts = fit.parts.sum(axis=0)
        residual = measured.y - fit.background - parts
        lines = np.maximum(measured.y - fit.background, parts)
        variance = measured.variance + (tuning.intensity_error * np.maximum(lines, 0)) ** 2
        gain = blurred_gains(self.table, measured, residual, variance)
        top = np.argsort(-gain, kind="stable")[: tuning.screened]
        if self.favoured is not None:
            most = np.argsort(-self.favoured[self.entries], kind="stable")[: tuning.screened // 3]
            top = np.union1d(top, most)
        zero = None if not fit.state.phases else fit.state.zero + 0.95 * fit.state.displacement
        found = sharp_gains(chosen_lines(self.table, top), measured, residual, variance, zero)
        order = np.argsort(-found.gain, kind="stable")
        return self.entries[top[order]], Matches(*(values[order] for values in found))

    def _promising(self, fit: SampleFit, most: int) -> list[tuple[int, float, float]]:
        """Entries that would explain most of what a fit leaves, with strains and zero shifts (degrees)."""
        entries, found = self.matches(fit)
        count = min(most, int((found.gain > self.tuning.near * found.gain.max(initial=0.0)).sum()))
        return [(int(entries[k]), float(found.strain[k]), float(found.zero[k])) for k in range(count)]

    def _best_addition(self, fit: SampleFit, tried: Collection[int]) -> tuple[int, SampleState] | None:
        """The entry that explains most, and the sample with it; None if none pays for itself."""
        best: tuple[float, int, SampleState] | None = None
        scale = self.scale(fit)
        for entry, strain, zero in self._promising(fit, self.tuning.refined):
            if entry in tried:
                continue
            trial = self._quick(fit, entry, strain, zero)
            if trial is None:
                continue
            evidence = self.evidence(trial, fit, len(trial.state.phases) - 1) + self.commonness(entry)
            if evidence < self.tuning.least and not self._is_essential(trial, fit):
                continue
            unlikely = self.unlikely(trial, entry, scale)
            if best is None or unlikely < best[0]:
                best = unlikely, entry, trial.state
        return None if best is None else best[1:]

    def _quick(
        self, fit: SampleFit, entry: int, strain: float, zero: float, like: PhaseState | None = None
    ) -> SampleFit | None:
        """The fit with another entry, of which alone parameters are refined; None if it has no share.

        Its lines begin with the width of the phase `like`.
        """
        state = fit.state if fit.state.phases else replace(fit.state, zero=zero)
        alone = not state.phases
        state = with_phase(state, self.lines(entry), strain, like)
        trial = fit_sample(self.measured, state, steps=self.tuning.quick_steps + 2 * alone, only_last=not alone)
        return trial if trial.state.phases[-1].scale > 0 else None

    def lines(self, entry: int) -> PhaseLines:
        """The lines of an entry for a fit."""
        if entry not in self._lines:
            x = self.measured.x
            crystal = self.database.entry(entry)
            self._lines[entry] = PhaseLines(crystal, self.measured.wavelength, float(x[0]), float(x[-1]))
        return self._lines[entry]

    def _without(self, fit: SampleFit, number: int) -> SampleFit:
        """The fit without a phase, the others with their parameters as they are but for scales."""
        return fit_sample(self.measured, dropped(fit.state, number), steps=2)

    def _without_needless(self, chosen: tuple[int, ...], fit: SampleFit) -> tuple[tuple[int, ...], SampleFit]:
        """Take out phases, the least needed first, that do not pay for themselves."""
        while len(chosen) > 1:
            needs = [self.need(fit, number) for number in range(len(chosen))]
            weakest = int(np.argmin(needs))
            if needs[weakest] >= self.tuning.least or self._is_essential(fit, self._without(fit, weakest)):
                break
            chosen = (*chosen[:weakest], *chosen[weakest + 1 :])
            fit = fit_sample(self.measured, dropped(fit.state, weakest))
        return chosen, fit

    def _compared(
        self, chosen: tuple[int, ...], fit: SampleFit
    ) -> tuple[tuple[int, ...], SampleFit, list[tuple[Candidate, ...]]]:
        """Each phase compared with other entries in its place, which replace it where they fit better."""
        lists = []
        for number in range(len(chosen)):
            rest, scale, shares = self._without(fit, number), self.scale(fit), area_shares(fit)
            listed = {chosen[number]: self.unlikely(fit, chosen[number], scale)}
            for entry, strain, zero in self._promising(rest, self.tuning.rivals):
                if entry in chosen:
                    continue
                own, best = fit.state.phases[number], min(listed.values())
                start: SampleState | None = with_phase(rest.state, self.lines(entry), strain, own)
                if shares[number] < self.tuning.major:
                    trial = self._quick(rest, entry, strain, zero, own)
                    near = trial is not None and self.unlikely(trial, entry, scale) < best + self.tuning.same
                    start = trial.state if trial is not None and near else None
                if start is None:
                    continue
                trial = fit_sample(self.measured, start)
                listed[entry] = self.unlikely(trial, entry, scale)
                if listed[entry] < best:
                    fit, chosen = _reordered(trial, number), (*chosen[:number], entry, *chosen[number + 1 :])
            order = sorted(listed, key=lambda each: listed[each])
            lists.append(tuple(Candidate(each, listed[each]) for each in order))
        return chosen, fit, lists

    def scale(self, fit: SampleFit) -> float:
        """How much larger the misfit of a fit is than its errors say, at least 1."""
        return max(1.0, fit.misfit / len(self.measured.x))

    def unlikely(self, fit: SampleFit, entry: int, scale: float) -> float:
        """The negative logarithm of the likelihood of a fit, less the commonness of one of its entries."""
        return 0.5 * fit.misfit / scale - self.commonness(entry)

    def need(self, fit: SampleFit, number: int) -> float:
        """The evidence of one phase of a fit, against the sample without it."""
        if area_shares(fit)[number] < self.tuning.least_share:
            return -math.inf
        return self.evidence(fit, self._without(fit, number), number)


def _around(values: Floats, measured: Measured, widths: float = 1.0) -> Floats:
    """The largest value within so many widths of a line around each point."""
    reach = max(1, round(widths * measured.width / float(np.median(np.diff(measured.x)))))
    padded = np.pad(values, reach, mode="edge")
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1).max(axis=1))


def _reordered(fit: SampleFit, number: int) -> SampleFit:
    """The fit with its last phase at another place."""
    phases = list(fit.state.phases)
    phases.insert(number, phases.pop())
    parts = np.insert(fit.parts[:-1], number, fit.parts[-1], axis=0)
    return replace(fit, state=replace(fit.state, phases=tuple(phases)), parts=parts)


def dropped(state: SampleState, number: int) -> SampleState:
    """The sample without one phase."""
    return replace(state, phases=(*state.phases[:number], *state.phases[number + 1 :]))


def area_shares(fit: SampleFit) -> Floats:
    """The share of each phase in the intensity of all lines."""
    area = fit.parts.sum(axis=1)
    return np.asarray(area / max(float(area.sum()), 1e-300))
