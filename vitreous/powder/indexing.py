"""Indexing: from lines, arrays, patterns or files to unit cells."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from vitreous.core.errors import InputError
from vitreous.data.uploads import InputFile
from vitreous.powder.calibration import Calibration, calibrate_lines, calibrate_pattern
from vitreous.powder.files import PeakList, read_pattern, read_peak_list
from vitreous.powder.files.reading import AS_IN_FILE, ReadOptions
from vitreous.powder.hints import list_hints, pattern_hints
from vitreous.powder.known import NOTHING_KNOWN, Known, with_small_zero
from vitreous.powder.known_cell import is_stated, judge_cell, refine_stated
from vitreous.powder.line_list import LineList, check_lines
from vitreous.powder.observed_lines import observe_lines
from vitreous.powder.pattern import Pattern, require_wavelength
from vitreous.powder.peaks import find_peaks
from vitreous.powder.phases import Phases, Ranked
from vitreous.powder.radiation import radiation_from_user
from vitreous.powder.ranking import Ranking
from vitreous.powder.search import LATTICES, allow_rhombohedral, find_candidates, lattice_systems
from vitreous.powder.second_phase import find_phases
from vitreous.powder.solution import IndexResult, Solution
from vitreous.powder.tuning import PROFILE_TUNING, SEARCH_TUNING, SECOND_PHASE_TUNING, SearchTuning
from vitreous.powder.whole_pattern import refine_best

if TYPE_CHECKING:
    from vitreous.powder.profile_symmetry import ProfileSymmetry

Floats = NDArray[np.float64]
Progress = Callable[[Iterable[IndexResult], int], Iterable[IndexResult]]

_RIVALS = 5  # solutions of a phase that are ranked
_FILES_PER_PROCESS = 4  # fewer files are not worth the start of a process


@dataclass(frozen=True)
class IndexOptions:
    """How files are read and searched."""

    anode: str | None = None  # of the X-ray tube, e.g. `Cu`; replaces the radiation that the file states
    wavelength: float | None = None  # ångström; replaces the wavelength that the file states
    peaks: bool = False  # the file is a peak list, not a pattern
    systems: Sequence[str] = tuple(LATTICES)  # crystal systems to search
    most: int = 5  # largest number of solutions
    refine: bool = True  # refine the best cell on the whole pattern if its probability is high enough
    hints: bool = True  # look for signs of a wrong wavelength
    symmetry: bool = False  # say what the whole profile tells about the symmetry, also where there is a likely cell
    known: Known = NOTHING_KNOWN  # cell or volume, density, formula, standard, zero shift, angles that count
    tuning: SearchTuning = SEARCH_TUNING  # constants of the search
    phases: int = 2  # 1 does without a second phase
    reading: ReadOptions = AS_IN_FILE  # axis, columns and scans of files, neutrons


_DEFAULT_OPTIONS = IndexOptions()


@contextmanager
def _single_thread() -> Iterator[None]:
    """Use one thread: tensors and matrices are small, and threads would mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, "blas"):
            yield
    finally:
        torch.set_num_threads(before)


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
    refine: bool = True,
    known: Known = NOTHING_KNOWN,
    tuning: SearchTuning = SEARCH_TUNING,
) -> list[Solution]:
    """The unit cells that explain a measured pattern, best first; empty if it has too few lines.

    Args:
        two_theta: degrees, ascending.
        intensity: counts, or any other unit.
        wavelength: ångström; Kα1 of a doublet.
        wavelength2: wavelength of Kα2.
        ratio: intensity of Kα2 relative to Kα1; None estimates it from the pattern.
        sigma: standard errors of the intensities, if known.
        systems: crystal systems to search.
        most: largest number of solutions.
        refine: refine the best cell on the whole pattern, for standard errors, if its probability is high enough.
        known: what is known of the cell and the pattern.
    """
    radiation_from_user(wavelength, None)
    x, y = (np.asarray(values, np.float64) for values in (two_theta, intensity))
    errors = None if sigma is None else np.asarray(sigma, np.float64)
    pattern = Pattern(x, y, errors, wavelength, "pattern", wavelength2, 0.5 if ratio is None else ratio)
    options = IndexOptions(systems=systems, most=most, refine=refine, hints=False, known=known, tuning=tuning)
    return index_pattern(pattern, options, ratio).solutions


