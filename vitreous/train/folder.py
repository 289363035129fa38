"""What the files of a run folder say, checked as they are read: one that is damaged is named in one line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vitreous.data import PARTS
from vitreous.errors import InputError
from vitreous.train.run import EXPERIMENT, METRICS, RESULT

# What the files tell at least: names with types below them, `...` for all names, a list for any number.
_NUMBER = (int, float)
_NUMBERS: dict[Any, Any] = {...: _NUMBER}
_MADE = {
    "command": [str], "train": {"seed": int}, "augment": dict, "scale": str, "loss": str, "label_smoothing": _NUMBER,
    "hypotheses": int, "validation": _NUMBER, "test": _NUMBER, "samples": dict.fromkeys(PARTS, int), "made_with": dict,
}  # fmt: skip
_STEP = {"step": int, "loss": _NUMBER}
_EVALUATION = {"step": int, "validation": {"loss": _NUMBER, **_NUMBERS}}


def read_experiment(folder: Path) -> dict[str, Any]:
    """What `experiment.json` says; empty where there is none."""
    path = folder / EXPERIMENT
    if not path.is_file():
        return {}
    found: dict[str, Any] = _parsed(path, path.read_bytes())
    _check(path, found, _MADE)
    return found


def read_result(folder: Path) -> dict[str, Any]:
    """What `result.json` says: numbers, and the scores of each part."""
    path = folder / RESULT
    if not path.is_file():
        raise InputError(f"{folder}: is no finished run ({RESULT} is missing)")
    found: dict[str, Any] = _parsed(path, path.read_bytes())
    parts = [part for part in PARTS if isinstance(found, dict) and part in found]
    _check(path, found, dict.fromkeys(parts, _NUMBERS))
    _check(path, {name: value for name, value in found.items() if name not in parts}, _NUMBERS)
    return found


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The lines of `metrics.jsonl`: losses, and scores on the validation part; none where there is no such file."""
    path = folder / METRICS
    lines = [_parsed(path, line) for line in path.read_bytes().splitlines()] if path.is_file() else []
    for line in lines:
        _check(path, line, _EVALUATION if isinstance(line, dict) and "validation" in line else _STEP)
    return lines


def _parsed(path: Path, text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as fault:
        raise InputError(f"{path}: is damaged ({fault})") from None


def _check(path: Path, found: Any, wanted: Any) -> None:
    for name in _amiss(found, wanted, "what it holds"):
        raise InputError(f"{path}: is damaged ({name} is missing or not what it should be)")


def _amiss(found: Any, wanted: Any, name: str) -> Iterator[str]:
    """Names of all that is not as it is wanted."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, each in wanted.items():
            for below in found if key is ... else (key,):
                yield from _amiss(found.get(below), each, f"{below!r}")
    elif isinstance(wanted, list) and isinstance(found, list):
        for one in found:
            yield from _amiss(one, wanted[0], name)
    elif isinstance(wanted, dict | list) or not isinstance(found, wanted):
        yield name
