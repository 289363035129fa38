"""`Predictor`: raw input in, physical answer out, from a run folder or a file that holds a run.

Loading never executes code. torch's own format for programs (.pt2) is not read here: `torch.export.load` unpickles
whatever such a file holds.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.data.scale import Scaling
from vitreous.data.source import Axis
from vitreous.nn.models import Model, config_from
from vitreous.nn.reduction.merge import merged
from vitreous.nn.reduction.reducer import measure_flops
from vitreous.run.answers import outputs, with_features
from vitreous.run.familiarity import Familiarity, read_familiarity
from vitreous.run.folder import PRETRAINING, TASK, check_finished, task_kind, translates
from vitreous.run.prediction import AnyPredictor, Prediction
from vitreous.run.task import Task
from vitreous.run.task_file import TaskFile, describe, parse_as, parse_task, read_as
from vitreous.zoo.weights import build_with_weights, load_model, read_metadata

__all__ = ["Prediction", "Predictor", "load"]


class Predictor(AnyPredictor):
    """A trained model in torch, with the meaning of its input and output.

    Args:
        task: what its outputs mean.
        scaling: how raw samples become its input.
        axes, channels: those of the training samples.
        data: name of the training data.
        familiarity: tells how familiar samples are, if known.
    """

    explains = True
    precision = "float32"

    def __init__(
        self,
        model: Model,
        task: Task,
        scaling: Scaling,
        axes: Sequence[Axis],
        channels: Sequence[str],
        data: str = "",
        familiarity: Familiarity | None = None,
    ) -> None:
        config = model.config
        shorter = config.tokenizer is not None and config.tokenizer.is_set and scaling.kind != "point"
        super().__init__(config.input, axes, channels, data, shorter)
        self.model, self.task, self.scaling = model.eval(), task, scaling
        self.classes, self.targets, self.scores = task.classes, task.targets, task.scores
        self.familiarity = familiarity

    def predict(self, x: ArrayLike, coverage: float | None = None) -> Prediction:
        if self.familiarity is None:
            return self.answer(self.outputs(x), coverage)
        samples = self.check(x)
        out, features = self._compute(with_features(self.model), samples).tensor_split([self.task.outputs], dim=1)
        p = self.familiarity.p_values(samples, features.numpy())
        return replace(self.answer(out, coverage), familiarity=p)

    def merging(self, r: int | Sequence[int]) -> AbstractContextManager[None]:
        return merged(self.model, r)

    def answer(self, out: Tensor, coverage: float | None = None) -> Prediction:
        """The prediction in raw outputs `(n, K)`."""
        return self.task.predict(out.double(), coverage)  # a small spread about a large mean needs the digits

    def about(self) -> dict[str, Any]:
        """What goes in and what comes out, as in `task.json`, and which samples are familiar."""
        about = describe(self.task, self.scaling, self.axes, self.channels, self.data)
        return about | (self.familiarity.to_description() if self.familiarity else {})

    def score(self, x: ArrayLike, y: NDArray[Any]) -> dict[str, float]:
        """The task's metrics on labelled samples, and the model's cost if it merges or drops tokens."""
        with measure_flops(self.model) as spent:
            out = self.outputs(x)
        return self.task.metrics(out, self.task.encode(y)) | spent

    def outputs(self, x: ArrayLike) -> Tensor:
        """The model's raw outputs, which its task reads."""
        return self._compute(self.model, self.check(x))

    def _compute(self, model: Callable[[Tensor], Tensor], samples: NDArray[Any]) -> Tensor:
        device = next(self.model.parameters()).device
        return outputs(model, samples, np.arange(len(samples)), self.scaling, device=device)


def load(folder: str | PathLike[str], device: str = "cpu") -> Predictor:
    """The predictor of a run folder."""
    folder = Path(folder)
    if translates(folder):
        raise InputError(f"{folder}: translates texts; use vitreous predict, eval, explain or compare")
    if task_kind(folder) == PRETRAINING:
        raise InputError(f"{folder}: is a pre-training without answers; fine-tune it: vitreous train … --from {folder}")
    check_finished(folder)
    description, familiarity = read_as(folder, parse_task), read_familiarity(folder)
    return _predictor(folder / TASK, load_model(folder).to(torch.device(device)), description, familiarity)


def load_file(path: Path, device: str = "cpu") -> Predictor:
    """The predictor of a safetensors file with weights, model and task."""
    try:
        about = read_metadata(path)
        if "task" not in about:
            raise InputError("holds only weights; expected an exported run or a run folder")
        description, config = parse_as(about, parse_task), config_from(about["config"])
        familiarity = Familiarity.from_description(about)
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from None
    except (KeyError, TypeError) as fault:
        raise InputError(f"{path}: the description of its model is damaged ({fault})") from None
    return _predictor(path, build_with_weights(config, path).to(torch.device(device)), description, familiarity)


def _predictor(path: Path, model: Model, description: TaskFile, familiarity: Familiarity | None) -> Predictor:
    """The predictor of a model, whose description must fit; `path` is the file with the description."""
    task, scaling, axes, channels, _ = description
    input, out, count = model.config.input, model.config.out, len(scaling.mean)
    sizes = (0, input[0] if scaling.kind == "channel" else math.prod(input))
    if (out, input[0], len(input) - 1) != (task.outputs, len(channels), len(axes)) or count not in sizes:
        found = f"{task.outputs} outputs, {len(channels)} channels, {len(axes)} axes and {count} means"
        raise InputError(f"{path}: is damaged (found {found}, which do not fit the model)")
    return Predictor(model, *description, familiarity)
