"""`identify_pattern`: which phases of a database a powder pattern holds, and how much of each."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.powder.identify.answer import Identification, IdentifiedPhase, Rival, SampleCurves, UnexplainedLine
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.fractions import amorphous_fraction, mass_fractions
from vitreous.powder.identify.measured import Measured, prepare
from vitreous.powder.identify.mixture import Candidate, Mixture, Search, area_shares
from vitreous.powder.identify.retrieval import line_scores, pattern_peaks, similarities
from vitreous.powder.identify.sample_fit import SampleFit, with_errors
from vitreous.powder.pattern import Floats, Pattern, require_wavelength
from vitreous.powder.peaks import Peaks
from vitreous.powder.radiation import NEUTRONS

_GASES = ("H", "He", "N", "O", "F", "Ne", "Cl", "Ar", "Kr", "Xe")
_MOST_PHASES = 12
SHORTLIST = 6000  # entries of a large database whose profiles are compared
_CAUTION = 4.0  # what evidence is divided by: neighbouring points of a misfit are not independent
_LEAST_PROBABILITY = 1e-5  # of a rival that is listed
_NEAR = 0.7  # widths around a line in which its intensity is summed
_SIGNIFICANT = 5.0  # standard errors
_MOSTLY = 0.6  # share of a line's intensity that no phase explains
_FAINTEST_LINE = 0.005  # of the strongest line
_NOISE = 2.0  # standard errors
_USUAL_MISFIT, _MISFIT_SPREAD = 0.035, 0.006  # shares of the intensity, of samples whose phases are all found
_CLEAR_LINE = 0.02  # of the strongest line: fainter ones say less


@dataclass(frozen=True)
class IdentifyOptions:
    """What is known and what is wanted.

    Args:
        elements: every phase must contain one of these at least and nothing else but them, hydrogen and oxygen; empty
            for any.
        excluded: elements that no phase may contain.
        most: largest number of phases.
        standard: name or formula of an internal standard, and its mass fraction of the sample, 0 to 1: the amorphous
            share follows.
        frozen: whether elements that are gases at room temperature may be phases.
    """

    elements: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    most: int = 4
    standard: tuple[str, float] | None = None
    frozen: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.most <= _MOST_PHASES:
            raise InputError(f"max-phases: found {self.most}, expected 1 to {_MOST_PHASES}")
        if self.standard is not None and not 0 < self.standard[1] < 1:
            raise InputError(f"standard: found a mass fraction of {self.standard[1]:g}, expected 0 to 1")


def identify_pattern(pattern: Pattern, database: Database, options: IdentifyOptions | None = None) -> Identification:
    """The phases of a pattern of known wavelength, with mass fractions and what remains unexplained."""
    options = options or IdentifyOptions()
    require_wavelength(pattern)
    if pattern.radiation == NEUTRONS:
        raise InputError(f"{pattern.name}: found neutrons, expected X-rays, for which the database has intensities")
    allowed = _allowed(database, options)
    peaks = pattern_peaks(pattern)
    if not len(peaks.two_theta):
        raise InputError(f"{pattern.name}: found no lines, expected a pattern of a crystalline sample")
    measured = prepare(pattern, peaks)
    likeness = _likeness(database, pattern)
    search = Search(database, measured, _shortlist(database, pattern, peaks, allowed, likeness), likeness)
    return _answer(database, measured, search, search.run(options.most), options)


def _allowed(database: Database, options: IdentifyOptions) -> NDArray[np.bool_]:
    """Entries `(n,)` with no elements but those that may be there."""
    from vitreous.powder.identify.contents import element_bits

    if not database.count:
        raise InputError(f"{database.path}: found no entries, expected a database with phases")
    allowed = database.having((), options.excluded)
    if options.elements:
        for symbol in options.elements:
            database.having((symbol,))
        possible = element_bits([{*options.elements, "O", "H"}])
        wanted = element_bits([set(options.elements)])
        allowed &= ~(database.elements & ~possible).any(axis=1) & (database.elements & wanted).any(axis=1)
    if not options.frozen:
        allowed &= ~_is_gas(database)
    if not allowed.any():
        if options.elements:
            raise InputError("elements: found no entry of the database with these elements alone")
        if options.excluded:
            raise InputError("exclude-elements: found no entry of the database without these elements")
        raise InputError(f"{database.path}: found only elements that are gases, expected phases that may be solid")
    return allowed


def _is_gas(database: Database) -> NDArray[np.bool_]:
    """Whether entries are elements that are gases at room temperature; not those of unknown elements."""
    from vitreous.powder.identify.contents import element_bits

    count = np.unpackbits(np.ascontiguousarray(database.elements).view(np.uint8), axis=1).sum(axis=1)
    return np.asarray((count == 1) & (database.elements & element_bits([set(_GASES)])).any(axis=1))


def _likeness(database: Database, pattern: Pattern) -> Floats | None:
    """How alike each entry and the pattern are by the transformer's embedding; None for a database without it."""
    if not database.embedding.shape[1]:
        return None
    return similarities(database, pattern).astype(float)


