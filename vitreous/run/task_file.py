"""`task.json`: what goes into a trained model and what comes out of it, as plain values and back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from vitreous.core.checksums import read_json
from vitreous.core.errors import InputError
from vitreous.data.scale import Scaling
from vitreous.data.source import Axis, Source
from vitreous.run.folder import TASK, check_description, write_json
from vitreous.run.task import Task, task_from_dict

VERSION = 1
_Read = TypeVar("_Read")


class TaskFile(NamedTuple):
    """A task, the scaling of its samples, their axes and channels, and the name of the data."""

    task: Task
    scaling: Scaling
    axes: Sequence[Axis]
    channels: Sequence[str]
    data: str


class _Describable(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


def describe(
    task: _Describable, scaling: Scaling, axes: Sequence[Axis], channels: Sequence[str], data: str
) -> dict[str, Any]:
    """The content of `task.json`."""
    about = {"version": VERSION, "data": data, "axes": [asdict(axis) for axis in axes], "channels": list(channels)}
    return about | {"scaling": scaling.to_dict(), "task": task.to_dict()}


def write_task(folder: Path, task: _Describable, scaling: Scaling, source: Source) -> None:
    """Write `task.json`."""
    write_json(folder / TASK, describe(task, scaling, source.axes, source.channels, source.name))


def parse_task(values: Mapping[str, Any]) -> TaskFile:
    """The inverse of `describe`."""
    check_description(values)
    task, scaling = task_from_dict(values["task"]), Scaling.from_dict(values["scaling"])
    axes = [Axis(**axis) for axis in values["axes"]]
    return TaskFile(task, scaling, axes, tuple(values["channels"]), str(values["data"]))


def read_scaling(folder: Path) -> Scaling:
    """How a run scales its samples, whatever its task."""
    return read_as(folder, lambda values: Scaling.from_dict(values["scaling"]))


def read_as(folder: Path, parse: Callable[[Mapping[str, Any]], _Read]) -> _Read:
    """What `parse` makes of the values in `task.json`."""
    path = folder / TASK
    values = read_json(path)
    try:
        return parse_as(values, parse)
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from None


def parse_as(values: Mapping[str, Any], parse: Callable[[Mapping[str, Any]], _Read]) -> _Read:
    """What `parse` makes of the content of `task.json`; `InputError` says what is wrong."""
    try:
        if values["version"] != VERSION:
            raise InputError(f"was written in format {values['version']}, this version reads {VERSION}")
        return parse(values)
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as fault:
        raise InputError(f"is damaged ({type(fault).__name__}: {fault})") from None
