"""Tasks: from raw outputs of a model to a loss, metrics and physical quantities.

A task turns labels into floats `(B, K)` (class probabilities or standardised quantities), so that batches can be mixed,
and turns outputs back: probabilities, or values in the targets' own units with an interval.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from vitreous.core.errors import InputError, check_choice
from vitreous.data.source import Source, Target
from vitreous.run.classification import Classification
from vitreous.run.mixture import Mixture
from vitreous.run.prediction import Prediction, Scores
from vitreous.run.regression import CONSTANT, LOSSES, Regression

__all__ = ["LOSSES", "TASKS", "Classification", "Mixture", "Regression", "Task", "task_for", "task_from_dict"]


class Task(Protocol):
    """What a model's outputs mean. A classification has `classes`, a regression `targets`; the other is empty."""

    @property
    def kind(self) -> str: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def targets(self) -> tuple[Target, ...]: ...
    @property
    def label_names(self) -> tuple[str, ...]: ...
    @property
    def outputs(self) -> int: ...
    @property
    def scores(self) -> Scores: ...
    @property
    def better(self) -> tuple[str, str]:
        """The score that decides which weights are best, and whether `min` or `max` is better."""

    @property
    def main_score(self) -> str:
        """The score that people compare first."""

    def encode(self, y: NDArray[Any] | Tensor) -> Tensor: ...
    def loss(self, out: Tensor, y: Tensor) -> Tensor: ...
    def misfit(self, out: Tensor, y: Tensor) -> Tensor: ...
    def point(self, out: Tensor) -> Tensor: ...
    def predict(self, out: Tensor, coverage: float | None = None) -> Prediction: ...
    def metrics(self, out: Tensor, y: Tensor) -> dict[str, float]: ...
    def calibrated(self, out: Tensor, y: Tensor) -> "Task": ...
    def bounds(self, coverage: float) -> bool: ...
    def initial_outputs(self, y: NDArray[Any]) -> Tensor | None: ...
    def to_dict(self) -> dict[str, Any]: ...


TASKS: dict[str, type[Classification] | type[Regression]] = {
    task.kind: task for task in (Classification, Regression, Mixture)
}


def task_from_dict(values: Mapping[str, Any]) -> Task:
    """The task that `to_dict` described."""
    check_choice("task", values.get("kind"), TASKS)
    return TASKS[values["kind"]].from_dict(values)


def task_for(
    source: Source, rows: NDArray[np.intp], loss: str = "", label_smoothing: float = 0.0, hypotheses: int = 0
) -> Task:
    """The task for a source's labels, scaled by the given rows; `loss` and `hypotheses` are for regression."""
    if source.y is None:
        raise InputError(f"{source.name}: has no labels to train on; name a target column")
    if source.classes:
        if loss not in ("", "cross_entropy") or hypotheses:
            raise InputError(f"loss: {loss!r} is for regression, but {source.name} has classes")
        return Classification(source.classes, label_smoothing)
    y = np.asarray(source.y[rows], dtype=np.float64)
    y = np.where([target.log for target in source.targets], np.log(np.maximum(y, 1e-300)), y)
    mean = np.where(np.ptp(y, axis=0) == 0, y[0], y.mean(axis=0))
    scale = np.where(np.ptp(y, axis=0) == 0, 1.0, y.std(axis=0))
    scale = np.where(np.ptp(source.y, axis=0) == 0, CONSTANT, scale)
    common = source.targets, tuple(mean.tolist()), tuple(scale.tolist())
    return Mixture(*common, loss, hypotheses=hypotheses) if hypotheses else Regression(*common, loss or "mse")
