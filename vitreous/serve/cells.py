"""A powder pattern to its unit cells, in a process of its own: what `/v1/index` answers."""

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.data import Held
from vitreous.data.extras import load_extra
from vitreous.errors import InputError
from vitreous.powder.cell import NAMES, with_error
from vitreous.powder.columns import WAVELENGTHS
from vitreous.powder.example import example
from vitreous.powder.files import FORMATS, Pattern, given_radiation, pattern_of, read_pattern, require_wavelength
from vitreous.powder.indexing import Indexed, Wanted, index_file, index_lines, with_hints
from vitreous.powder.lattice import volumes
from vitreous.powder.peaks import Peaks
from vitreous.powder.rank import Solution
from vitreous.powder.refine import Fit, reflections
from vitreous.predict import as_text
from vitreous.serve.limits import Limits
from vitreous.serve.numbers import chosen, plain, thinned
from vitreous.serve.reading import check_file
from vitreous.serve.workers import Told

_SHOWN = 20_000  # points of a curve
_TICKS = 400  # reflections of a cell
_LINES = 200  # lines of a list: more than any search looks at
_LIKELY = 0.5
_ANGLES = (1.0, 170.0)  # degrees, where a list of lines does not say how far was measured


@dataclass(frozen=True)
class Search:
    """A pattern or list of lines, in one of three ways, and how it is to be searched."""

    wanted: Wanted
    limits: Limits
    file: Held | None = None
    example: str | None = None
    two_theta: tuple[float, ...] = ()
    intensity: tuple[float, ...] | None = None
    sigma: tuple[float, ...] | None = None


def search(job: Search) -> Told:
    """The cells, as the JSON of the answer."""
    try:
        pattern, found = _searched(job)
    except InputError as fault:
        raise InputError(_spoken(str(fault))) from None
    return {}, json.dumps(_record(pattern, found, job.wanted), ensure_ascii=False, allow_nan=False).encode()


def _searched(job: Search) -> tuple[Pattern | None, Indexed]:
    wanted = job.wanted
    if wanted.peaks:
        return None, _lines(job)
    pattern = _pattern(job)
    if len(pattern.two_theta) > job.limits.points:
        raise InputError(f"{pattern.name}: found {len(pattern.two_theta)} points, expected {job.limits.points} at most")
    return pattern, with_hints(pattern, wanted)


def _lines(job: Search) -> Indexed:
    if job.file is not None:
        check_file(job.file, (".txt", ".csv", ".dat", ".xy"), job.limits)
        if job.file.content.count(b"\n") > _LINES:
            raise InputError(f"{job.file}: found more than {_LINES} lines; is this a pattern?")
        return index_file(job.file, job.wanted)
    if len(job.two_theta) > _LINES:
        raise InputError(f"two_theta: found {len(job.two_theta)} lines, expected {_LINES} at most")
    heights = None if job.intensity is None else np.array(job.intensity)
    return index_lines("lines", np.array(job.two_theta), heights, job.wanted)


def _pattern(job: Search) -> Pattern:
    wavelength, anode = job.wanted.wavelength, job.wanted.anode
    if job.example is not None:
        return example(job.example)
    if job.file is not None:
        check_file(job.file, FORMATS, job.limits)
        return read_pattern(job.file, wavelength, anode)
    if job.intensity is None:
        raise InputError("intensity: expected as many numbers as two_theta has")
    columns = (np.array(job.two_theta), np.array(job.intensity), None if job.sigma is None else np.array(job.sigma))
    return pattern_of(*columns, wavelength, anode)


def _spoken(text: str) -> str:
    """A message of the command line as the service says it: fields have no dashes."""
    return re.sub(r"--(?=\w)", "", text)


def _record(pattern: Pattern | None, found: Indexed, wanted: Wanted) -> dict[str, Any]:
    if pattern is None:
        wavelength, limits = given_radiation(wanted.wavelength, wanted.anode).wavelength or WAVELENGTHS[0], _ANGLES
    else:
        wavelength, limits = require_wavelength(pattern), (float(pattern.two_theta[0]), float(pattern.two_theta[-1]))
    best = found.solutions[0] if found.solutions else None
    verdict = "none" if best is None else "likely" if best.probability >= _LIKELY else "unsure"
    return {
        "verdict": verdict,
        "hints": [_spoken(hint) for hint in found.hints],
        "pattern": None if pattern is None else _curve(pattern),
        "peaks": [] if found.peaks is None else _peaks(found.peaks, wavelength),
        "cells": [
            _cell(s) | {"ticks": _ticks(s, wavelength, limits), "cif": _cif(s, None, wavelength)}
            for s in found.solutions
        ],
        "fit": None if found.fit is None else _fit(found.fit),
        "csv": _csv(found.solutions),
        "cif": "" if best is None else _cif(best, found.fit, wavelength),
    }


