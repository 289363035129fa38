"""The phases of an in-situ series: one list of phases for all frames, with fractions and cells frame by frame.

The phases of a frame, with their cells there, are the first candidates of the next: the whole database is searched only
where these leave more lines, or fit worse, than after the last search. Then all phases that were found are compared:
entries of one phase are joined, the one with most evidence in all frames stays. Last, each frame is fitted by the
phases that stayed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vitreous.core.errors import InputError
from vitreous.powder.cell import NAMES
from vitreous.powder.identify.answer import Identification, IdentifiedPhase
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.frames import Frame, Frames
from vitreous.powder.identify.identification import IdentifyOptions, identify_pattern
from vitreous.powder.identify.pattern_files import DEFAULT_FILES, Failure, FileOptions
from vitreous.powder.identify.subset import chosen_entries
from vitreous.powder.pattern import Pattern

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[Iterable[Any], int, str], Iterable[Any]]
_WORSE = 1.2  # factor by which Rwp is worse than after the last search, so that the database is searched again
_LIKELY = 0.5  # probability of a phase whose cell is the start of the next frame
_SURE = 0.9  # probability in some frame: the phase is not another one of the list


@dataclass(frozen=True)
class SeriesPhase:
    """A phase of a series: where it is (frames by their place), and what it has there."""

    name: str
    formula: str
    entry: int
    frames: dict[int, IdentifiedPhase]

    @property
    def fractions(self) -> list[float]:
        """Mass fractions in the frames that have the phase."""
        return [each.fraction for each in self.frames.values() if each.fraction is not None]

    @property
    def range_text(self) -> str:
        """The smallest and the largest mass percent."""
        fractions = self.fractions
        return f"{100 * min(fractions):.1f} to {100 * max(fractions):.1f} %" if fractions else "—"


@dataclass(frozen=True)
class Series:
    """What a series has: frames that could be read with their identifications, and the phases of all.

    Args:
        axis: what the numbers of the frames are, e.g. `frame` or `temperature (K)`.
        phases: those of the largest share first.
        failures: frames that could not be read, and why.
    """

    name: str
    axis: str
    frames: tuple[Frame, ...]
    identifications: tuple[Identification, ...]
    phases: tuple[SeriesPhase, ...]
    failures: tuple[Failure, ...] = ()

    @property
    def hints(self) -> list[str]:
        """What the reader should know."""
        left = [k for k, each in enumerate(self.identifications) if each.unexplained]
        hints = [] if self.phases else ["no phase of the database explains these patterns"]
        if left:
            names = f"{self.frames[left[0]].path.name}" + (f" to {self.frames[left[-1]].path.name}" * (len(left) > 1))
            hints.append(f"{len(left)} frame(s) have lines of no phase found: {names}")
        return hints

    def records(self) -> list[dict[str, Any]]:
        """One record for each phase of each frame."""
        records = []
        for k, (frame, result) in enumerate(zip(self.frames, self.identifications, strict=True)):
            for phase in self.phases:
                if k not in phase.frames:
                    continue
                own = phase.frames[k]
                record = {"file": frame.path.name, self.axis: frame.at, "phase": phase.name, "formula": phase.formula}
                record |= {"mass_fraction": own.fraction, "mass_fraction_error": own.fraction_error}
                for name, value, error in zip(NAMES, own.cell, own.cell_errors, strict=True):
                    record |= {name: round(value, 6), f"{name}_error": round(error, 6)}
                records.append(record | {"probability": round(own.probability, 4), "rwp": round(result.rwp, 5)})
        return records

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "series": self.name, "axis": self.axis,
            "phases": [{"name": each.name, "formula": each.formula} for each in self.phases],
            "frames": [
                {"at": frame.at} | result.to_dict()
                for frame, result in zip(self.frames, self.identifications, strict=True)
            ],
            "failures": [{"file": each.name, "reason": each.reason} for each in self.failures],
        }  # fmt: skip

    def plot(self) -> "Figure":
        """A figure of mass fractions and cells along the series."""
        from vitreous.powder.figures.series import draw_series

        return draw_series(self)


def identify_series(
    frames: Frames, database: Database, options: IdentifyOptions | None = None, files: FileOptions = DEFAULT_FILES,
    progress: Progress | None = None,
) -> Series:  # fmt: skip
    """The phases of the frames of a series; a frame that cannot be read, or has no lines, is left out.

    `progress` wraps the iterator over frames, with their number and what is done, to show progress.
    """
    options, show = options or IdentifyOptions(), progress or (lambda items, count, what: items)
    patterns, failures = list[tuple[Frame, Pattern]](), list[Failure]()
    for frame in frames.frames:
        try:
            patterns.append((frame, files.read(frame.path)))
        except InputError as error:
            failures.append(Failure(frame.path.name, str(error)))
    if not patterns:
        raise InputError(f"{frames.name}: found no frame that can be read ({failures[0].text})")
    tally, searched = Tally(), list[tuple[Frame, Pattern]]()
    results = show(_searched([each for _, each in patterns], database, options, tally), len(patterns), "searching")
    for (frame, pattern), result in zip(patterns, results, strict=True):
        if isinstance(result, InputError):
            failures.append(Failure(frame.path.name, str(result)))
        else:
            searched.append((frame, pattern))
            tally.add(result)
    if not searched:
        raise InputError(f"{frames.name}: found no frame with phases ({failures[-1].text})")
    patterns = searched
    entries = tally.kept()
    if not entries:
        raise InputError(f"{frames.name}: found no phase of the database in any frame")
    known = _Known(database, options, dict(tally.first))
    fitted = [known.fit(pattern, entries) for _, pattern in show(patterns, len(patterns), "fitting")]
    return Series(
        frames.name, frames.axis, tuple(frame for frame, _ in patterns), tuple(fitted), _phases(entries, fitted),
        tuple(failures),
    )  # fmt: skip


@dataclass
class Tally:
    """The phases of all frames by their entry: evidence, highest probability, and names and formulas of rivals."""

    evidence: dict[int, float] = field(default_factory=dict)
    highest: dict[int, float] = field(default_factory=dict)
    rivals: dict[int, set[tuple[str, str]]] = field(default_factory=dict)
    named: dict[int, IdentifiedPhase] = field(default_factory=dict)
    first: dict[int, tuple[float, ...]] = field(default_factory=dict)  # cells where the phases are first

    def add(self, result: Identification) -> None:
        """Count the phases of a frame."""
        for phase in result.phases:
            entry = phase.entry
            self.evidence[entry] = self.evidence.get(entry, 0.0) + phase.share * phase.probability
            self.highest[entry] = max(self.highest.get(entry, 0.0), phase.probability)
            self.rivals.setdefault(entry, set()).update(_key(rival.name, rival.formula) for rival in phase.rivals)
            self.named[entry] = phase
            self.first.setdefault(entry, phase.cell)

    def kept(self) -> list[int]:
        """The entries, most evidence first, without those that are another one of the list."""
        kept: list[int] = []
        for entry in sorted(self.evidence, key=lambda each: -self.evidence[each]):
            if not any(self._are_same(entry, other) for other in kept):
                kept.append(entry)
        return kept

    def _are_same(self, entry: int, other: int) -> bool:
        first, second = self.named[entry], self.named[other]
        groups = [phase.spacegroup.replace(" ", "") for phase in (first, second)]
        if first.formula == second.formula and groups[0] == groups[1]:
            return True
        doubtful = self.highest[entry] < _SURE
        return doubtful and _key(second.name, second.formula) in self.rivals[entry]


def _key(name: str, formula: str) -> tuple[str, str]:
    return name.lower(), formula


@dataclass
class _Known:
    """Fits frames by some entries, each with the cell that it had in the last frame with it."""

    database: Database
    options: IdentifyOptions
    cells: dict[int, tuple[float, ...]]

    def fit(self, pattern: Pattern, entries: Sequence[int]) -> Identification:
        """The phases of a pattern among these entries, which are all that the options allow."""
        free = replace(self.options, elements=(), excluded=(), frozen=True, standard=None)
        result = identify_pattern(pattern, chosen_entries(self.database, entries, self.cells), free)
        result = replace(result, phases=tuple(replace(phase, entry=entries[phase.entry]) for phase in result.phases))
        self.learn(result)
        return result

    def learn(self, result: Identification) -> None:
        """Take over the cells of a frame that its phases explain."""
        if not result.unexplained:
            self.cells |= {phase.entry: phase.cell for phase in result.phases if phase.probability > _LIKELY}


def _searched(
    patterns: Sequence[Pattern], database: Database, options: IdentifyOptions, tally: Tally
) -> Iterator[Identification | InputError]:
    """Each frame by the phases known so far; by the whole database where they do not do. Errors are those of frames."""
    known = _Known(database, options, {})
    last: Identification | None = None  # of the last search
    for pattern in patterns:
        try:
            entries = tally.kept()
            result = known.fit(pattern, entries) if entries else None
            if last is None or result is None or _is_worse(result, last):
                result = last = identify_pattern(pattern, database, replace(options, standard=None))
                known.learn(last)
        except InputError as error:  # a pattern without lines
            yield error
        else:
            yield result


def _is_worse(result: Identification, last: Identification) -> bool:
    """Whether a fit by known phases explains less than the last search did."""
    more_lines = len(result.unexplained) > len(last.unexplained)
    return not result.phases or more_lines or result.rwp >= _WORSE * last.rwp


def _phases(entries: Sequence[int], fitted: Sequence[Identification]) -> tuple[SeriesPhase, ...]:
    """The phases of a series with their frames; those that no frame has are left out."""
    phases = []
    for entry in entries:
        frames = {k: phase for k, result in enumerate(fitted) for phase in result.phases if phase.entry == entry}
        if frames:
            first = next(iter(frames.values()))
            phases.append(SeriesPhase(first.name, first.formula, entry, frames))
    return tuple(phases)
