"""`task.json`: what goes into a trained model and what comes out of it, as plain values and back."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypeVar

from vitreous.atomic import write_atomically
from vitreous.data.scale import Scaling
from vitreous.data.source import Axis, Source
from vitreous.errors import InputError
from vitreous.kind import TASK as TASK
from vitreous.train.task import Task, task_from_dict

VERSION = 1
Known = tuple[Task, Scaling, list[Axis], tuple[str, ...], str]
"""A task, how its samples are scaled, their axes and channels, and the name of the data."""
_Read = TypeVar("_Read")


class Described(Protocol):
    """A task that tells what it is."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""


def describe(
    task: Described, scaling: Scaling, axes: Sequence[Axis], channels: Sequence[str], data: str
) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    return {
        "version": VERSION,
        "data": data,
        "axes": [asdict(axis) for axis in axes],
        "channels": list(channels),
        "scaling": scaling.to_dict(),
        "task": task.to_dict(),
    }


def write_task(folder: Path, task: Described, scaling: Scaling, source: Source) -> None:
    """`task.json`: what goes in and what comes out."""
    about = describe(task, scaling, source.axes, source.channels, source.name)
    write_atomically(folder / TASK, (json.dumps(about, indent=1) + "\n").encode())


def understand(about: Mapping[str, Any]) -> Known:
    """The inverse of `describe`; `InputError` says what is wrong."""
    return _understood(about, _known)


def read_task(folder: Path) -> Known:
    """What `task.json` of a run says."""
    return read_as(folder, _known)


def read_scaling(folder: Path) -> Scaling:
    """How a run's samples are scaled, whatever its task."""
    return read_as(folder, lambda about: Scaling.from_dict(about["scaling"]))


def _known(about: Mapping[str, Any]) -> Known:
    task, scaling = task_from_dict(about["task"]), Scaling.from_dict(about["scaling"])
    return task, scaling, [Axis(**axis) for axis in about["axes"]], tuple(about["channels"]), str(about["data"])


def read_as(folder: Path, read: Callable[[Mapping[str, Any]], _Read]) -> _Read:
    """What `read` makes of the values in `task.json`."""
    path = folder / TASK
    try:
        return _understood(json.loads(path.read_text()), read)
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from None
    except (OSError, ValueError) as fault:
        raise InputError(f"{path}: is damaged ({fault})") from None


def _understood(about: Mapping[str, Any], read: Callable[[Mapping[str, Any]], _Read]) -> _Read:
    try:
        if about["version"] != VERSION:
            raise InputError(f"was written in format {about['version']}, this version reads {VERSION}")
        return read(about)
    except (ValueError, KeyError, TypeError) as fault:
        if isinstance(fault, InputError):
            raise
        raise InputError(f"is damaged ({type(fault).__name__}: {fault})") from None