def _shortlist(
    database: Database, pattern: Pattern, peaks: Peaks, allowed: NDArray[np.bool_], likeness: Floats | None
) -> NDArray[np.bool_]:
    """The allowed entries or, of a large database, those among the first by strong lines or by the embedding."""
    if allowed.sum() <= SHORTLIST:
        return allowed
    rank = _ranks(np.where(allowed, line_scores(database, pattern, peaks), -np.inf))
    if likeness is not None:
        rank = np.minimum(rank, _ranks(np.where(allowed, likeness, -np.inf)))
    return np.asarray(allowed & (_ranks(-rank.astype(float)) < SHORTLIST))


def _ranks(scores: NDArray[np.floating]) -> NDArray[np.int64]:
    """The place of each score among all, 0 for the highest."""
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    return ranks


def _answer(
    database: Database, measured: Measured, search: Search, mixture: Mixture, options: IdentifyOptions
) -> Identification:  # fmt: skip
    fit = with_errors(measured, mixture.fit)
    fit = replace(fit, covariance=fit.covariance * max(1.0, fit.cost / len(measured.x)))
    fractions = mass_fractions(fit, measured.wavelength)
    shares = area_shares(fit)
    phases = []
    for number, (entry, state) in enumerate(zip(mixture.entries, fit.state.phases, strict=True)):
        crystal = state.lines.entry
        probability, others = _probabilities(database, entry, mixture.rivals[number])
        place = fit.places[number]
        fraction = fractions[number]
        phases.append(
            IdentifiedPhase(
                name=crystal.name,
                formula=crystal.formula,
                source=crystal.source,
                spacegroup=crystal.spacegroup,
                system=crystal.system,
                cell=tuple(state.lines.cell(state.change).tolist()),
                cell_errors=tuple(state.lines.cell_errors(state.change, fit.covariance[place, place]).tolist()),
                probability=probability * _presence(search.need(fit, number)),
                fraction=None if fraction is None else fraction.value,
                fraction_error=None if fraction is None else fraction.error,
                share=float(shares[number]),
                texture=math.exp(state.log_texture),
                entry=entry,
                rivals=others,
            )
        )
    order = sorted(range(len(phases)), key=lambda k: -(phases[k].fraction or phases[k].share))
    lines, share = _unexplained(measured, fit)
    residual = measured.y - fit.calculated
    weight = 1 / measured.variance
    rwp = math.sqrt(float((weight * residual**2).sum() / (weight * measured.y**2).sum()))
    curves = SampleCurves(measured.x, measured.y, fit.background, fit.parts[order])
    found = tuple(phases[k] for k in order)
    unknown = _unknown_probability(lines, _excess(measured, fit))
    return Identification(
        found, measured.pattern, str(database.path), rwp, float((weight * residual**2).mean()), lines, share,
        unknown, amorphous_fraction(found, options.standard), fit.state.zero + fit.state.displacement, curves,
        tuple(_hints(found, lines, share, unknown, options.most)),
    )  # fmt: skip


