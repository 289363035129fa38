"""A run: data, model, task and loop put together, and the folder that holds all that is needed to use the result.

`config.json` the model, `model.safetensors` its weights, `task.json` what goes in and comes out, `experiment.json` how
it was made, `metrics.jsonl` how it went, `result.json` how good it is, `test.npz` what it answered, `last/` to go on.
"""

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from numpy.typing import NDArray
from torch import Tensor, distributed, nn
from torch.distributed import PrefixStore, rendezvous  # type: ignore[attr-defined]

from vitreous import __version__
from vitreous.atomic import write_atomically
from vitreous.data import PARTS, Source, Split, split
from vitreous.data.augment import Augment
from vitreous.data.scale import Scaling, fit_scaling
from vitreous.errors import InputError
from vitreous.nn.budget import spending
from vitreous.nn.linear import in_eight_bits
from vitreous.nn.models import Config, Model, build
from vitreous.nn.vit import ViT
from vitreous.train.about import write_task
from vitreous.train.answers import collect, outputs, write_answers
from vitreous.train.augmented import augmented, check_scale
from vitreous.train.budget import BudgetLoss
from vitreous.train.config import TrainConfig
from vitreous.train.course import METRICS as METRICS
from vitreous.train.course import RESULT as RESULT
from vitreous.train.course import Course, finished, follow
from vitreous.train.device import keep_compiled, pick_device, pick_precision
from vitreous.train.start import Start, begin, freeze
from vitreous.train.stream import Batch, stream_of
from vitreous.train.task import Mixture, Regression, Task, task_for
from vitreous.zoo.weights import load_model

EXPERIMENT = "experiment.json"


@dataclass(frozen=True)
class Experiment:
    """All that decides a run.

    Args:
        source: labelled samples.
        model: its `input` and `out` are set from the data.
        train: how to train.
        augment: what is done to training batches.
        scale: how samples are scaled, one of `SCALINGS`.
        loss: of a regression; empty for the default.
        label_smoothing: of a classification.
        hypotheses: of a regression: answers among which the model decides, where one pattern may have several; 0
            for one answer.
        validation, test: shares of the data where the source does not give the parts.
        command: words of the command that makes it, but for `--out`; none where it was put together in Python.
        start: what a finished run brings along; None to begin anew.
        budget: share of the blocks' operations that the model may spend; then its thresholds alone are trained. 0 to
            train all weights, at any cost.
    """

    source: Source
    model: Config
    train: TrainConfig = field(default_factory=TrainConfig)
    augment: Augment = field(default_factory=Augment)
    scale: str = "channel"
    loss: str = ""
    label_smoothing: float = 0.0
    hypotheses: int = 0
    validation: float = 0.1
    test: float = 0.1
    command: tuple[str, ...] = ()
    start: Start | None = None
    budget: float = 0.0


