"""Fewer tokens for a finished run: the training of its thresholds, which leaves a run like any other."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vitreous.errors import InputError
from vitreous.nn.vit import ViT
from vitreous.train.budget import check_budget
from vitreous.train.config import TrainConfig
from vitreous.train.predictor import Predictor
from vitreous.train.run import Experiment
from vitreous.train.start import Start

STEPS, RATE = 200, 0.02


def prune(
    predictor: Predictor, made: Experiment, told: Mapping[str, Any], budget: float, changes: Mapping[str, Any]
) -> Experiment:
    """The experiment that teaches a run's blocks to merge and drop tokens until they spend a share of their operations.

    Args:
        predictor: of the run.
        made: an experiment on the run's data; its batch and what it does to the samples are kept.
        told: what `experiment.json` of the run says, of which the split of the data is kept.
        budget: share of the blocks' operations, above 0 and up to 1.
        changes: to the training, None for none.
    """
    check_budget(budget)
    model, source = predictor.model, made.source
    if not isinstance(model, ViT):
        raise InputError(f"prune: a {type(model).__name__} has no tokens to merge or drop")
    model.config.check_fewer("prune")
    if model.thresholds is not None:
        raise InputError("prune: the run has learned thresholds already; begin with the run that it was made from")
    if source.input != model.config.input:
        raise InputError(f"{source.name}: found samples of shape {source.input}, expected {model.config.input}")
    split = {"validation": told["validation"], "test": told["test"]} if told else {}
    seed = told["train"]["seed"] if told else made.train.seed
    train = replace(
        TrainConfig(
            steps=STEPS, batch=made.train.batch, lr=RATE, warmup=0.0, weight_decay=0.0, evaluate_every=50, keep="last",
            compile="off", seed=seed,
        ),
        **{name: value for name, value in changes.items() if value is not None},
    )  # fmt: skip
    config = replace(model.config, thresholds=True, dropout=0.0, attention_dropout=0.0, drop_path=0.0)
    start = Start(model, predictor.scaling, predictor.task)
    return replace(made, model=config, train=train, start=start, budget=budget, **split)
