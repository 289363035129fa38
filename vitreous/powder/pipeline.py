"""From a pattern or a list of lines to its unit cells, step by step.

A pattern is corrected for what is known, its peaks are found, lattices are searched and ranked by the lines, refined on
the whole pattern, and joined by a second phase where lines are left.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from vitreous.core.errors import InputError
from vitreous.powder.calibration import Calibration, calibrate_pattern
from vitreous.powder.hints import pattern_hints
from vitreous.powder.index_options import DEFAULT_OPTIONS, IndexOptions
from vitreous.powder.known import NOTHING_KNOWN, with_small_zero
from vitreous.powder.known_cell import is_stated, judge_cell, refine_stated
from vitreous.powder.line_list import LineList, check_lines
from vitreous.powder.observed_lines import observe_lines
from vitreous.powder.pattern import Pattern, require_wavelength
from vitreous.powder.peaks import Peaks, find_peaks
from vitreous.powder.phases import Phases, Ranked
from vitreous.powder.radiation import radiation_from_user
from vitreous.powder.ranking import Ranking
from vitreous.powder.search import allow_rhombohedral, find_candidates, lattice_systems
from vitreous.powder.second_phase import find_phases
from vitreous.powder.solution import IndexResult, Solution
from vitreous.powder.tuning import PROFILE_TUNING, SECOND_PHASE_TUNING
from vitreous.powder.whole_pattern import refine_best

if TYPE_CHECKING:
    from vitreous.powder.profile_symmetry import ProfileSymmetry

_RIVALS = 5  # solutions of a phase that are ranked


class _Prepared(NamedTuple):
    """A pattern as it is searched, and its peaks."""

    whole: Pattern  # with the lines of a standard
    sample: Pattern  # without them
    peaks: Peaks  # of the sample
    calibration: Calibration | None
    ratio: float | None  # of Kα2 to Kα1; None is estimated

    @property
    def width(self) -> float:
        """The full width at half maximum of a typical line in degrees."""
        return float(np.median(self.peaks.width))


@contextmanager
def single_thread() -> Iterator[None]:
    """Use one thread: tensors and matrices are small, and threads would mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, "blas"):
            yield
    finally:
        torch.set_num_threads(before)


@single_thread()
def index_pattern(pattern: Pattern, options: IndexOptions = DEFAULT_OPTIONS, ratio: float | None = None) -> IndexResult:
    """The unit cells of a pattern, with the refinement of the best one, a second phase, and hints.

    `ratio` is the intensity of Kα2 relative to Kα1, for the peak search; None estimates it from the pattern.
    """
    prepared = _prepare(pattern, options, ratio)
    few = len(prepared.peaks.two_theta) < PROFILE_TUNING.few_lines
    symmetry = _profile_symmetry(prepared.sample) if few or options.symmetry else None
    ranked = _rank_lattices(prepared, options, symmetry if few else None)
    solutions, second = [], None
    if ranked is not None:
        solutions = stated_only(_refine(prepared, ranked, options), options)
        solutions, second = _with_second_phase(prepared, ranked._replace(solutions=solutions), options)
    doubtful = not solutions or solutions[0].probability < options.tuning.doubt
    if doubtful and symmetry is None:
        symmetry = _profile_symmetry(prepared.sample)
    shown = symmetry.with_solutions(solutions) if symmetry is not None and (doubtful or options.symmetry) else None
    solutions = [replace(each, radiation=pattern.radiation) for each in solutions]
    second = None if second is None else replace(second, radiation=pattern.radiation)
    hints = pattern_hints(prepared.whole, solutions, options.tuning) if options.hints else ()
    return IndexResult(
        pattern.name, solutions, hints, peaks=prepared.peaks, symmetry=shown, known=options.known,
        calibration=prepared.calibration, second=second, pattern=_corrected(pattern, options, prepared.calibration),
    )  # fmt: skip


def _prepare(pattern: Pattern, options: IndexOptions, ratio: float | None) -> _Prepared:
    """The points that count, at corrected angles, and their peaks."""
    wavelength, wavelength2 = require_wavelength(pattern), pattern.wavelength2
    ratio = 0.0 if wavelength2 is None else ratio
    pattern = options.known.select(pattern)
    if options.known.standard is not None:
        calibrated = calibrate_pattern(pattern, options.known.standard, ratio)
        return _Prepared(calibrated.whole, calibrated.sample, calibrated.peaks, calibrated.calibration, ratio)
    peaks = find_peaks(pattern.two_theta, pattern.intensity, pattern.sigma, wavelength, wavelength2, ratio)
    return _Prepared(pattern, pattern, peaks, None, ratio)


def _corrected(pattern: Pattern, options: IndexOptions, calibration: Calibration | None) -> Pattern:
    """All points of a pattern, at the angles at which the fit has those that it uses."""
    two_theta = options.known.corrected(pattern.two_theta)
    return replace(pattern, two_theta=two_theta if calibration is None else calibration.corrected(two_theta))