def index_peaks(
    two_theta: ArrayLike,
    intensity: ArrayLike | None = None,
    *,
    wavelength: float,
    error: ArrayLike | None = None,
    systems: Sequence[str] = tuple(LATTICES),
    most: int = 10,
    known: Known = NOTHING_KNOWN,
    tuning: SearchTuning = SEARCH_TUNING,
) -> list[Solution]:
    """The unit cells that explain a list of lines, best first.

    Args:
        two_theta: the lines of lowest angle, in degrees; twenty are enough, three the minimum.
        intensity: in any unit; lines with an intensity of 0 are ignored, and weak lines count less.
        wavelength: ångström.
        error: standard errors of the angles in degrees; 0.01 by default. Lines that are closer than their errors are
            one line.
        systems: crystal systems to search.
        most: largest number of solutions.
        known: what is known of the cell and the lines.
    """
    line_list = check_lines(two_theta, intensity, error, wavelength, tuning)
    options = IndexOptions(systems=systems, most=most, known=known, tuning=tuning)
    return _index_lines(line_list, np.size(two_theta), wavelength, options)[0]


def _index_lines(
    line_list: LineList, stated: int, wavelength: float, options: IndexOptions
) -> tuple[list[Solution], Calibration | None]:
    """The unit cells that explain checked lines, and their calibration; `stated` is the number of lines before."""
    known, tuning, calibration = options.known, options.tuning, None
    line_list = line_list.select(known)
    if known.standard is not None:
        line_list, calibration = calibrate_lines(line_list, known.standard, wavelength)
    if (count := len(line_list.two_theta)) < tuning.fewest_lines:
        needed = f"at least {tuning.fewest_lines} for a cubic cell, 20 for low symmetry"
        raise InputError(f"lines: found {count}{' distinct' * (count < stated)}, expected {needed}")
    return _stated_only(_search(line_list, wavelength, options)[0], options), calibration


def _stated_only(solutions: list[Solution], options: IndexOptions) -> list[Solution]:
    """The solutions, without the rivals of a cell that the user states."""
    cell = options.known.cell
    return solutions if cell is None else [each for each in solutions if is_stated(each, cell)][: options.most]