def _probabilities(database: Database, entry: int, candidates: Sequence[Candidate]) -> tuple[float, tuple[Rival, ...]]:
    """The probability of a phase among its rivals, and theirs; entries of the same phase count together."""
    weights: dict[int, float] = {}
    best = min(each.unlikely for each in candidates)
    for each in candidates:
        weights[each.entry] = math.exp(-min((each.unlikely - best) / _CAUTION, 700.0))
    total = sum(weights.values())
    same = _same_phase(database, entry)
    own = sum(weight for each, weight in weights.items() if same(each))
    rivals: dict[tuple[str, str], Rival] = {}
    for other, weight in sorted(weights.items(), key=lambda item: -item[1]):
        if not same(other) and weight / total > _LEAST_PROBABILITY:
            name, formula = database.name(other), database.formula(other)
            before = rivals.get((name.lower(), formula), Rival(name, formula, database.source(other), 0.0))
            rivals[name.lower(), formula] = replace(before, probability=before.probability + weight / total)
    return own / total, tuple(sorted(rivals.values(), key=lambda each: -each.probability))


def _same_phase(database: Database, entry: int) -> Callable[[int], bool]:
    """Whether another entry has the same name, or the same formula and space group."""
    name, formula, group = database.name(entry).lower(), database.formula(entry), database.spacegroup[entry]
    has_name = name != formula.lower()  # entries without a name have their formula as one, as polymorphs do

    def same(other: int) -> bool:
        if has_name and database.name(other).lower() == name:
            return True
        return database.formula(other) == formula and database.spacegroup[other] == group

    return same


def _presence(need: float) -> float:
    """The probability that a phase is there, from its evidence."""
    return _logistic(need / _CAUTION)


def _unexplained(measured: Measured, fit: SampleFit) -> tuple[tuple[UnexplainedLine, ...], float]:
    """The lines of the pattern of which most is left by the fit, and their share of the intensity of all lines."""
    peaks = measured.peaks
    if not len(peaks.two_theta):
        return (), 0.0
    left = measured.y - fit.calculated
    lines = measured.y - fit.background
    found, area = [], np.zeros(len(peaks.two_theta))
    for number, (angle, width) in enumerate(zip(peaks.two_theta, peaks.width, strict=True)):
        near = np.abs(measured.x - angle) < _NEAR * max(width, measured.width / 2)
        if near.sum() < 2:
            continue
        rest, whole = float(left[near].sum()), float(lines[near].sum())
        error = math.sqrt(float(measured.variance[near].sum()))
        if rest > _SIGNIFICANT * error and rest > _MOSTLY * whole and peaks.intensity[number] > _FAINTEST_LINE:
            found.append(UnexplainedLine(float(angle), float(peaks.intensity[number])))
            area[number] = peaks.intensity[number]
    return tuple(found), float(area.sum() / peaks.intensity.sum())


def _unknown_probability(lines: Sequence[UnexplainedLine], misfit: float) -> float:
    """The probability that a phase is there which the database lacks: from lines of no phase, and from the misfit."""
    evidence = sum(min(line.intensity / _CLEAR_LINE, 1.0) for line in lines)
    return max(_logistic(1.5 * (evidence - 2.0)), _logistic((misfit - _USUAL_MISFIT) / _MISFIT_SPREAD))


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-min(max(value, -700.0), 700.0)))


def _excess(measured: Measured, fit: SampleFit) -> float:
    """What the pattern has more than the fit, beyond noise, over the intensity of all lines."""
    more = measured.y - fit.calculated - _NOISE * np.sqrt(measured.variance)
    return float(np.maximum(more, 0.0).sum() / max(float(np.maximum(measured.y - fit.background, 0.0).sum()), 1e-300))


def _hints(
    phases: Sequence[IdentifiedPhase], lines: Sequence[UnexplainedLine], share: float, unknown: float, most: int
) -> list[str]:
    hints = []
    others = f", or more than the {most} phase(s) that are looked for" if len(phases) == most else ""
    if not phases:
        hints.append("no phase of the database explains this pattern")
    if unknown > 0.5:
        reason = f"{len(lines)} line(s), {100 * share:.0f} % of the intensity, belong to no phase found"
        if not lines:
            reason = "the phases found do not explain all of the intensity"
        hints.append(f"{reason}: the sample may hold one that the database lacks{others}")
    for phase in phases:
        if phase.rivals and phase.probability < 0.5:
            hints.append(f"{phase.name}: {phase.rivals[0].name} {phase.rivals[0].formula} fits nearly as well")
        if phase.fraction is None:
            hints.append(f"{phase.name}: its entry has no atoms, so that its amount is unknown")
            if any(each.fraction is not None for each in phases):
                hints[-1] += "; the mass percents of the others leave it out"
    return hints
