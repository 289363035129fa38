"""`train(job, folder)`: one training from its description to a finished run folder. Nothing here knows the model."""

import copy
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from torch import nn

from vitreous.core.atomic import clear_temporaries
from vitreous.core.checksums import CHECKSUMS
from vitreous.core.errors import InputError
from vitreous.core.lock import lock_folder
from vitreous.run.folder import METRICS, RESULT, read_result, write_result
from vitreous.train import checkpoint
from vitreous.train.device import create_accelerator
from vitreous.train.fingerprint import check_same
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
        resume: continue the run in the folder, or begin it if there is none. A finished run is returned as it is. Data,
            model and settings must be those that the run was begun with.
        device: auto, cpu or cuda.
        tensorboard: also write curves for TensorBoard.
        bar: show a progress bar.
    """
    started = time.monotonic()
    fingerprint = job.fingerprint()
    resumes = resume and (folder / checkpoint.LAST).exists()  # killed before its first checkpoint, a run begins anew
    if resumes:
        check_same(folder, checkpoint.read_state(folder).get("fingerprint", {}), fingerprint)
    if resume and (folder / RESULT).is_file():
        return read_result(folder)
    accelerator = create_accelerator(job.settings.precision, device)
    with _only_training(folder, accelerator):
        if not resume and ((folder / CONFIG).exists() or (folder / checkpoint.LAST).exists()):
            raise InputError(f"{folder}: holds a run already; continue it with --resume, or choose another --out")
        job.setup(accelerator, folder, resume)
        saved_model = copy.deepcopy(job.model)  # before the loop may shard it
        loop = Loop(job, accelerator, folder, fingerprint)
        if resumes:
            loop.resume()  # before anything is written: a damaged checkpoint must not cost what is there
        _run(loop, saved_model, tensorboard, bar)
        result = job.finish(folder)
        result |= {"steps": loop.done, "seconds": round(loop.before + time.monotonic() - started, 1)}
        if accelerator.is_main_process:
            write_result(folder, result)
        accelerator.wait_for_everyone()
    return result


@contextmanager
def _only_training(folder: Path, accelerator: Accelerator) -> Iterator[None]:
    """Inside the block no other training writes to the folder. The main process holds the lock for all processes."""
    with ExitStack() as stack:
        refusal: list[InputError | None] = [None]
        if accelerator.is_main_process:
            try:
                stack.enter_context(lock_folder(folder))
            except InputError as error:
                refusal = [error]
        if accelerator.num_processes > 1:
            broadcast_object_list(refusal)
        if refusal[0] is not None:
            raise refusal[0]
        yield


def _run(loop: Loop, saved_model: nn.Module, tensorboard: bool, bar: bool) -> None:
    """Run the loop to its end, with its logs, and save the best or the last weights."""
    job, folder, settings, main = loop.job, loop.folder, loop.settings, loop.accelerator.is_main_process

    def save(weights: dict[str, Any]) -> None:
        if main:
            saved_model.load_state_dict(weights)
            job.save(saved_model, folder)

    watchers: list[Watcher] = []
    if main:
        (folder / CHECKSUMS).unlink(missing_ok=True)  # of a run that was stopped before its result was written
        for place in (folder, (folder / checkpoint.LAST).parent):
            clear_temporaries(place)
        write_experiment(job, folder, job.describe(folder), loop.accelerator)
        watchers.append(Log(folder / METRICS, loop.done))
        watchers += [TensorBoard(str(folder / "tensorboard"))] if tensorboard else []
    progress_bar = Bar(folder.name, settings.steps, settings.batch, loop.done, shown=main and bar)
    with progress_bar.progress:
        loop.fit(save, watchers + ([progress_bar] if main and bar else []))
    if settings.keep == "last" or not job.validates:
        save(loop.weights())
    loop.accelerator.wait_for_everyone()
