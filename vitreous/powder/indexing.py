"""Indexing: from lines, arrays, patterns or files to unit cells."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitreous.core.errors import InputError
from vitreous.data.uploads import InputFile
from vitreous.powder.calibration import Calibration, calibrate_lines
from vitreous.powder.files import PeakList, read_pattern, read_peak_list
from vitreous.powder.hints import list_hints
from vitreous.powder.index_options import DEFAULT_OPTIONS, IndexOptions
from vitreous.powder.known import NOTHING_KNOWN, Known
from vitreous.powder.line_list import LineList, check_lines
from vitreous.powder.pattern import Pattern
from vitreous.powder.pipeline import index_pattern, search_lines, stated_only
from vitreous.powder.processes import core_count, end_on_sigterm, map_unordered
from vitreous.powder.radiation import radiation_from_user
from vitreous.powder.search import LATTICES
from vitreous.powder.solution import IndexResult, Solution
from vitreous.powder.tuning import SEARCH_TUNING, SearchTuning

__all__ = [
    "IndexOptions", "expand_folders", "index", "index_file", "index_files", "index_pattern", "index_peak_list",
    "index_peaks", "peak_list_wavelength", "read_lines",
]  # fmt: skip

Floats = NDArray[np.float64]
Progress = Callable[[Iterable[IndexResult], int], Iterable[IndexResult]]

_FILES_PER_PROCESS = 4  # fewer files are not worth the start of a process


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
    return stated_only(search_lines(line_list, wavelength, options).solutions, options), calibration


def index_peak_list(
    name: str, two_theta: Floats, intensity: Floats | None, options: IndexOptions = DEFAULT_OPTIONS
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


def index_file(path: InputFile, options: IndexOptions = DEFAULT_OPTIONS) -> IndexResult:
    """The unit cells of one file: a pattern, or a peak list if the options say so."""
    if options.peaks:
        lines, options = read_lines(path, options)
        result = index_peak_list(path.name, lines.two_theta, lines.intensity, options)
        return replace(result, hints=(*lines.notes, *result.hints))
    return index_pattern(read_pattern(path, options.wavelength, options.anode, **vars(options.reading)), options)


def index_files(
    paths: Sequence[Path], options: IndexOptions = DEFAULT_OPTIONS, progress: Progress | None = None
) -> list[IndexResult]:
    """The unit cells of many files and folders of files, on all cores; an error in one does not stop the others.

    `progress` wraps the iterator over results, with their number, to show progress.
    """
    files = expand_folders(paths)
    work = partial(_index_or_error, options=options)
    processes = min(len(files) // _FILES_PER_PROCESS, core_count())
    places = list[int]()  # of the files whose results have come

    def results() -> Iterator[IndexResult]:
        ready = map_unordered(work, enumerate(files), processes) if processes > 1 else map(work, enumerate(files))
        for place, result in ready:
            places.append(place)
            yield result

    with end_on_sigterm():
        found = list(results() if progress is None else progress(results(), len(files)))
    return [result for _, result in sorted(zip(places, found, strict=True), key=itemgetter(0))]


def expand_folders(paths: Sequence[Path]) -> list[Path]:
    """Files, with every folder replaced by the files in it."""
    folders = (sorted(filter(Path.is_file, path.iterdir())) if path.is_dir() else [path] for path in paths)
    return list(chain.from_iterable(folders))


def _index_or_error(file: tuple[int, Path], options: IndexOptions) -> tuple[int, IndexResult]:
    """The place of a file among others, and its result."""
    place, path = file
    try:
        return place, index_file(path, options)
    except InputError as error:
        return place, IndexResult(path.name, [], error=str(error))
