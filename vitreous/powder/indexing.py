"""What the command `index` does, apart from its flags: files in, unit cells out, as a table, JSON and a figure."""

import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track
from rich.table import Table
from torch import set_num_threads

from vitreous.atomic import write_atomically
from vitreous.data.held import File
from vitreous.errors import InputError
from vitreous.insight.fit import fit_figure
from vitreous.insight.indexed import indexed_page
from vitreous.insight.style import check_format, save
from vitreous.powder.cell import NAMES, with_error
from vitreous.powder.files import Pattern, given_radiation, read_pattern, require_wavelength
from vitreous.powder.hints import doubts, hints
from vitreous.powder.peaks import Peaks, find_peaks
from vitreous.powder.rank import Solution
from vitreous.powder.refine import Fit, refine
from vitreous.powder.solve import LATTICES, index_found, index_peaks
from vitreous.zoo.show import console

_HEADINGS = ("a (Å)", "b", "c", "α (°)", "β", "γ")
_TRUSTED = 0.5  # probability from which on the whole pattern is fitted
_MANY = 4  # files for which it is worth starting a process


@dataclass(frozen=True)
class Indexed:
    """A file, its cells, best first, the fit of the whole pattern with the best, and what to look at; or its fault.

    Of a pattern also the lines that were found in it.
    """

    name: str
    solutions: list[Solution]
    fit: Fit | None = None
    hints: Sequence[str] = ()
    fault: str | None = None
    peaks: Peaks | None = None


@dataclass(frozen=True)
class Wanted:
    """How files are read and searched."""

    anode: str | None = None
    wavelength: float | None = None
    peaks: bool = False
    systems: Sequence[str] = tuple(LATTICES)
    most: int = 5


def index_files(files: Sequence[Path], wanted: Wanted, figure: Path | None, report: Path | None, as_json: bool) -> None:
    """Index every file, and those in every folder; print a table or JSON, and draw the fit of one."""
    if figure is not None:
        check_format(figure)
    paths = [
        path
        for file in files
        for path in (sorted(p for p in file.iterdir() if p.is_file()) if file.is_dir() else [file])
    ]
    for name, path in (("figure", figure), ("report", report)):
        if path is not None and len(paths) != 1:
            raise InputError(f"{name}: is of one pattern, but there are {len(paths)}")
    found = [index_file(paths[0], wanted)] if len(paths) == 1 else _index_all(paths, wanted, quiet=as_json)
    if figure is not None:
        (one,) = found
        if one.fit is None:
            raise InputError(f"{one.name}: there is no cell to draw the fit of")
        save(fit_figure(one.fit, one.name), figure)
    if report is not None:
        (one,) = found
        command = f"vitreous index {paths[0].name}{_flags(wanted)} --report {report.name}"
        write_atomically(report, indexed_page(one.name, one.solutions, one.fit, one.hints, command).encode())
    if as_json:
        print(json.dumps([_record(one) for one in found], indent=1))
    elif len(found) == 1:
        _print_solutions(found[0])
    else:
        _print_best(found)


def _flags(wanted: Wanted) -> str:
    given = {"anode": wanted.anode, "wavelength": wanted.wavelength}
    return "".join(f" --{name} {value}" for name, value in given.items() if value) + " --peaks" * wanted.peaks