def _curve(pattern: Pattern) -> dict[str, Any]:
    angle, intensity = chosen((pattern.two_theta, pattern.intensity), thinned(pattern.intensity, _SHOWN))
    return {
        "wavelength": pattern.wavelength,
        "wavelength2": pattern.wavelength2,
        "points": len(pattern.two_theta),
        "two_theta": angle,
        "intensity": intensity,
    }


def _peaks(peaks: Peaks, wavelength: float) -> list[dict[str, float]]:
    d = wavelength / (2 * np.sin(np.radians(np.maximum(peaks.two_theta, 1e-3) / 2)))
    columns = (plain(values, 7) for values in (peaks.two_theta, peaks.error, peaks.intensity, d))
    return [dict(zip(("two_theta", "error", "intensity", "d"), row, strict=True)) for row in zip(*columns, strict=True)]


def _named(cell: tuple[float, ...]) -> dict[str, float]:
    return dict(zip(NAMES, plain(cell, 8), strict=True))


def _cell(s: Solution) -> dict[str, Any]:
    numbers = {name: plain(getattr(s, name), 6) for name in ("volume", "m20", "f20", "zero", "probability")}
    return {
        "system": s.system, "centring": s.centring, **_named(s.conventional), "reduced": plain(s.cell, 8),
        "indexed": s.indexed, "lines": s.lines, **numbers,
    }  # fmt: skip


def _ticks(s: Solution, wavelength: float, limits: tuple[float, float]) -> list[dict[str, Any]]:
    system = "trigonal" if s.centring == "R" else s.system
    try:
        hkl, angle = reflections(s.conventional, system, s.centring, wavelength, limits, _TICKS)
    except InputError:  # none in the range
        return []
    return _marks(angle + s.zero, hkl)


def _marks(angle: NDArray[np.float64], hkl: NDArray[np.int64]) -> list[dict[str, Any]]:
    return [{"two_theta": x, "hkl": row} for x, row in zip(plain(angle, 7), hkl.tolist(), strict=True)]


def _fit(fit: Fit) -> dict[str, Any]:
    columns = (fit.two_theta, fit.observed, fit.calculated, fit.background)
    curves = chosen(columns, thinned(fit.observed, _SHOWN))
    text = ", ".join(
        f"{name} = {with_error(value, error)}{' Å' if name in 'abc' else '°'}"
        for name, value, error in zip(NAMES, fit.cell, fit.errors, strict=True)
        if error > 0
    )
    return {
        **_named(fit.cell),
        "errors": _named(fit.errors),
        "text": text,
        **{name: plain(getattr(fit, name), 6) for name in ("zero", "rwp", "chi2")},
        **dict(zip(("two_theta", "observed", "calculated", "background"), curves, strict=True)),
        "ticks": _marks(fit.positions, fit.hkl),
    }


def _csv(solutions: list[Solution]) -> str:
    units = {**dict.fromkeys("abc", "Å"), **dict.fromkeys(NAMES[3:], "°"), "volume": "Å³", "f20": "1/°", "zero": "°"}
    records = [
        {f"{name} ({units[name]})" if name in units else name: value for name, value in _cell(s).items()
         if name != "reduced"}
        for s in solutions
    ]  # fmt: skip
    return as_text(records, "csv") if records else ""


def _cif(s: Solution, fit: Fit | None, wavelength: float) -> str:
    """A cell, as other programs take it: standard errors where it was refined."""
    cif = load_extra("gemmi", "powder").cif
    document = cif.Document()
    block = document.add_new_block("cell")
    cell, errors = (fit.cell, fit.errors) if fit is not None else (s.conventional, (0.0,) * 6)
    for name, value, error in zip(NAMES, cell, errors, strict=True):
        label = f"_cell_length_{name}" if name in "abc" else f"_cell_angle_{name}"
        block.set_pair(label, with_error(value, error) if error > 0 else f"{value:.5f}")
    block.set_pair("_cell_volume", f"{float(volumes([cell])[0]):.3f}")
    block.set_pair("_space_group_crystal_system", "trigonal" if s.centring == "R" else s.system)
    block.set_pair("_space_group_centring_type", s.centring)
    block.set_pair("_diffrn_radiation_wavelength", f"{wavelength:g}")
    if fit is not None:
        block.set_pair("_pd_proc_ls_prof_wR_factor", f"{fit.rwp:.4f}")
    text: str = document.as_string()
    return text
