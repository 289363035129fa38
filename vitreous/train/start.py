"""Where a training begins: with the weights of a finished run, pre-trained or not (S1.7)."""

from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path

from torch import nn

from vitreous.data.scale import Scaling
from vitreous.errors import InputError
from vitreous.kind import translates
from vitreous.nn.models import Model, describe
from vitreous.nn.vit import ViT
from vitreous.train.about import read_scaling
from vitreous.train.course import check_finished
from vitreous.train.task import Task
from vitreous.zoo.weights import load_model

_OWN = ("head", "pool")  # parts that are trained even where all others are frozen
_FIRST = ("tokens", "input", "dim")  # settings to name before those that follow from them
_MAY_DIFFER = {
    "out", "head", "pool", "thresholds", "dropout", "attention_dropout", "drop_path", "origin", "spacing"
}  # fmt: skip


@dataclass(frozen=True)
class Start:
    """What a finished run brings to another.

    Args:
        model: its weights.
        scaling: how its samples were scaled, and those of the other will be.
        task: what its outputs mean, where that stays; None for another task, with a head of its own.
        name: of the run, for messages.
    """

    model: Model
    scaling: Scaling
    task: Task | None = None
    name: str = "the run"


def read_start(folder: str | PathLike[str]) -> Start:
    """What a run folder brings to a training on other labels: its encoder and how its samples are scaled."""
    folder = Path(folder)
    if translates(folder):
        raise InputError(f"from: {folder} translates texts; expected a run of samples")
    try:
        check_finished(folder)
        return Start(load_model(folder), read_scaling(folder), name=str(folder))
    except InputError as fault:
        raise InputError(f"from: {fault}") from None


def begin(model: Model, start: Start) -> None:
    """Give the model the run's weights, by name; its head is left as it is unless the run's task stays."""
    check_alike(model, start)
    skipped = () if start.task is not None else ("head.",)
    own = model.state_dict()
    brought = {name: value for name, value in start.model.state_dict().items() if name in own}
    model.load_state_dict({n: v for n, v in brought.items() if not n.startswith(skipped)}, strict=False)


def check_alike(model: Model, start: Start) -> None:
    """Raise `InputError` for the first setting by which a run's weights do not fit the model."""
    theirs, ours = start.model.config, model.config
    kinds = [str(describe(config)["model"]) for config in (theirs, ours)]
    if kinds[0] != kinds[1]:
        raise InputError(f"from: {start.name} is a {kinds[0]}, the model to train is a {kinds[1]}")
    names = [field.name for field in fields(ours) if field.name not in _MAY_DIFFER]
    for name in sorted(names, key=lambda name: name not in _FIRST):
        found, wanted = getattr(theirs, name), getattr(ours, name)
        if found != wanted:
            raise InputError(f"from: {start.name} has {name} = {found!r}, the model to train has {name} = {wanted!r}")


def freeze(model: nn.Module, start: Start | None) -> None:
    """Leave gradients to the head and the pooling alone: a linear probe of the features that a run brings."""
    if start is None:
        raise InputError("freeze: there is nothing to freeze without a run to begin from (--from)")
    if not isinstance(model, ViT):
        raise InputError(f"freeze: is for a ViT; the batch norms of a {type(model).__name__} cannot stand still")
    model.requires_grad_(False)
    for part in _OWN:
        model.get_submodule(part).requires_grad_(True)
