"""`task.json`: what goes into a trained model and what comes out of it, as plain values and back."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from vitreous.data.scale import Scaling
from vitreous.data.source import Axis
from vitreous.errors import InputError
from vitreous.kind import TASK as TASK
from vitreous.train.task import Task, task_from_dict

VERSION = 1


def describe(task: Task, scaling: Scaling, axes: Sequence[Axis], channels: Sequence[str], data: str) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    return {
        "version": VERSION,
        "data": data,
        "axes": [asdict(axis) for axis in axes],
        "channels": list(channels),
        "scaling": scaling.to_dict(),
        "task": task.to_dict(),
    }


def understand(about: Mapping[str, Any]) -> tuple[Task, Scaling, list[Axis], tuple[str, ...], str]:
    """The inverse of `describe`; `InputError` says what is wrong."""
    try:
        if about["version"] != VERSION:
            raise InputError(f"was written in format {about['version']}, this version reads {VERSION}")
        task, scaling = task_from_dict(about["task"]), Scaling.from_dict(about["scaling"])
        return task, scaling, [Axis(**axis) for axis in about["axes"]], tuple(about["channels"]), str(about["data"])
    except (ValueError, KeyError, TypeError) as fault:
        if isinstance(fault, InputError):
            raise
        raise InputError(f"is damaged ({type(fault).__name__}: {fault})") from None