def _index_all(paths: Sequence[Path], wanted: Wanted, quiet: bool) -> list[Indexed]:
    """Many files, each on a core of its own; what is wrong with one does not stop the others."""
    jobs = min(len(paths) // _MANY, os.cpu_count() or 1)
    one = partial(_tried, wanted=wanted)
    with ExitStack() as stack:
        results: Iterable[Indexed] = map(one, paths)
        if jobs > 1:
            context = get_context("spawn")  # threads of torch do not survive a fork
            results = stack.enter_context(ProcessPoolExecutor(jobs, context, set_num_threads, (1,))).map(one, paths)
        shown = {"console": console(), "disable": quiet, "transient": True, "total": len(paths)}
        return list(track(results, "indexing", **shown))  # type: ignore[arg-type]


def _tried(path: Path, wanted: Wanted) -> Indexed:
    try:
        return index_file(path, wanted)
    except InputError as fault:
        return Indexed(path.name, [], fault=str(fault))


def index_file(path: File, wanted: Wanted) -> Indexed:
    """The cells of one pattern, or of one list of lines, and the fit of the best."""
    if wanted.peaks:
        lines = _read_lines(path)
        return index_lines(path.name, lines[:, 0], lines[:, 1] if lines.shape[1] > 1 else None, wanted)
    return with_hints(read_pattern(path, wanted.wavelength, wanted.anode), wanted)


def with_hints(pattern: Pattern, wanted: Wanted) -> Indexed:
    """The cells of a pattern, the fit of the best, and what to look at."""
    found = index_pattern(pattern, wanted)
    return replace(found, hints=hints(pattern, found.solutions))


def index_lines(
    name: str, two_theta: NDArray[np.float64], intensity: NDArray[np.float64] | None, wanted: Wanted
) -> Indexed:
    """The cells of a list of lines."""
    wavelength = given_radiation(wanted.wavelength, wanted.anode).wavelength
    if wavelength is None:
        raise InputError(f"{name}: a list of lines has no wavelength; give --wavelength (ångström) or --anode Cu")
    solutions = index_peaks(
        two_theta, intensity, wavelength=wavelength, systems=wanted.systems, most=wanted.most
    )  # fmt: skip
    return Indexed(name, solutions, hints=doubts(solutions))


def index_pattern(pattern: Pattern, wanted: Wanted) -> Indexed:
    """The cells of a pattern, and the fit of the best."""
    wavelength = require_wavelength(pattern)
    ratio = None if pattern.wavelength2 is not None else 0.0  # of a doublet it is found in the pattern
    peaks = find_peaks(
        pattern.two_theta, pattern.intensity, pattern.sigma, wavelength, pattern.wavelength2, ratio
    )  # fmt: skip
    solutions = index_found(peaks, wavelength, wanted.systems, wanted.most)
    return Indexed(pattern.name, solutions, _fitted(pattern, solutions), peaks=peaks)


def _fitted(pattern: Pattern, solutions: list[Solution]) -> Fit | None:
    """The whole pattern with the best cell, where that is to be trusted."""
    if not solutions or solutions[0].probability < _TRUSTED:
        return None
    best = solutions[0]
    try:
        return refine(
            pattern.two_theta, pattern.intensity, best.conventional, wavelength=require_wavelength(pattern),
            wavelength2=pattern.wavelength2, ratio=pattern.ratio, sigma=pattern.sigma, zero=best.zero,
            system="trigonal" if best.centring == "R" else best.system, centring=best.centring,
        )  # fmt: skip
    except InputError:
        return None


def _read_lines(path: File) -> NDArray[np.float64]:
    """Angles, and intensities where there are any: one line a row."""
    try:
        with path.open("r", encoding="utf-8") as file:
            text: str = file.read()
    except (OSError, UnicodeDecodeError) as fault:
        reason = getattr(fault, "strerror", None) or "it is not text"
        raise InputError(f"{path}: cannot be read ({reason})") from None
    rows = [line.replace(",", " ").replace(";", " ").split() for line in text.splitlines()]
    rows = [row for row in rows if row and row[0][0] not in "#!"]
    if not rows:
        raise InputError(f"{path}: is empty, expected 2θ and intensity, one line a row")
    try:
        found = np.array([[float(word) for word in row[:2]] for row in rows])
    except ValueError:
        raise InputError(f"{path}: expected numbers, 2θ and intensity, one line a row") from None
    return found


def _record(one: Indexed) -> dict[str, Any]:
    record: dict[str, Any] = {"file": one.name, "solutions": [asdict(solution) for solution in one.solutions]}
    if one.hints:
        record["hints"] = list(one.hints)
    if one.fault is not None:
        record["fault"] = one.fault
    if one.fit is not None:
        fit = one.fit
        record["refined"] = {
            "cell": fit.cell, "errors": fit.errors, "zero": fit.zero, "rwp": fit.rwp, "chi2": fit.chi2,
        }  # fmt: skip
    return record


def _print_solutions(one: Indexed) -> None:
    for hint in one.hints:
        console().print(f"{one.name}: {hint}", highlight=False, soft_wrap=True)
    if not one.solutions:
        return
    table = Table(title=f"{one.name}: unit cells, likeliest first")
    for heading in ("lattice", *_HEADINGS, "V (Å³)", "M20", "F20", "lines", "zero (°)", "prob."):
        table.add_column(heading, justify="left" if heading == "lattice" else "right", no_wrap=heading == "lattice")
    for s in one.solutions:
        cell = [f"{value:.4f}" for value in s.conventional[:3]] + [f"{value:.2f}" for value in s.conventional[3:]]
        table.add_row(
            f"{s.system} {s.centring}", *cell, f"{s.volume:.1f}", f"{s.m20:.1f}", f"{s.f20:.1f}",
            f"{s.indexed}/{s.lines}", f"{s.zero:.3f}", f"{s.probability:.3f}",
        )  # fmt: skip
    console().print(table)
    if one.fit is not None:
        text = ", ".join(
            f"{name} = {with_error(value, error)} {'Å' if name in 'abc' else '°'}"
            for name, value, error in zip(NAMES, one.fit.cell, one.fit.errors, strict=True)
            if error > 0
        )
        console().print(f"refined on the whole pattern (Rwp {one.fit.rwp:.1%}): {text}", highlight=False)


def _print_best(found: Sequence[Indexed]) -> None:
    table = Table(title="The likeliest cell of each pattern")
    for heading in ("file", "lattice", *_HEADINGS, "M20", "probability"):
        table.add_column(heading, justify="left" if heading in ("file", "lattice") else "right")
    for one in found:
        for remark in (one.fault, *(f"{one.name}: {hint}" for hint in one.hints)):
            if remark is not None:
                console().print(remark, highlight=False, soft_wrap=True)
        if not one.solutions:
            table.add_row(one.name, "none")
            continue
        s = one.solutions[0]
        values = s.conventional if one.fit is None else one.fit.cell
        cell = [f"{value:.4f}" for value in values[:3]] + [f"{value:.3f}" for value in values[3:]]
        table.add_row(one.name, f"{s.system} {s.centring}", *cell, f"{s.m20:.1f}", f"{s.probability:.3f}")
    console().print(table)