def _rank_lattices(prepared: _Prepared, options: IndexOptions, symmetry: "ProfileSymmetry | None") -> Ranked | None:
    """The lattices that explain the peaks, ranked; None if there are too few peaks or no lattice."""
    peaks, wavelength, fewest = prepared.peaks, require_wavelength(prepared.sample), options.tuning.fewest_lines
    if len(peaks.two_theta) < fewest:
        return None
    lines = check_lines(peaks.two_theta, peaks.intensity, peaks.error, wavelength, options.tuning)
    if len(lines.two_theta) < fewest:
        return None
    ranked = search_lines(lines, wavelength, options, prepared.width, symmetry)
    return ranked if ranked.solutions else None


def _refine(prepared: _Prepared, ranked: Ranked, options: IndexOptions) -> list[Solution]:
    """The solutions, the best one refined on the whole pattern if it is not hopeless."""
    pattern, peaks, solutions = prepared.sample, prepared.peaks, list(ranked.solutions)
    if options.refine and options.known.cell is not None:
        tuning = options.known.narrow(options.tuning)
        return refine_stated(pattern, solutions, peaks, ranked.describe, options.known.cell, tuning)
    if options.refine and solutions[0].probability >= options.tuning.hopeless:
        return refine_best(pattern, solutions, peaks, ranked.describe, options.tuning)
    return solutions


def _with_second_phase(
    prepared: _Prepared, ranked: Ranked, options: IndexOptions
) -> tuple[list[Solution], Solution | None]:
    """The solutions, and a second phase if there is one; then the first solution is refined together with it."""
    solutions = list(ranked.solutions)
    if not (options.refine and options.phases > 1 and solutions):
        return solutions, None
    phases = _find_phases(prepared, ranked, options)
    if phases is None:
        return solutions, None
    solutions = phases.among(solutions, options.tuning)[: options.most]
    solutions[0] = replace(solutions[0], formula_units=options.known.units_in(solutions[0].volume))
    return solutions, phases.second


def _find_phases(prepared: _Prepared, ranked: Ranked, options: IndexOptions) -> Phases | None:
    """Two phases of a pattern whose best solution leaves lines unexplained; a stated cell must be the major one."""
    # The lines are those of one phase: no further search among the strong ones alone.
    tuning = replace(with_small_zero(options.tuning, SECOND_PHASE_TUNING.zero_spread), mixture_odds=())
    own = replace(options, known=NOTHING_KNOWN, most=_RIVALS, tuning=tuning)
    wavelength = require_wavelength(prepared.sample)

    def search(lines: LineList) -> Ranked:
        return search_lines(lines, wavelength, own, prepared.width)

    phases = find_phases(prepared.sample, ranked, search, prepared.ratio)
    cell = options.known.cell
    return phases if phases is None or cell is None or is_stated(phases.first, cell) else None


def _profile_symmetry(pattern: Pattern) -> "ProfileSymmetry | None":
    """What the whole profile says about the symmetry; None for a pattern outside the range of the model."""
    from vitreous.powder.profile_symmetry import predict_symmetry  # loads a model, which few searches need

    try:
        return predict_symmetry(pattern)
    except InputError:
        return None


def stated_only(solutions: Sequence[Solution], options: IndexOptions) -> list[Solution]:
    """The solutions, without the rivals of a cell that the user states."""
    cell = options.known.cell
    return list(solutions) if cell is None else [each for each in solutions if is_stated(each, cell)][: options.most]


def search_lines(
    line_list: LineList, wavelength: float, options: IndexOptions, width: float | None = None,
    symmetry: "ProfileSymmetry | None" = None,
) -> Ranked:  # fmt: skip
    """The unit cells that explain lines, best first, and what describes other lattices for these lines.

    `width` is the lines' full width at half maximum in degrees, `symmetry` what the whole profile says.
    """
    radiation_from_user(wavelength, None)
    systems, tuning = lattice_systems(options.systems), options.known.narrow(options.tuning)
    angle, errors, heights = line_list.two_theta, line_list.error, line_list.intensity
    every = observe_lines(angle, errors, wavelength, heights, tuning, width)
    strength = torch.as_tensor(np.ones(len(angle)) if heights is None else heights)

    def propose_lattices() -> tuple[torch.Tensor, torch.Tensor]:
        from vitreous.powder.proposals import propose  # loads a model, which few searches need

        return propose(every, strength, wavelength, tuning.proposals, tuning)

    ranking = Ranking(every, angle, errors, heights, wavelength, systems, options.known, tuning, symmetry)
    ranking = replace(ranking, rhombohedral=allow_rhombohedral(options.systems))
    with single_thread():
        if options.known.cell is not None:
            return Ranked(judge_cell(ranking, options.known.cell), ranking.describe)
        candidates = find_candidates(every, systems, propose_lattices if tuning.proposals else None, tuning)
        return Ranked(ranking.rank(candidates, options.most), ranking.describe)
