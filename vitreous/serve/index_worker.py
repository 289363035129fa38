"""Reading patterns and searching unit cells in worker processes, and the response of `/v1/index`."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.data import Upload
from vitreous.powder.cell import NAMES, refined_parameters
from vitreous.powder.example import example
from vitreous.powder.files import FORMATS, read_pattern
from vitreous.powder.indexing import IndexOptions, index_pattern, index_peak_list, peak_list_wavelength, read_lines
from vitreous.powder.pattern import Pattern, pattern_from_arrays, require_wavelength
from vitreous.powder.peaks import Peaks
from vitreous.powder.radiation import WAVELENGTH_RANGE, radiation_from_user
from vitreous.powder.refinement import Fit
from vitreous.powder.solution import IndexResult, Solution
from vitreous.predict import format_records
from vitreous.serve.arrays import thin_curve, to_json
from vitreous.serve.limits import Limits
from vitreous.serve.uploads import check_file, from_bytes, to_bytes
from vitreous.serve.workers import JobResult

_MAX_POINTS = 20_000  # of a curve in the response
_MAX_TICKS = 400  # reflections of a cell
_MAX_SYMBOLS = 5  # extinction symbols
_MAX_PEAKS = 200  # of a peak list; no search uses more
_NOT_IN_CSV = ("reduced", "formula_units")
_LIKELY = 0.5  # probability above which the first cell counts as likely
_PEAK_LIST_RANGE = (1.0, 170.0)  # degrees: range of reflections if a peak list states none
_PEAK_LIST_FORMATS = (".txt", ".csv", ".dat", ".xy")


@dataclass(frozen=True)
class PatternFile:
    """A file with a pattern, or with a list of peaks if the options say so."""

    file: Upload
    options: IndexOptions
    limits: Limits

    def read(self) -> JobResult:
        """Read the fields of a `Pattern`: columns of numbers as an NPY file, the others as a record."""
        with _without_dashes_in_errors():
            fields = self._read_peaks() if self.options.peaks else vars(self._read_pattern())
        columns = {name: values for name, values in fields.items() if isinstance(values, np.ndarray)}
        record = {name: value for name, value in fields.items() if name not in columns}
        return record | {"columns": list(columns)}, to_bytes(np.stack(list(columns.values())))

    def _read_peaks(self) -> dict[str, Any]:
        check_file(self.file, _PEAK_LIST_FORMATS, self.limits)
        if self.file.content.count(b"\n") > _MAX_PEAKS:
            raise InputError(f"{self.file}: found more than {_MAX_PEAKS} lines; is this a pattern?")
        lines, options = read_lines(self.file, self.options)
        peak_list_wavelength(self.file.name, options)
        columns = {"two_theta": lines.two_theta, "intensity": lines.intensity}
        return {**columns, "name": self.file.name, "equivalent": lines.equivalent, "notes": lines.notes}

    def _read_pattern(self) -> Pattern:
        check_file(self.file, FORMATS, self.limits)
        return _check_points(self._as_stated(), self.limits)

    def _as_stated(self) -> Pattern:
        return read_pattern(self.file, self.options.wavelength, self.options.anode, **vars(self.options.reading))


@dataclass(frozen=True)
class SearchJob:
    """A pattern or peak list (an example, numbers, or what a `PatternFile` has read) and the options of the search."""

    options: IndexOptions
    limits: Limits
    example: str | None = None
    pattern: Pattern | None = None
    two_theta: NDArray[np.float64] | None = None
    intensity: NDArray[np.float64] | None = None
    sigma: NDArray[np.float64] | None = None
    name: str = "lines"
    equivalent: float | None = None  # ångström: the wavelength of the angles of a peak list of energies
    notes: Sequence[str] = ()  # on the reading of a peak list

    @classmethod
    def from_file(cls, file: PatternFile, record: dict[str, Any], content: bytes) -> "SearchJob":
        """Return the search for the result of `PatternFile.read`."""
        fields = record | dict(zip(record["columns"], from_bytes(content), strict=True))
        del fields["columns"]
        data = fields if file.options.peaks else {"pattern": Pattern(**fields)}
        equivalent = fields["equivalent"] if file.options.peaks else None
        options = file.options if equivalent is None else replace(file.options, wavelength=equivalent)
        return cls(options, file.limits, **data)


def search(job: SearchJob) -> JobResult:
    """Search the unit cells; return the response as JSON."""
    with _without_dashes_in_errors():
        pattern = None if job.options.peaks else _pattern(job)
        result = _search_peaks(job) if pattern is None else index_pattern(pattern, job.options)
    return {}, json.dumps(_response(pattern, result, job.options), ensure_ascii=False, allow_nan=False).encode()


def _search_peaks(job: SearchJob) -> IndexResult:
    assert job.two_theta is not None
    if len(job.two_theta) > _MAX_PEAKS:
        raise InputError(f"two_theta: found {len(job.two_theta)} peaks, expected at most {_MAX_PEAKS}")
    result = index_peak_list(job.name, job.two_theta, job.intensity, job.options)
    return replace(result, hints=(*job.notes, *result.hints))


def _pattern(job: SearchJob) -> Pattern:
    if job.pattern is not None:
        return job.pattern
    if job.example is not None:
        return _check_points(example(job.example), job.limits)
    if job.two_theta is None or job.intensity is None:
        raise InputError("intensity: expected as many numbers as two_theta has")
    radiation = job.options.wavelength, job.options.anode, job.options.reading.neutrons
    return _check_points(pattern_from_arrays(job.two_theta, job.intensity, job.sigma, *radiation), job.limits)


def _check_points(pattern: Pattern, limits: Limits) -> Pattern:
    if len(pattern.two_theta) > limits.points:
        raise InputError(f"{pattern.name}: found {len(pattern.two_theta)} points, expected at most {limits.points}")
    return pattern


@contextmanager
def _without_dashes_in_errors() -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(_without_dashes(str(error))) from None


def _without_dashes(text: str) -> str:
    """Rewrite a message of the command line for the service: fields have no dashes."""
    return re.sub(r"--(\w[\w-]*)", lambda flag: flag[1].replace("-", "_"), text)


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
        "hints": [_without_dashes(remark) for remark in result.remarks],
        "pattern": None if pattern is None else _pattern_record(pattern),
        "peaks": [] if result.peaks is None else _peak_records(result.peaks, wavelength),
        "cells": [
            _cell_record(solution)
            | {"ticks": _tick_records(*solution.reflections(angles, _MAX_TICKS)), "cif": solution.to_cif(refined=False)}
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


def _curves(source: Pattern | Fit, main: str, *others: str) -> dict[str, Any]:
    """Return curves by name, at few points that keep the peaks of the main one; 2θ comes first."""
    indices = thin_curve(getattr(source, main), _MAX_POINTS)
    return {name: to_json(getattr(source, name)[indices], 6) for name in ("two_theta", main, *others)}


def _pattern_record(pattern: Pattern) -> dict[str, Any]:
    wavelengths = {name: getattr(pattern, name) for name in ("wavelength", "wavelength2")}
    known = {**wavelengths, "radiation": pattern.radiation, "points": len(pattern.two_theta)}
    return {**known, **_curves(pattern, "intensity")}


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


def _tick_records(hkl: NDArray[np.int64], angle: NDArray[np.float64]) -> list[dict[str, Any]]:
    return [{"two_theta": x, "hkl": row} for x, row in zip(to_json(angle, 7), hkl.tolist(), strict=True)]


def _fit_record(fit: Fit) -> dict[str, Any]:
    return {
        **_cell_parameters(fit.cell),
        "errors": _cell_parameters(fit.errors),
        "text": refined_parameters(fit.cell, fit.errors),
        **{name: to_json(getattr(fit, name), 6) for name in ("zero", "rwp", "chi2")},
        **_curves(fit, "observed", "calculated", "background"),
        "ticks": _tick_records(fit.hkl, fit.positions),
    }


def _second_record(first: Solution, second: Solution, angles: tuple[float, float]) -> dict[str, Any]:
    assert first.fit is not None
    assert second.fit is not None
    fit = second.fit
    return {
        **_cell_record(second),
        "ticks": _tick_records(*second.refined_reflections(angles, _MAX_TICKS)),
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
