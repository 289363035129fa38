"""A row of the table of many patterns: one pattern, its likeliest cell, and the reason if there is none."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from vitreous.core.errors import InputError, first_line
from vitreous.core.version import __version__
from vitreous.powder.cell import volumes
from vitreous.powder.index_options import IndexOptions
from vitreous.powder.indexing import index_file
from vitreous.powder.solution import IndexResult

Row = dict[str, Any]

_AXES = ("a", "b", "c", "alpha", "beta", "gamma")
COLUMNS: dict[str, type] = {
    "file": str,  # relative to the folder of the table
    "sha256": str,  # of the file's content; None if it cannot be read
    "settings": str,  # fingerprint of the options
    "system": str,
    "centring": str,
    **dict.fromkeys(_AXES, float),  # Å and degrees, refined on the whole pattern if the cell was
    **dict.fromkeys([f"{name}_error" for name in _AXES], float),  # standard errors, of a refined cell
    "volume": float,  # Å³
    "probability": float,
    "m20": float,
    "f20": float,
    "indexed": int,  # lines that the cell explains
    "lines": int,  # of that many
    "zero": float,  # degrees
    "rwp": float,
    "space_groups": str,
    "second_system": str,
    "second_centring": str,
    **dict.fromkeys([f"second_{name}" for name in _AXES], float),
    "second_probability": float,
    "wavelength": float,  # Å
    "hints": str,
    "fault": str,  # why the file could not be indexed
}
"""Columns and the types of their values; a value may be None."""
RESULT = "result"
"""A further column of JSON Lines: what `vitreous index --json` prints for the pattern."""


class Task(NamedTuple):
    """A file to index and what its row needs."""

    path: Path
    name: str  # in the column `file`
    options: IndexOptions
    settings: str
    full: bool  # with the column `RESULT`


def settings_fingerprint(options: IndexOptions) -> str:
    """Twelve hexadecimal digits that differ if options or version differ."""
    values = asdict(options) | {"systems": sorted(options.systems), "version": __version__}
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:12]


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's content; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def index_row(task: Task) -> Row:
    """Index one file; every fault is a row."""
    digest = file_digest(task.path)
    try:
        result = index_file(task.path, task.options)
    except InputError as error:
        result = IndexResult(task.path.name, [], error=first_line(error))
    except Exception as error:  # one pattern must not stop thousands of others
        result = _failed(task, f"internal error, {type(error).__name__}: {first_line(error)}")
    return _make_row(task, digest, result)


def failed_row(task: Task, reason: str) -> Row:
    """The row of a file that could not be indexed."""
    return _make_row(task, file_digest(task.path), _failed(task, reason))


def _failed(task: Task, reason: str) -> IndexResult:
    return IndexResult(task.path.name, [], error=f"{task.path.name}: {reason}")


def _make_row(task: Task, digest: str, result: IndexResult) -> Row:
    row = {"file": task.name, "sha256": digest or None, "settings": task.settings} | _values(result)
    row = {name: _plain(row.get(name)) for name in COLUMNS}
    return row | ({RESULT: result.to_dict()} if task.full else {})


def _plain(value: Any) -> Any:
    """The value; text without the bytes of a file's name that are no UTF-8."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def _values(result: IndexResult) -> Row:
    """The values of a result by column; columns without a value are left out."""
    row: Row = {"fault": result.error, "hints": "; ".join(result.hints) or None}
    if (best := result.best) is not None:
        row |= dict(zip(_AXES, map(float, best.refined), strict=True))
        row |= {name: getattr(best, name) for name in _OF_SOLUTION}
        row |= {"volume": float(volumes([best.refined])[0]), "space_groups": best.space_groups or None}
    if (fit := result.fit) is not None:
        row |= {f"{name}_error": float(error) for name, error in zip(_AXES, fit.errors, strict=True)}
        row["rwp"] = fit.rwp
    if (second := result.second) is not None:
        row |= {f"second_{name}": float(value) for name, value in zip(_AXES, second.refined, strict=True)}
        row |= {f"second_{name}": getattr(second, name) for name in ("system", "centring", "probability")}
    return row


_OF_SOLUTION = ("system", "centring", "probability", "m20", "f20", "indexed", "lines", "zero", "wavelength")
