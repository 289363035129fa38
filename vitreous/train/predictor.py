"""`Predictor`: raw input in, physical answer out, from a run folder. Loading never executes code."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from vitreous.data.scale import Scaling
from vitreous.data.source import Axis
from vitreous.errors import InputError
from vitreous.kind import PRETRAINING, kind_of, translates
from vitreous.nn.budget import spending
from vitreous.nn.config import ViTConfig
from vitreous.nn.merge import merged
from vitreous.nn.models import Model
from vitreous.prediction import AnyPredictor, Prediction, quantities
from vitreous.train.about import describe, read_task
from vitreous.train.answers import outputs
from vitreous.train.course import check_finished
from vitreous.train.task import Regression, Task
from vitreous.zoo.weights import load_model

__all__ = ["Prediction", "Predictor", "load"]


class Predictor(AnyPredictor):
    """A trained model with what goes in and what comes out of it.

    Args:
        model: in evaluation mode.
        task: what its outputs mean.
        scaling: how raw samples become its input.
        axes, channels: of the samples it was trained on.
        data: name of the data it was trained on.
    """

    def __init__(
        self, model: Model, task: Task, scaling: Scaling, axes: Sequence[Axis], channels: Sequence[str], data: str = ""
    ) -> None:
        c = model.config
        shorter = isinstance(c, ViTConfig) and c.tokens in ("set", "packed") and scaling.kind != "point"
        super().__init__(c.input, axes, channels, data, shorter)
        self.model, self.task, self.scaling = model.eval(), task, scaling
        self.classes = () if isinstance(task, Regression) else task.classes
        self.targets = task.targets if isinstance(task, Regression) else ()
        self.scores = task.scores if isinstance(task, Regression) else ()

    def __call__(self, x: ArrayLike, coverage: float | None = None) -> Prediction:
        return self.answer(self.outputs(x), coverage)

    def merging(self, r: int | Sequence[int]) -> AbstractContextManager[None]:
        return merged(self.model, r)

    def answer(self, out: Tensor, coverage: float | None = None) -> Prediction:
        """What raw outputs `(n, K)` say."""
        out = out.double()  # a small spread about a large mean needs the digits
        if not isinstance(self.task, Regression):
            return Prediction(self.task.classes, out.softmax(-1).numpy())
        values, uncertainty = self.task.physical(out), self.task.uncertainty(out)
        return quantities(self.task.targets, values.numpy(), uncertainty.numpy(), self.task.scores, coverage)

    def about(self) -> dict[str, Any]:
        """What goes in and what comes out, as in `task.json`."""
        return describe(self.task, self.scaling, self.axes, self.channels, self.data)

    def score(self, x: ArrayLike, y: NDArray[Any]) -> dict[str, float]:
        """The task's metrics on labelled samples, and what the model spends where it merges or drops tokens."""
        with spending(self.model) as spent:
            out = self.outputs(x)
        return self.task.metrics(out, self.task.encode(y)) | spent

    def outputs(self, x: ArrayLike) -> Tensor:
        """The model's raw outputs, which its task reads."""
        samples = self.check(x)
        device = next(self.model.parameters()).device
        return outputs(self.model, samples, np.arange(len(samples)), self.scaling, device=device)


def load(folder: str | PathLike[str], device: str = "cpu") -> Predictor:
    """The predictor of a run folder."""
    folder = Path(folder)
    if translates(folder):
        raise InputError(f"{folder}: translates texts; it is for vitreous predict, eval, explain and compare")
    if kind_of(folder) == PRETRAINING:
        raise InputError(f"{folder}: is a pre-training, which answers nothing yet; vitreous train … --from {folder}")
    check_finished(folder)
    return Predictor(load_model(folder).to(torch.device(device)), *read_task(folder))
