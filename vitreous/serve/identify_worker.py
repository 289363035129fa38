"""Identifying phases in worker processes, and the response of `/v1/identify`."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.bragg import two_theta_from_s
from vitreous.powder.cell import NAMES, metrics_of
from vitreous.powder.files import ReadOptions
from vitreous.powder.identify.answer import Identification, IdentifiedPhase
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.identification import IdentifyOptions, identify_pattern
from vitreous.powder.pattern import Pattern, require_wavelength
from vitreous.predict import format_records
from vitreous.serve.patterns import (
    MAX_TICKS,
    PatternJob,
    thin_curves,
    tick_records,
    without_dashes,
    without_dashes_in_errors,
)  # fmt: skip
from vitreous.serve.workers import JobResult

_LIKELY = 0.5  # probability above which a phase counts as likely
_FAINTEST_TICK = 1e-3  # of the strongest line of a phase
_MAX_RIVALS = 10  # of a phase
_MAX_LINES = 200  # without a phase


@dataclass(frozen=True)
class PatternSettings:
    """The radiation that a request states, and how its file is to be read."""

    wavelength: float | None
    anode: str | None
    reading: ReadOptions


@dataclass(frozen=True)
class IdentifyJob(PatternJob):
    """A pattern whose phases are to be found in the database at a path."""

    database: Path = field(kw_only=True)
    wanted: IdentifyOptions = field(kw_only=True)


def identify(job: IdentifyJob) -> JobResult:
    """Identify the phases; return the response as JSON."""
    database = _open(job.database)
    with without_dashes_in_errors():
        result = identify_pattern(job.load_pattern(), database, job.wanted)
    return {}, json.dumps(_response(result, database), ensure_ascii=False, allow_nan=False).encode()


def _open(path: Path) -> Database:
    """Open the database, whose path no error of a client will show."""
    try:
        database = Database.open(path)
    except InputError:  # somebody has changed the file: not the client's mistake
        raise RuntimeError("the database cannot be opened") from None
    database.path = Path(path.name)
    return database


def _response(result: Identification, database: Database) -> dict[str, Any]:
    answer = result.to_dict()
    phases = [
        record | {"rivals": record["rivals"][:_MAX_RIVALS], "mass_text": phase.fraction_text, "text": phase.cell_text}
        | {"ticks": _tick_records(phase, result, database)}
        for record, phase in zip(answer["phases"], result.phases, strict=True)
    ]  # fmt: skip
    return answer | {
        "verdict": _verdict(result),
        "phases": phases,
        "hints": [without_dashes(hint) for hint in (*result.pattern.notes, *result.hints)],
        "unexplained_lines": answer["unexplained_lines"][:_MAX_LINES],
        "measured": _measured_record(result.pattern),
        "curves": thin_curves(result.curves, "observed", "background", "parts"),
        "csv": _csv(result),
    }


def _verdict(result: Identification) -> str:
    if not result.phases:
        return "none"
    sure = all(phase.probability >= _LIKELY for phase in result.phases) and result.unknown_probability < _LIKELY
    return "likely" if sure else "unsure"


def _measured_record(pattern: Pattern) -> dict[str, Any]:
    known = {name: getattr(pattern, name) for name in ("wavelength", "wavelength2", "radiation")}
    return {**known, "points": len(pattern.two_theta)}


def _tick_records(phase: IdentifiedPhase, result: Identification, database: Database) -> list[dict[str, Any]]:
    """The lines of a phase in the measured range, at the angles of its refined cell."""
    lines = database.lines(phase.entry)
    hkl = lines.hkl.astype(np.float64)
    s = np.sqrt(((hkl @ np.linalg.inv(metrics_of([phase.cell])[0])) * hkl).sum(axis=1))  # 1/Å
    wavelength, measured = require_wavelength(result.pattern), result.pattern.two_theta
    reachable = s * wavelength < 2
    angle = np.where(reachable, two_theta_from_s(np.where(reachable, s, 0.0), wavelength) + result.zero, np.inf)
    shown = (angle > measured[0]) & (angle < measured[-1])
    shown &= lines.intensity > _FAINTEST_TICK * lines.intensity.max(initial=0.0)
    order = np.flatnonzero(shown)[np.argsort(angle[shown])][:MAX_TICKS]
    return tick_records(lines.hkl[order], angle[order])


def _csv(result: Identification) -> str:
    records = []
    for phase, record in zip(result.phases, result.to_dict()["phases"], strict=True):
        cell = {f"{name} ({'Å' if name in 'abc' else '°'})": x for name, x in zip(NAMES, record["cell"], strict=True)}
        errors = {f"error of {key}": x for key, x in zip(cell, record["cell_errors"], strict=True)}
        mass, error = (None if x is None else round(100 * x, 3) for x in (phase.fraction, phase.fraction_error))
        records.append(
            {
                "phase": phase.name, "formula": phase.formula, "mass (%)": mass, "error of mass (%)": error,
                "probability": record["probability"], "share of intensity (%)": round(100 * phase.share, 3),
                "system": phase.system, "space group": phase.spacegroup, **cell, **errors,
                "texture": record["texture"], "source": phase.source,
            }
        )  # fmt: skip
    return format_records(records, "csv") if records else ""
