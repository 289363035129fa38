"""Fine-tuning: a training that begins with the weights of a finished run, pre-trained or not (S1.7)."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from torch import nn

from vitreous.core.errors import InputError
from vitreous.data.scale import Scaling
from vitreous.nn.models import Model, describe
from vitreous.nn.vit import ViT
from vitreous.run.folder import check_finished, translates
from vitreous.run.task import Task
from vitreous.run.task_file import read_scaling
from vitreous.zoo.weights import load_model

_NEVER_FROZEN = ("head", "pool")
_NAMED_FIRST = ("tokens", "input", "dim")  # other differences may follow from these
_MAY_DIFFER = {
    "out", "head", "pool", "thresholds", "dropout", "attention_dropout", "drop_path", "origin", "spacing"
}  # fmt: skip


@dataclass(frozen=True)
class Start:
    """The weights and the scaling that a training takes from a finished run.

    `task` is the run's if the new training has the same one; None for another task, with a new head.
    """

    model: Model
    scaling: Scaling
    task: Task | None = None
    name: str = "the run"  # for messages


def read_start(folder: str | PathLike[str]) -> Start:
    """The encoder and the scaling of a run folder, for a training on other labels."""
    folder = Path(folder)
    if translates(folder):
        raise InputError(f"from: {folder} translates texts; expected a run of samples")
    try:
        check_finished(folder)
        return Start(load_model(folder), read_scaling(folder), name=str(folder))
    except InputError as fault:
        raise InputError(f"from: {fault}") from None


def begin_with(model: Model, start: Start) -> None:
    """Copy the run's weights to the model, by name; the head stays new unless the task is the same."""
    check_compatible(model, start)
    skipped, own = ("head.",) if start.task is None else (), model.state_dict()
    weights = start.model.state_dict().items()
    model.load_state_dict({n: v for n, v in weights if n in own and not n.startswith(skipped)}, strict=False)


def check_compatible(model: Model, start: Start) -> None:
    """Raise `InputError` for the first setting that makes a run's weights unfit for the model."""
    theirs, ours = start.model.config, model.config
    kinds = [str(describe(config)["model"]) for config in (theirs, ours)]
    if kinds[0] != kinds[1]:
        raise InputError(f"from: {start.name} is a {kinds[0]}, the model to train is a {kinds[1]}")
    names = [name for name in ours.to_dict() if name not in _MAY_DIFFER]
    for name in sorted(names, key=lambda name: name not in _NAMED_FIRST):
        their, our = getattr(theirs, name), getattr(ours, name)
        if their != our:
            raise InputError(f"from: {start.name} has {name} = {their!r}, the model to train has {name} = {our!r}")


def freeze(model: nn.Module, start: Start | None) -> None:
    """Train only the head and the pooling: a linear probe of the features of a run."""
    if start is None:
        raise InputError("freeze: there is nothing to freeze without a run to begin from (--from)")
    if not isinstance(model, ViT):
        raise InputError(f"freeze: is for a ViT; the batch norms of a {type(model).__name__} cannot stand still")
    model.requires_grad_(False)
    for part in _NEVER_FROZEN:
        model.get_submodule(part).requires_grad_(True)
