"""The files of a run folder: their names, and how they are read and checked. Nothing here needs torch.

config.json        the model                     metrics.jsonl  losses and validation scores by step
model.safetensors  its weights                   result.json    scores of the finished run
task.json          what goes in and comes out    test.npz       its answers on the test part
experiment.json    how the run was made          last/          the state from which `--resume` continues
checksums.json     checksums of the finished run's files
familiarity.safetensors                          which samples are like the training data
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vitreous.core.atomic import write_atomically
from vitreous.core.checksums import read_json, read_verified, write_checksums
from vitreous.core.errors import InputError
from vitreous.core.json_text import parse_json
from vitreous.data.source import PARTS
from vitreous.run.provenance import Provenance, add_provenance

TASK, EXPERIMENT, RESULT, METRICS = "task.json", "experiment.json", "result.json", "metrics.jsonl"
LAST = Path("last") / "state.safetensors"
WITH_CHECKSUMS = (
    "config.json", "model.safetensors", TASK, EXPERIMENT, METRICS, RESULT, "test.npz", "subwords.json",
    "pretraining.safetensors", "familiarity.safetensors", "estimator.json",
)  # fmt: skip
"""Files of a finished run whose checksums are stored; the functions that read them verify them."""

TRANSLATION, PRETRAINING = "translation", "pretraining"
"""Kinds of task, in `task.json`, whose runs do not answer as classifiers and regressors do."""

# The least that each file must hold: see `check_types`
_NUMBER = (int, float)
_NUMBERS: dict[Any, Any] = {...: _NUMBER}
_DESCRIPTION = {
    "data": str, "axes": [{"name": str, "unit": str, "origin": _NUMBER, "spacing": _NUMBER}], "channels": [str],
    "task": {"kind": str},
}  # fmt: skip
_REGRESSION = {
    "targets": [{"name": str, "unit": str, "log": bool}], "mean": [_NUMBER], "scale": [_NUMBER], "scores": [[_NUMBER]]
}  # fmt: skip
_TASKS: dict[str, Any] = {
    "classification": {"classes": [str], "label_smoothing": _NUMBER},
    "regression": _REGRESSION,
    "mixture": _REGRESSION | {"hypotheses": int},
    "embedding": {"size": int, "temperature": _NUMBER, "power": _NUMBER},
}
_EXPERIMENT = {
    "command": [str], "recipe": str, "data": str, "targets": [str], "model": str, "system": str,
    "train": {"seed": int}, "augment": dict, "scale": str, "loss": str, "label_smoothing": _NUMBER,
    "hypotheses": int, "validation": _NUMBER, "test": _NUMBER, "samples": dict.fromkeys(PARTS, int), "made_with": dict,
}  # fmt: skip
_STEP = {"step": int, "loss": _NUMBER}
_EVALUATION = {"step": int, "validation": {"loss": _NUMBER, **_NUMBERS}}


def task_kind(folder: Path) -> str:
    """The kind of a run's task; empty if the folder does not say."""
    try:
        return str(parse_json((folder / TASK).read_bytes())["task"]["kind"])
    except (OSError, InputError, KeyError, TypeError):
        return ""


def translates(folder: Path) -> bool:
    """Whether a folder holds a run that translates texts."""
    return task_kind(folder) == TRANSLATION


def check_finished(folder: Path) -> None:
    """Raise `InputError` unless a folder holds a finished run."""
    if not (folder / TASK).is_file():
        raise InputError(f"{folder}: is no run folder ({TASK} is missing)")
    if not (folder / RESULT).is_file():
        raise InputError(f"{folder}: the run has not finished; continue it with vitreous train --resume")


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write plain values as JSON, whole or not at all."""
    write_atomically(path, _to_json(values))


def _to_json(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=1) + "\n").encode()


def write_result(folder: Path, result: Mapping[str, Any]) -> None:
    """Write `result.json`, which makes a run a finished one, after the checksums of all its files."""
    content = _to_json(result)
    write_checksums(folder, WITH_CHECKSUMS, {RESULT: content})
    write_atomically(folder / RESULT, content)


def read_experiment(folder: Path) -> dict[str, Any]:
    """How a run was made, from `experiment.json`; empty if there is no such file."""
    path = folder / EXPERIMENT
    if not path.is_file():
        return {}
    experiment = read_json(path)
    if isinstance(experiment, dict):
        experiment = add_provenance(experiment)
    _check(path, experiment, _EXPERIMENT)
    return dict(experiment)


def read_provenance(folder: Path) -> Provenance:
    """Which recipe, data, model and system a run was made from; empty fields if the folder does not say."""
    provenance = Provenance.from_dict(read_experiment(folder))
    pruned = provenance.command[:2] == ("vitreous", "prune")
    if pruned and not provenance.origin and Path(provenance.start).is_dir():  # by an earlier version
        return read_provenance(Path(provenance.start))
    return provenance


def read_result(folder: Path) -> dict[str, Any]:
    """Size, time and the scores of each part, from `result.json`."""
    path = folder / RESULT
    if not path.is_file():
        raise InputError(f"{folder}: is no finished run ({RESULT} is missing)")
    result: dict[str, Any] = read_json(path)
    parts = [part for part in PARTS if isinstance(result, dict) and part in result]
    _check(path, result, dict.fromkeys(parts, _NUMBERS))
    _check(path, {name: value for name, value in result.items() if name not in parts}, _NUMBERS)
    return result


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The lines of `metrics.jsonl`: losses, and scores on the validation part; empty if there is no such file."""
    path = folder / METRICS
    content = read_verified(path) if path.is_file() else b""
    try:
        lines = [parse_json(line) for line in content.splitlines()]
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from None
    for line in lines:
        _check(path, line, _EVALUATION if isinstance(line, dict) and "validation" in line else _STEP)
    return lines


def _check(path: Path, value: Any, expected: Any) -> None:
    try:
        check_types(value, expected)
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from None


def check_description(values: Any) -> None:
    """Raise `InputError` unless values are those of `task.json` in kind: with keys and types as they are written."""
    check_types(values, _DESCRIPTION)
    check_types(values["task"], _TASKS.get(values["task"]["kind"], {}))


def check_types(value: Any, expected: Any) -> None:
    """Raise `InputError` unless a value has the expected keys and types.

    Args:
        expected: a type, several types, a list of one expected item, or a dictionary of expected values by key, `...`
            for any key.
    """
    for name in _mismatches(value, expected, "its content"):
        raise InputError(f"is damaged ({name} is missing or has the wrong type)")


def _mismatches(value: Any, expected: Any, name: str) -> Iterator[str]:
    """Names of all entries that are missing or of another type than expected."""
    if isinstance(expected, dict) and isinstance(value, dict):
        for key, inner in expected.items():
            for entry in value if key is ... else (key,):
                yield from _mismatches(value.get(entry), inner, f"{entry!r}")
    elif isinstance(expected, list) and isinstance(value, list):
        for item in value:
            yield from _mismatches(item, expected[0], name)
    elif isinstance(expected, dict | list) or not isinstance(value, expected):
        yield name
