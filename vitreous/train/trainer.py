"""`train(job, folder)`: one training from its description to a finished run folder. Nothing here knows the model."""

import copy
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vitreous.core.errors import InputError
from vitreous.run.folder import METRICS, RESULT, write_json
from vitreous.train import checkpoint
from vitreous.train.device import create_accelerator
from vitreous.train.job import Job, write_experiment
from vitreous.train.loop import Loop, Watcher
from vitreous.train.progress import Bar, Log, TensorBoard
from vitreous.zoo.weights import CONFIG


@torch.random.fork_rng()
def train(
    job: Job, folder: Path, resume: bool = False, device: str = "auto", tensorboard: bool = False, bar: bool = True
) -> dict[str, Any]:
    """Train, evaluate and leave a run folder; returns the content of `result.json`.

    Args:
        folder: the run folder; it must not hold a run unless `resume`.
        resume: continue the run in the folder, or begin it if there is none. A finished run is returned as it is.
        device: auto, cpu or cuda.
        tensorboard: also write curves for TensorBoard.
        bar: show a progress bar.
    """
    started = time.monotonic()
    if resume and (folder / RESULT).is_file():
        result: dict[str, Any] = json.loads((folder / RESULT).read_text())
        return result
    if not resume and (folder / CONFIG).exists():
        raise InputError(f"{folder}: holds a run already; continue it with --resume, or choose another --out")
    accelerator = create_accelerator(job.settings.precision, device)
    job.setup(accelerator, folder, resume)
    saved_model = copy.deepcopy(job.model)  # before the loop may shard it
    loop = Loop(job, accelerator, folder)
    if resume and (folder / checkpoint.LAST).exists():  # a run that was killed before its first checkpoint begins anew
        loop.resume()  # before anything is written: a damaged checkpoint must not cost what is there
    _run(loop, saved_model, tensorboard, bar)
    result = job.finish(folder) | {"steps": loop.done, "seconds": round(loop.before + time.monotonic() - started, 1)}
    if accelerator.is_main_process:
        write_json(folder / RESULT, result)
    accelerator.wait_for_everyone()
    return result


def _run(loop: Loop, saved_model: nn.Module, tensorboard: bool, bar: bool) -> None:
    """Run the loop to its end, with its logs, and save the best or the last weights."""
    job, folder, settings, main = loop.job, loop.folder, loop.settings, loop.accelerator.is_main_process

    def save(weights: dict[str, Any]) -> None:
        if main:
            saved_model.load_state_dict(weights)
            job.save(saved_model, folder)

    watchers: list[Watcher] = []
    if main:
        folder.mkdir(parents=True, exist_ok=True)
        write_experiment(job, folder, job.describe(folder), loop.accelerator)
        watchers.append(Log(folder / METRICS, loop.done))
        watchers += [TensorBoard(str(folder / "tensorboard"))] if tensorboard else []
    progress_bar = Bar(folder.name, settings.steps, settings.batch, loop.done, shown=main and bar)
    with progress_bar.progress:
        loop.fit(save, watchers + ([progress_bar] if main and bar else []))
    if settings.keep == "last" or not job.validates:
        save(loop.weights())
    loop.accelerator.wait_for_everyone()