def adjusted(found: Experiment, changes: dict[str, Any]) -> Experiment:
    """The experiment with `changes` to its training or `scale`, None for none; `epochs` stands for so many steps."""
    changes = {name: value for name, value in changes.items() if value is not None}
    epochs, scale = changes.pop("epochs", None), changes.pop("scale", found.scale)
    settings = replace(found.train, **changes)
    if epochs is not None:
        rows = split(found.source, found.validation, found.test, settings.seed).train
        steps = max(1, round(epochs * len(rows) / settings.batch))
        settings = replace(settings, steps=steps, evaluate_every=max(1, min(settings.evaluate_every, steps // 10)))
    return replace(found, train=settings, scale=scale)


def machine(precision: str = "auto", device: str = "auto") -> Accelerator:
    """The device and the processes to train on; refuses a precision that the device has not."""
    device = pick_device(device)
    pick_precision(precision, device)
    if device == "cuda":
        keep_compiled()
    alone = not distributed.is_initialized()
    AcceleratorState._reset_state(reset_partial_state=alone)  # another run of this process may have had another device
    _rejoin(device == "cpu")
    return Accelerator(cpu=device == "cpu", mixed_precision="no")  # `Mixed` sees to it


def _rejoin(cpu: bool) -> None:
    """Where torchrun has restarted the processes, let them meet apart from the addresses that the dead ones left."""
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if restarts == "0" or distributed.is_initialized():
        return
    store, rank, world = next(rendezvous("env://"))
    fresh = PrefixStore(f"restart{restarts}", store)
    distributed.init_process_group("gloo" if cpu else None, store=fresh, rank=rank, world_size=world)


@torch.random.fork_rng()
def train(
    experiment: Experiment,
    folder: Path,
    resume: bool = False,
    device: str = "auto",
    tensorboard: bool = False,
    bar: bool = True,
) -> dict[str, Any]:
    """Train, evaluate and leave a run folder; returns what `result.json` says.

    With `resume`, go on where the run in the folder stopped, or begin it if there is none.
    """
    started = time.monotonic()
    e, config = experiment, experiment.train
    found = finished(folder, resume)
    if found is not None:
        return found
    e.augment.check(len(e.source.axes))
    check_scale(e.scale, e.model)
    parts = split(e.source, e.validation, e.test, config.seed)
    known = None if e.start is None else e.start.task
    task = known or task_for(e.source, parts.train, e.loss, e.label_smoothing, e.hypotheses)
    scaling = fit_scaling(e.scale, e.source.x, parts.train) if e.start is None else e.start.scaling
    accelerator = machine(config.precision, device)
    check_share(config, accelerator)
    torch.manual_seed(config.seed)
    model = build(replace(e.model, input=e.source.input, out=task.outputs))
    if e.start is not None:
        begin(model, e.start)
    if isinstance(task, Mixture) and known is None:
        _spread(model, task.start(_labels(e.source, parts.train)))
    if config.freeze:
        freeze(model, e.start)
    loss = BudgetLoss(model, task.loss, e.budget) if e.budget else task.loss
    settle(model, config)
    stream = stream_of(e.source, parts.train, task, config.batch, config.seed, accelerator)
    change, scaled = augmented(e.augment, model.config), scaling.on(accelerator.device)

    def prepare(x: Tensor, y: Tensor) -> Batch:
        x = scaled(x)
        return (x, y) if change is None else change(x, y)

    def evaluate(trained: Callable[[Tensor], Tensor]) -> dict[str, float]:
        with spending(model) as spent:
            out = outputs(trained, e.source.x, parts.validation, scaling, accelerator, config.batch)
        return task.metrics(out, task.encode(_labels(e.source, parts.validation))) | spent

    if compiles(config, accelerator):
        prepare = torch.compile(prepare)

    def tell() -> None:
        write_task(folder, task, scaling, e.source)
        _write_experiment(folder, e, parts, accelerator)

    def finish() -> dict[str, Any]:
        return _finish(e, parts, task, scaling, folder, accelerator)

    course = Course(
        model,
        loss,
        task.better,
        stream,
        prepare,
        evaluate if len(parts.validation) else None,
        config,
        tell,
        finish,
    )
    return follow(course, folder, accelerator, started, resume, tensorboard, bar)


def check_share(config: TrainConfig, accelerator: Accelerator) -> None:
    """Raise `InputError` unless the processes can share a batch."""
    if config.batch % (accelerator.num_processes * config.accumulate):
        raise InputError(
            f"batch: {config.batch} samples cannot be shared evenly by {accelerator.num_processes} process(es) "
            f"in {config.accumulate} part(s)"
        )


def compiles(config: TrainConfig, accelerator: Accelerator) -> bool:
    """Whether what is done to a batch is compiled: on a GPU, unless that is not wanted."""
    return accelerator.device.type == "cuda" and config.compile in ("auto", "on")


def settle(model: Model, config: TrainConfig) -> None:
    """Let a model compute as its training wants it."""
    if isinstance(model, ViT):
        model.checkpointing = config.checkpointing
        model.stream = torch.bfloat16 if config.stream == "bfloat16" else None
        in_eight_bits(model, config.precision == "float8")


def _finish(
    e: Experiment, parts: Split, task: Task, scaling: Scaling, folder: Path, accelerator: Accelerator
) -> dict[str, Any]:
    """Scores of the kept weights on validation and test; intervals calibrated on validation."""
    model = load_model(folder).to(accelerator.device).eval()
    result: dict[str, Any] = {"parameters": sum(p.numel() for p in model.parameters())}
    for part in ("validation", "test"):
        rows = getattr(parts, part)
        if not len(rows):
            continue
        with spending(model) as spent:
            if part == "test":
                assert e.source.y is not None
                out, kept = collect(model, task, scaling, e.source.x, e.source.y, rows, accelerator, e.train.batch)
                if accelerator.is_main_process:
                    write_answers(folder, kept)
            else:
                out = outputs(model, e.source.x, rows, scaling, accelerator, e.train.batch)
        y = task.encode(_labels(e.source, rows))
        result[part] = task.metrics(out, y) | spent
        if part == "validation" and isinstance(task, Regression):
            task = task.calibrated(out, y)
            if accelerator.is_main_process:
                write_task(folder, task, scaling, e.source)
    return result


def _spread(model: nn.Module, start: Tensor) -> None:
    """Let the model's last layer begin with the given outputs."""
    *_, last = (module for module in model.modules() if isinstance(module, nn.Linear))
    with torch.no_grad():
        last.bias.copy_(start)


def _labels(source: Source, rows: NDArray[np.intp]) -> NDArray[Any]:
    assert source.y is not None
    labels: NDArray[Any] = source.y[rows]
    return labels


def _write_experiment(folder: Path, e: Experiment, parts: Split, accelerator: Accelerator) -> None:
    """`experiment.json`: how the run is made, for those who want to make it again."""
    about = {
        "command": list(e.command),
        "train": e.train.to_dict(),
        "augment": e.augment.to_dict(),
        "scale": e.scale,
        "loss": e.loss,
        "label_smoothing": e.label_smoothing,
        "hypotheses": e.hypotheses,
        "validation": e.validation,
        "test": e.test,
        "from": "" if e.start is None else e.start.name,
        "samples": {part: len(getattr(parts, part)) for part in PARTS},
        "made_with": made_with(e.train.precision, accelerator),
    }
    write_atomically(folder / EXPERIMENT, (json.dumps(about, indent=1) + "\n").encode())


def made_with(precision: str, accelerator: Accelerator) -> dict[str, Any]:
    """Programs and machine of a run."""
    return {
        "vitreous": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name() if accelerator.device.type == "cuda" else "CPU",
        "processes": accelerator.num_processes,
        "precision": pick_precision(precision, accelerator.device.type),
    }
