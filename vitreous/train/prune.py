"""Pruning: train the thresholds by which a finished run merges and drops tokens, within a budget (arXiv 2307.10780)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.nn.reduction.reducer import flops_share
from vitreous.nn.vit import ViT
from vitreous.run.predictor import Predictor
from vitreous.train.config import TrainConfig
from vitreous.train.finetune import Start
from vitreous.train.supervised import NO_DROPOUT, SupervisedJob

_SETTINGS = TrainConfig(steps=200, lr=0.02, warmup=0.0, weight_decay=0.0, evaluate_every=50, keep="last", compile="off")
PENALTY = 10.0
"""Weight of the squared difference between the cost and the budget, beside the task's loss."""


@dataclass(eq=False)
class PruneJob(SupervisedJob):
    """A training of a model's thresholds alone; the loss is the task's plus `PENALTY · (budget - cost)²`.

    Args:
        budget: share of the operations of blocks that keep all tokens, above 0 and up to 1.
    """

    budget: float = 0.5
    _token_counts: list[list[Tensor]] = field(init=False, repr=False, default_factory=list)

    def choices(self) -> dict[str, Any]:
        return super().choices() | {"budget": self.budget}

    def setup(self, accelerator: Accelerator, folder: Path, resume: bool) -> None:
        check_budget(self.budget)
        super().setup(accelerator, folder, resume)
        model = self.model
        if not isinstance(model, ViT) or model.thresholds is None:
            raise InputError(f"budget: a {type(model).__name__} without thresholds cannot keep to one")
        model.set_execution(token_counts=self._token_counts)
        model.requires_grad_(False)
        model.thresholds.requires_grad_(True)

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        assert isinstance(self.model, ViT)
        cost = flops_share(self.model.config, self._token_counts.pop()).mean()  # of the forward that gave these outputs
        return super().loss(out, y) + PENALTY * (self.budget - cost).square()


def check_budget(budget: float) -> None:
    """Raise `InputError` unless the budget is a share of the operations."""
    if not 0 < budget <= 1:
        raise InputError(f"budget: found {budget:g}, expected a share of the operations, above 0 and up to 1")


def prune_job(
    predictor: Predictor, job: SupervisedJob, experiment: Mapping[str, Any], budget: float, changes: Mapping[str, Any]
) -> PruneJob:
    """The job that teaches a run's blocks to merge and drop tokens until they keep to a budget.

    Args:
        job: a training on the run's data; its batch size and augmentation are used.
        experiment: content of the run's `experiment.json`; the split of the data is taken from it.
        budget: share of the blocks' operations, above 0 and up to 1.
        changes: to the settings, None for none.
    """
    check_budget(budget)
    model, source = predictor.model, job.source
    if not isinstance(model, ViT):
        raise InputError(f"prune: a {type(model).__name__} has no tokens to merge or drop")
    model.config.check_reducible("prune")
    if model.thresholds is not None:
        raise InputError("prune: the run has learned thresholds already; begin with the run that it was made from")
    if source.input != model.config.input:
        raise InputError(f"{source.name}: found samples of shape {source.input}, expected {model.config.input}")
    split = {"validation": experiment["validation"], "test": experiment["test"]} if experiment else {}
    seed = experiment["train"]["seed"] if experiment else job.settings.seed
    settings = replace(_SETTINGS, batch=job.settings.batch, seed=seed)
    changed = {name: value for name, value in changes.items() if value is not None}
    description = {each.name: getattr(job, each.name) for each in fields(job) if each.init} | split
    description["config"] = replace(model.config, thresholds=True, **NO_DROPOUT)
    description["settings"] = replace(settings, **changed)
    description["start"] = Start(model, predictor.scaling, predictor.task)
    return PruneJob(**description, budget=budget)
