"""Searching unit cells in worker processes, and the response of `/v1/index`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.cell import NAMES, refined_parameters
from vitreous.powder.indexing import IndexOptions, index_pattern, index_peak_list, peak_list_wavelength, read_lines
from vitreous.powder.pattern import Pattern, require_wavelength
from vitreous.powder.peaks import Peaks
from vitreous.powder.radiation import WAVELENGTH_RANGE, radiation_from_user
from vitreous.powder.refinement import Fit
from vitreous.powder.solution import IndexResult, Solution
from vitreous.predict import format_records
from vitreous.serve.arrays import to_json
from vitreous.serve.limits import Limits
from vitreous.serve.patterns import (
    MAX_TICKS,
    PatternFile,
    PatternJob,
    thin_curves,
    tick_records,
    without_dashes,
    without_dashes_in_errors,
)  # fmt: skip
from vitreous.serve.projects import project_records
from vitreous.serve.uploads import check_file
from vitreous.serve.workers import JobResult

_MAX_SYMBOLS = 5  # extinction symbols
_MAX_PEAKS = 200  # of a peak list; no search uses more
_NOT_IN_CSV = ("reduced", "formula_units")
_LIKELY = 0.5  # probability above which the first cell counts as likely
_PEAK_LIST_RANGE = (1.0, 170.0)  # degrees: range of reflections if a peak list states none
_PEAK_LIST_FORMATS = (".txt", ".csv", ".dat", ".xy")


@dataclass(frozen=True)
class PeakListFile(PatternFile):
    """A file with a list of peaks."""

    options: IndexOptions

    def fields(self) -> dict[str, Any]:
        """Read the fields of a `SearchJob`."""
        check_file(self.file, _PEAK_LIST_FORMATS, self.limits)
        if self.file.content.count(b"\n") > _MAX_PEAKS:
            raise InputError(f"{self.file}: found more than {_MAX_PEAKS} lines; is this a pattern?")
        lines, options = read_lines(self.file, self.options)
        peak_list_wavelength(self.file.name, options)
        columns = {"two_theta": lines.two_theta, "intensity": lines.intensity}
        return {**columns, "name": self.file.name, "equivalent": lines.equivalent, "notes": lines.notes}


@dataclass(frozen=True)
class SearchJob(PatternJob):
    """A search for the unit cells of a pattern or a list of peaks."""

    options: IndexOptions
    name: str = "lines"
    equivalent: float | None = None  # ångström: the wavelength of the angles of a peak list of energies
    notes: Sequence[str] = ()  # on the reading of a peak list
    projects: Sequence[str] = ()  # programs to write projects for

    @classmethod
    def from_file(cls, options: IndexOptions, limits: Limits, fields: dict[str, Any]) -> "SearchJob":
        """Return the search for the fields of a file."""
        if not options.peaks:
            return cls(options, limits, pattern=Pattern(**fields))
        equivalent = fields["equivalent"]
        return cls(options if equivalent is None else replace(options, wavelength=equivalent), limits, **fields)


def search(job: SearchJob) -> JobResult:
    """Search the unit cells; return the response as JSON."""
    with without_dashes_in_errors():
        pattern = None if job.options.peaks else job.load_pattern()
        result = _search_peaks(job) if pattern is None else index_pattern(pattern, job.options)
        response = _response(pattern, result, job.options)
        response["projects"] = project_records(result, job.projects)
    return {}, json.dumps(response, ensure_ascii=False, allow_nan=False).encode()


def _search_peaks(job: SearchJob) -> IndexResult:
    assert job.two_theta is not None
    if len(job.two_theta) > _MAX_PEAKS:
        raise InputError(f"two_theta: found {len(job.two_theta)} peaks, expected at most {_MAX_PEAKS}")
    result = index_peak_list(job.name, job.two_theta, job.intensity, job.options)
    return replace(result, hints=(*job.notes, *result.hints))


def _response(pattern: Pattern | None, result: IndexResult, options: IndexOptions) -> dict[str, Any]:
    if pattern is None:
        wavelength = radiation_from_user(options.wavelength, options.anode).wavelength or WAVELENGTH_RANGE[0]
        angles = _PEAK_LIST_RANGE
    else:
        wavelength = require_wavelength(pattern)
        angles = float(pattern.two_theta[0]), float(pattern.two_theta[-1])
    best = result.solutions[0] if result.solutions else None
    verdict = "none" if best is None else "likely" if best.probability >= _LIKELY else "unsure"
    return {
        "verdict": verdict,
        "hints": [without_dashes(remark) for remark in result.remarks],
        "pattern": None if pattern is None else _pattern_record(pattern),
        "peaks": [] if result.peaks is None else _peak_records(result.peaks, wavelength),
        "cells": [
            _cell_record(solution)
            | {"ticks": tick_records(*solution.reflections(angles, MAX_TICKS)), "cif": solution.to_cif(refined=False)}
            for solution in result.solutions
        ],
        "fit": None if result.fit is None else _fit_record(result.fit),
        "known": {} if result.known is None else result.known.to_dict(),
        "calibration": None if result.calibration is None else result.calibration.to_dict(),
        "symbols": [] if best is None else [symbol.to_dict() for symbol in best.symbols[:_MAX_SYMBOLS]],
        "unexplained": [line.to_dict() for line in result.unexplained[:_MAX_PEAKS]],
        "second": None if result.second is None else _second_record(result.solutions[0], result.second, angles),
        "csv": _csv(result.solutions),
        "lines_csv": _csv_or_nothing([line.to_dict() for line in result.indexed_lines()]),
        "cif": "" if best is None else best.to_cif(),
    }


def _pattern_record(pattern: Pattern) -> dict[str, Any]:
    wavelengths = {name: getattr(pattern, name) for name in ("wavelength", "wavelength2")}
    known = {**wavelengths, "radiation": pattern.radiation, "points": len(pattern.two_theta)}
    return {**known, **thin_curves(pattern, "intensity")}


def _peak_records(peaks: Peaks, wavelength: float) -> list[dict[str, float]]:
    d = wavelength / (2 * np.sin(np.radians(np.maximum(peaks.two_theta, 1e-3) / 2)))
    columns = (to_json(values, 7) for values in (peaks.two_theta, peaks.error, peaks.intensity, d))
    return [dict(zip(("two_theta", "error", "intensity", "d"), row, strict=True)) for row in zip(*columns, strict=True)]


def _cell_parameters(cell: tuple[float, ...]) -> dict[str, float]:
    return dict(zip(NAMES, to_json(cell, 8), strict=True))


def _cell_record(solution: Solution) -> dict[str, Any]:
    return {
        "system": solution.system,
        "centring": solution.centring,
        **_cell_parameters(solution.conventional),
        "reduced": to_json(solution.cell, 8),
        "indexed": solution.indexed,
        "lines": solution.lines,
        **{name: to_json(getattr(solution, name), 6) for name in ("volume", "m20", "f20", "zero", "probability")},
        "formula_units": None if solution.formula_units is None else round(solution.formula_units, 3),
    }


def _fit_record(fit: Fit) -> dict[str, Any]:
    return {
        **_cell_parameters(fit.cell),
        "errors": _cell_parameters(fit.errors),
        "text": refined_parameters(fit.cell, fit.errors),
        **{name: to_json(getattr(fit, name), 6) for name in ("zero", "rwp", "chi2")},
        **thin_curves(fit, "observed", "calculated", "background"),
        "ticks": tick_records(fit.hkl, fit.positions),
    }


def _second_record(first: Solution, second: Solution, angles: tuple[float, float]) -> dict[str, Any]:
    assert first.fit is not None
    assert second.fit is not None
    fit = second.fit
    return {
        **_cell_record(second),
        "ticks": tick_records(*second.refined_reflections(angles, MAX_TICKS)),
        "cif": second.to_cif(),
        "refined": _cell_parameters(fit.cell),
        "errors": _cell_parameters(fit.errors),
        "text": refined_parameters(fit.cell, fit.errors),
        **dict(zip(("share", "first_share"), to_json((fit.share, first.fit.share), 6), strict=True)),
    }


def _csv(solutions: list[Solution]) -> str:
    units = {**dict.fromkeys("abc", "Å"), **dict.fromkeys(NAMES[3:], "°"), "volume": "Å³", "f20": "1/°", "zero": "°"}
    headings = {name: f"{name} ({unit})" for name, unit in units.items()}
    cells = [_cell_record(solution) for solution in solutions]
    records = [{headings.get(name, name): cell[name] for name in cell if name not in _NOT_IN_CSV} for cell in cells]
    return _csv_or_nothing(records)


def _csv_or_nothing(records: list[dict[str, Any]]) -> str:
    return format_records(records, "csv") if records else ""
