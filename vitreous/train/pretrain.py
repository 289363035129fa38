"""A run without labels: an encoder is pre-trained, and its folder is what `vitreous train … --from` begins with.

Beside the files of every run, `pretraining.safetensors` holds the decoder or what else the encoder leaves behind.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from accelerate import Accelerator
from safetensors import SafetensorError
from torch import Tensor, nn

from vitreous.atomic import write_atomically
from vitreous.data import Source, split
from vitreous.data.augment import Augment
from vitreous.data.scale import Scaling, fit_scaling
from vitreous.data.source import PARTS
from vitreous.errors import InputError
from vitreous.kind import PRETRAINING, kind_of
from vitreous.nn.config import ViTConfig
from vitreous.nn.pretraining import BUILD, Panels, PretrainConfig, Pretraining
from vitreous.nn.vit import ViT
from vitreous.train.about import read_as, read_scaling, write_task
from vitreous.train.answers import evenly, outputs
from vitreous.train.augmented import augmented, check_scale
from vitreous.train.config import TrainConfig
from vitreous.train.course import Course, check_finished, finished, follow
from vitreous.train.pretext import Pretext
from vitreous.train.run import EXPERIMENT, Experiment, check_share, compiles, machine, made_with, settle
from vitreous.train.stream import Batch, stream_of
from vitreous.zoo.weights import load_model, save_model

REST = "pretraining.safetensors"

_VIEWS = {  # what leaves a sample the same, where a recipe does not say it
    "peaks": Augment(gain=0.1, baseline=0.05, noise=0.02),
    "lines": Augment(),
    "set": Augment(noise=0.1),
    "packed": Augment(noise=0.1),
    1: Augment(shift=2.0, gain=0.1, baseline=0.1, noise=0.05),
    2: Augment(shift=0.1, rotate=10, scale=0.15, noise=0.05),
    3: Augment(noise=0.05),
}
_DAMAGE = {
    "set": Augment(noise=0.3),
    "packed": Augment(noise=0.3),
    1: Augment(noise=0.5, baseline=0.1),
    2: Augment(noise=0.7),
    3: Augment(noise=0.5),
}


@dataclass(frozen=True)
class PretrainExperiment:
    """All that decides a pre-training.

    Args:
        source: samples; their labels are not looked at.
        model: the encoder, its `input` set from the data.
        method: how it learns.
        train: how to train.
        augment: what leaves a sample the same; for `contrast`, how views of it are made.
        damage: for `denoise`, what is to be undone.
        scale: how samples are scaled, one of `SCALINGS`.
        validation, test: shares of the data where the source does not give the parts; `test` is not looked at.
        command: words of the command that makes it, but for `--out`.
    """

    source: Source
    model: ViTConfig
    method: PretrainConfig = field(default_factory=PretrainConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    augment: Augment = field(default_factory=Augment)
    damage: Augment = field(default_factory=Augment)
    scale: str = "channel"
    validation: float = 0.1
    test: float = 0.1
    command: tuple[str, ...] = ()


def pretraining(made: Experiment, method: PretrainConfig) -> PretrainExperiment:
    """The pre-training that suits a training: the same samples, encoder and settings, without labels or dropout."""
    if not isinstance(made.model, ViTConfig):
        raise InputError("model: a cnn has no tokens; pre-training is for a vit")
    config = replace(
        made.model, out=0, head=(), dropout=0.0, attention_dropout=0.0, drop_path=0.0, input=made.source.input
    )
    method.check(config)
    if method.method == "contrast" and made.train.batch < 2:
        raise InputError(f"batch: found {made.train.batch}, expected samples to contrast with, 2 at least")
    kind: Any = len(config.grid) if config.tokens == "patch" else config.tokens
    own = replace(made.augment, mixup=0.0, cutmix=0.0)  # a blend of two samples is neither of them
    views = own if own != Augment() or method.method == "masked" else _VIEWS[kind]
    damage = _DAMAGE[kind] if method.method == "denoise" else Augment()
    train = replace(made.train, keep="last")
    return PretrainExperiment(
        made.source, config, method, train, views, damage, made.scale, made.validation, made.test, made.command
    )


def prepare_with(e: PretrainExperiment) -> Callable[[Tensor], Tensor]:
    """From scaled samples `(B, C, *grid)` to what the model takes: themselves, or pairs `(B, 2, C, *grid)`."""
    config = replace(e.model, input=e.source.input)

    def seen_as(augment: Augment, x: Tensor) -> Tensor:
        change = augmented(augment, config)
        return x if change is None else change(x, x.new_zeros(len(x), 0))[0]

    def denoise(x: Tensor) -> Tensor:
        whole = seen_as(e.augment, x)
        return torch.stack([seen_as(e.damage, whole), whole], dim=1)

    made: dict[str, Callable[[Tensor], Tensor]] = {
        "masked": lambda x: seen_as(e.augment, x),
        "denoise": denoise,
        "contrast": lambda x: torch.stack([seen_as(e.augment, x), seen_as(e.augment, x)], dim=1),
    }
    return made[e.method.method]


@torch.random.fork_rng()
def pretrain(
    experiment: PretrainExperiment,
    folder: Path,
    resume: bool = False,
    device: str = "auto",
    tensorboard: bool = False,
    bar: bool = True,
) -> dict[str, Any]:
    """Train an encoder without labels and leave a run folder; returns what `result.json` says.

    With `resume`, go on where the run in the folder stopped, or begin it if there is none.
    """
    started, e, config = time.monotonic(), experiment, experiment.train
    found = finished(folder, resume)
    if found is not None:
        return found
    for augment in (e.augment, e.damage):
        augment.check(len(e.source.axes))
    check_scale(e.scale, e.model)
    parts = split(e.source, e.validation, e.test, config.seed)
    task, scaling = Pretext(e.method), fit_scaling(e.scale, e.source.x, parts.train)
    accelerator = machine(config.precision, device)
    check_share(config, accelerator)
    torch.manual_seed(config.seed)
    encoder = ViT(replace(e.model, input=e.source.input, out=0))
    settle(encoder, config)
    model = BUILD[e.method.method](encoder, e.method)
    source, transform, scaled = unlabelled(e.source), prepare_with(e), scaling.on(accelerator.device)

    def prepare(x: Tensor, y: Tensor) -> Batch:
        return transform(scaled(x)), y

    @torch.random.fork_rng()
    def evaluate(trained: Callable[[Tensor], Tensor]) -> dict[str, float]:
        torch.manual_seed(config.seed)  # the same tokens hidden, the same views, at every evaluation
        into = prepared(scaling, transform)
        return task.metrics(outputs(trained, source.x, parts.validation, into, accelerator, config.batch))

    def tell() -> None:
        write_task(folder, task, scaling, source)
        about = _told(e, {part: len(getattr(parts, part)) for part in PARTS}, accelerator)
        write_atomically(folder / EXPERIMENT, (json.dumps(about, indent=1) + "\n").encode())

    def finish() -> dict[str, Any]:
        kept = load_pretraining(folder).to(accelerator.device).eval()
        result: dict[str, Any] = {"parameters": sum(p.numel() for p in kept.encoder.parameters())}
        return result | ({"validation": evaluate(kept)} if len(parts.validation) else {})

    course = Course(
        model,
        task.loss,
        task.better,
        stream_of(source, parts.train, task, config.batch, config.seed, accelerator),
        torch.compile(prepare) if compiles(config, accelerator) else prepare,
        evaluate if len(parts.validation) else None,
        config,
        tell,
        finish,
        save_pretraining,
    )
    return follow(course, folder, accelerator, started, resume, tensorboard, bar)


def prepared(scaling: Scaling, transform: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """From raw samples to what a model of pre-training takes."""
    return lambda x: transform(scaling(x))


def unlabelled(source: Source) -> Source:
    """The same samples with labels of no numbers."""
    fresh = source.fresh

    def drawn(count: int, device: torch.device) -> Batch:
        assert fresh is not None
        x, _ = fresh(count, device)
        return x, x.new_zeros(count, 0)

    y = np.zeros((len(source), 0), np.float32)
    return replace(source, y=y, classes=(), targets=(), fresh=None if fresh is None else drawn)


def save_pretraining(model: nn.Module, folder: Path) -> None:
    """Write the encoder as any model, and the rest beside it."""
    assert isinstance(model, Pretraining)
    save_model(model.encoder, folder)
    rest = {n: v.contiguous() for n, v in model.state_dict().items() if not n.startswith("encoder.")}
    write_atomically(folder / REST, safetensors.torch.save(rest))


def load_pretraining(folder: Path) -> Pretraining:
    """The encoder of a pre-training with its decoder, or whatever else it was trained with."""
    if kind_of(folder) != PRETRAINING:
        raise InputError(f"{folder}: is no pre-training")
    task, encoder = read_as(folder, lambda about: Pretext.from_dict(about["task"])), load_model(folder)
    if not isinstance(encoder, ViT):
        raise InputError(f"{folder}: holds a {type(encoder).__name__}, expected a ViT")
    model = BUILD[task.config.method](encoder, task.config)
    try:
        rest = safetensors.torch.load_file(folder / REST)
        model.load_state_dict({**{f"encoder.{n}": v for n, v in encoder.state_dict().items()}, **rest})
    except (SafetensorError, OSError, RuntimeError):
        raise InputError(f"{folder / REST}: is damaged or missing") from None
    return model


@torch.no_grad()
@torch.random.fork_rng()
def panels(e: PretrainExperiment, folder: Path, count: int = 4) -> Panels:
    """A few validation samples of a finished pre-training (or, where there are none, of those it trained on).

    Scaled samples, what the encoder saw of them and what the model made of that.
    """
    check_finished(folder)
    model, scaling = load_pretraining(folder).eval(), read_scaling(folder)
    parts = split(e.source, e.validation, e.test, e.train.seed)
    rows = parts.validation if len(parts.validation) else parts.train
    x = scaling(torch.from_numpy(np.ascontiguousarray(e.source.x[rows[evenly(len(rows), count)]])))
    torch.manual_seed(e.train.seed)
    return model.panels(x, prepare_with(e)(x))


def _told(e: PretrainExperiment, samples: dict[str, int], accelerator: Accelerator) -> dict[str, Any]:
    """How the run is made, for those who want to make it again."""
    return {
        "command": list(e.command),
        "train": e.train.to_dict(),
        "augment": e.augment.to_dict(),
        "damage": e.damage.to_dict(),
        "scale": e.scale,
        "validation": e.validation,
        "test": e.test,
        "samples": samples,
        "made_with": made_with(e.train.precision, accelerator),
    }