def _search(
    line_list: LineList, wavelength: float, options: IndexOptions, width: float | None = None,
    symmetry: "ProfileSymmetry | None" = None,
) -> tuple[list[Solution], Ranking]:  # fmt: skip
    """The unit cells that explain lines, best first, and what ranked them.

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
    with _single_thread():
        if options.known.cell is not None:
            return judge_cell(ranking, options.known.cell), ranking
        candidates = find_candidates(every, systems, propose_lattices if tuning.proposals else None, tuning)
        return ranking.rank(candidates, options.most), ranking


@_single_thread()
def index_pattern(
    pattern: Pattern, options: IndexOptions = _DEFAULT_OPTIONS, ratio: float | None = None
) -> IndexResult:
    """The unit cells of a pattern, with the refinement of the best one and hints.

    `ratio` is the intensity of Kα2 relative to Kα1, for the peak search; None estimates it from the pattern.
    """
    wavelength, wavelength2 = require_wavelength(pattern), pattern.wavelength2
    ratio = 0.0 if wavelength2 is None else ratio
    whole = pattern = options.known.select(pattern)
    calibration = None
    if options.known.standard is None:
        peaks = find_peaks(pattern.two_theta, pattern.intensity, pattern.sigma, wavelength, wavelength2, ratio)
    else:
        calibrated = calibrate_pattern(pattern, options.known.standard, ratio)
        whole, pattern, peaks = calibrated.whole, calibrated.sample, calibrated.peaks
        calibration = calibrated.calibration
    few = len(peaks.two_theta) < PROFILE_TUNING.few_lines
    symmetry = _profile_symmetry(pattern) if few or options.symmetry else None
    solutions: list[Solution] = []
    if len(peaks.two_theta) >= options.tuning.fewest_lines:
        line_list = check_lines(peaks.two_theta, peaks.intensity, peaks.error, wavelength, options.tuning)
        if len(line_list.two_theta) >= options.tuning.fewest_lines:
            width = float(np.median(peaks.width))
            solutions, ranking = _search(line_list, wavelength, options, width, symmetry if few else None)
    if options.refine and solutions and options.known.cell is not None:
        solutions = refine_stated(pattern, solutions, peaks, ranking, options.known.cell)
    elif options.refine and solutions and solutions[0].probability >= options.tuning.hopeless:
        solutions = refine_best(pattern, solutions, peaks, ranking.describe, options.tuning)
    solutions = _stated_only(solutions, options)
    phases = None
    if options.refine and options.phases > 1 and solutions:
        phases = _find_phases(pattern, Ranked(solutions, ranking.describe), width, ratio, options)
    if phases is not None:
        solutions = phases.among(solutions, options.tuning)[: options.most]
        solutions[0] = replace(solutions[0], formula_units=options.known.units_in(solutions[0].volume))
    doubtful = not solutions or solutions[0].probability < options.tuning.doubt
    if doubtful and symmetry is None:
        symmetry = _profile_symmetry(pattern)
    if symmetry is not None:
        symmetry = symmetry.with_solutions(solutions) if doubtful or options.symmetry else None
    solutions = [replace(each, radiation=pattern.radiation) for each in solutions]
    hints = pattern_hints(whole, solutions, options.tuning) if options.hints else ()
    second = None if phases is None else replace(phases.second, radiation=pattern.radiation)
    return IndexResult(pattern.name, solutions, hints, None, peaks, symmetry, options.known, calibration, second)


def _find_phases(
    pattern: Pattern, ranked: Ranked, width: float, ratio: float | None, options: IndexOptions
) -> Phases | None:
    """Two phases of a pattern whose best solution leaves lines unexplained; a stated cell must be the major one."""

    tuning = with_small_zero(options.tuning, SECOND_PHASE_TUNING.zero_spread)
    own = replace(options, known=NOTHING_KNOWN, most=_RIVALS, tuning=tuning)

    def search(lines: LineList) -> Ranked:
        solutions, ranking = _search(lines, require_wavelength(pattern), own, width)
        return Ranked(solutions, ranking.describe)

    phases = find_phases(pattern, ranked, search, ratio)
    cell = options.known.cell
    return phases if phases is None or cell is None or is_stated(phases.first, cell) else None


def _profile_symmetry(pattern: Pattern) -> "ProfileSymmetry | None":
    """What the whole profile says about the symmetry; None for a pattern outside the range of the model."""
    from vitreous.powder.profile_symmetry import predict_symmetry  # loads a model, which few searches need

    try:
        return predict_symmetry(pattern)
    except InputError:
        return None


def index_peak_list(
    name: str, two_theta: Floats, intensity: Floats | None, options: IndexOptions = _DEFAULT_OPTIONS
) -> IndexResult:
    """The unit cells of a peak list, with hints."""
    wavelength = peak_list_wavelength(name, options)
    line_list = check_lines(two_theta, intensity, None, wavelength, options.tuning)
    solutions, calibration = _index_lines(line_list, len(two_theta), wavelength, options)
    name_of_radiation = radiation_from_user(options.wavelength, options.anode, options.reading.neutrons).name
    solutions = [replace(each, radiation=name_of_radiation) for each in solutions]
    hints = list_hints(line_list, solutions, options.tuning)
    return IndexResult(name, solutions, hints, known=options.known, calibration=calibration)


def peak_list_wavelength(name: str, options: IndexOptions) -> float:
    """The wavelength that the options state, in ångström; a peak list needs one."""
    wavelength = radiation_from_user(options.wavelength, options.anode).wavelength
    if wavelength is None:
        raise InputError(f"{name}: found no wavelength, expected --wavelength (ångström) or --anode Cu for a peak list")
    return wavelength


def read_lines(path: InputFile, options: IndexOptions) -> tuple[PeakList, IndexOptions]:
    """A peak list from a file, and the options with the wavelength of its angles, which energies choose themselves."""
    lines = read_peak_list(path, options.wavelength, options.anode, options.reading)
    return lines, options if lines.equivalent is None else replace(options, wavelength=lines.equivalent)


def index_file(path: InputFile, options: IndexOptions = _DEFAULT_OPTIONS) -> IndexResult:
    """The unit cells of one file: a pattern, or a peak list if the options say so."""
    if options.peaks:
        lines, options = read_lines(path, options)
        result = index_peak_list(path.name, lines.two_theta, lines.intensity, options)
        return replace(result, hints=(*lines.notes, *result.hints))
    return index_pattern(read_pattern(path, options.wavelength, options.anode, **vars(options.reading)), options)


def index_files(
    paths: Sequence[Path], options: IndexOptions = _DEFAULT_OPTIONS, progress: Progress | None = None
) -> list[IndexResult]:
    """The unit cells of many files and folders of files, on all cores; an error in one does not stop the others.

    `progress` wraps the iterator over results, with their number, to show progress.
    """
    files = expand_folders(paths)
    work = partial(_index_or_error, options=options)
    processes = min(len(files) // _FILES_PER_PROCESS, os.cpu_count() or 1)
    with ExitStack() as stack:
        results: Iterable[IndexResult] = map(work, files)
        if processes > 1:
            context = get_context("spawn")  # torch's threads do not survive a fork
            pool = ProcessPoolExecutor(processes, context, torch.set_num_threads, (1,))
            results = stack.enter_context(pool).map(work, files)
        return list(results if progress is None else progress(results, len(files)))


def expand_folders(paths: Sequence[Path]) -> list[Path]:
    """Files, with every folder replaced by the files in it."""
    folders = (sorted(filter(Path.is_file, path.iterdir())) if path.is_dir() else [path] for path in paths)
    return list(chain.from_iterable(folders))


def _index_or_error(path: Path, options: IndexOptions) -> IndexResult:
    try:
        return index_file(path, options)
    except InputError as error:
        return IndexResult(path.name, [], error=str(error))
