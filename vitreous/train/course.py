"""What every training of a run goes through, whatever is trained: begin or go on, watch, keep, finish."""

import copy
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from torch import Tensor, nn

from vitreous.atomic import write_atomically
from vitreous.errors import InputError
from vitreous.kind import TASK
from vitreous.train import state
from vitreous.train.config import TrainConfig
from vitreous.train.loop import Log, Loop, Watcher
from vitreous.train.progress import Bar, TensorBoard
from vitreous.train.stream import Batch, Stream
from vitreous.zoo.weights import CONFIG, save_model

RESULT, METRICS = "result.json", "metrics.jsonl"


@dataclass(frozen=True)
class Course:
    """All that a loop trains with, and what is done before and after it.

    Args:
        model: untrained.
        loss, better: of the task.
        evaluate: scores a model; None if there is nothing to evaluate on.
        describe: writes what the run is made of, on the main process.
        finish: scores of the weights that were kept.
        save: writes a model to the folder.
    """

    model: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]
    better: tuple[str, str]
    stream: Stream
    prepare: Callable[[Tensor, Tensor], Batch]
    evaluate: Callable[[Callable[[Tensor], Tensor]], dict[str, float]] | None
    config: TrainConfig
    describe: Callable[[], None]
    finish: Callable[[], dict[str, Any]]
    save: Callable[[nn.Module, Path], None] = save_model


def check_finished(folder: Path) -> None:
    """Raise `InputError` unless a folder holds a run that has come to its end."""
    if not (folder / TASK).is_file():
        raise InputError(f"{folder}: is no run folder ({TASK} is missing)")
    if not (folder / RESULT).is_file():
        raise InputError(f"{folder}: the run has not finished; go on with vitreous train --resume")


def finished(folder: Path, resume: bool) -> dict[str, Any] | None:
    """What `result.json` says where there is nothing to go on with; `InputError` for a run that would be lost."""
    if resume and (folder / RESULT).is_file():
        found: dict[str, Any] = json.loads((folder / RESULT).read_text())
        return found
    if not resume and (folder / CONFIG).exists():
        raise InputError(f"{folder}: holds a run already; go on with --resume, or choose another --out")
    return None


def follow(
    course: Course, folder: Path, accelerator: Accelerator, started: float, resume: bool, tensorboard: bool, bar: bool
) -> dict[str, Any]:
    """Train, leave the weights and the result in the folder; returns the latter."""
    config, main = course.config, accelerator.is_main_process
    kept = copy.deepcopy(course.model)

    def keep(weights: dict[str, Any]) -> None:
        if main:
            kept.load_state_dict(weights)
            course.save(kept, folder)

    watchers: list[Watcher] = []
    loop = Loop(
        course.model, course.loss, course.stream, course.prepare, course.evaluate, course.better, config, accelerator,
        folder, watchers,
    )  # fmt: skip
    if resume and (folder / state.LAST).exists():  # a run that was killed before its first state begins again
        loop.resume()  # before anything is written: a damaged state must not cost what is there
    if main:
        folder.mkdir(parents=True, exist_ok=True)
        course.describe()
        watchers.append(Log(folder / METRICS, loop.done))
    if main and tensorboard:
        watchers.append(TensorBoard(str(folder / "tensorboard")))
    with Bar(folder.name, config.steps, config.batch, loop.done) as progress:
        if main and bar:
            watchers.append(progress)
        loop.fit(keep)
    if config.keep == "last" or loop.evaluate is None:
        keep(loop.weights())
    accelerator.wait_for_everyone()
    result = course.finish() | {"steps": loop.done, "seconds": round(loop.before + time.monotonic() - started, 1)}
    if main:
        write_atomically(folder / RESULT, (json.dumps(result, indent=1) + "\n").encode())
    accelerator.wait_for_everyone()
    return result
