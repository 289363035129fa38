"""`Predictor`: raw input in, physical answer out, from a run folder. Loading never executes code."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from vitreous.data.scale import Scaling
from vitreous.data.source import Axis, Source, Target
from vitreous.errors import InputError
from vitreous.nn.budget import spending
from vitreous.nn.models import Model
from vitreous.train.answers import outputs
from vitreous.train.run import RESULT, TASK, VERSION
from vitreous.train.task import Regression, Task, task_from_dict
from vitreous.zoo.weights import load_model


@dataclass(frozen=True)
class Prediction:
    """Answers for a batch of samples, in physical quantities.

    For classes: `probabilities` `(n, classes)` and `labels`. For quantities: `values`, `lower` and `upper`, all of them
    `(n, targets)`.
    """

    classes: tuple[str, ...] = ()
    probabilities: NDArray[np.float64] | None = None
    targets: tuple[Target, ...] = ()
    values: NDArray[np.float64] | None = None
    lower: NDArray[np.float64] | None = None
    upper: NDArray[np.float64] | None = None
    coverage: float | None = None

    @property
    def labels(self) -> list[str]:
        """The likeliest class of each sample."""
        assert self.probabilities is not None
        return [self.classes[i] for i in self.probabilities.argmax(1)]

    def rows(self) -> list[dict[str, Any]]:
        """One plain record a sample, the unit in each name."""
        if self.probabilities is not None:
            return [
                {"class": label, "probability": float(row.max())}
                | {f"p({name})": float(p) for name, p in zip(self.classes, row, strict=True)}
                for label, row in zip(self.labels, self.probabilities, strict=True)
            ]
        assert self.values is not None
        found = []
        for i in range(len(self.values)):
            row: dict[str, Any] = {}
            for j, target in enumerate(self.targets):
                row[target.label] = float(self.values[i, j])
                if self.lower is not None and self.upper is not None:
                    row[f"{target.label} lower {self.coverage:.0%}"] = float(self.lower[i, j])
                    row[f"{target.label} upper {self.coverage:.0%}"] = float(self.upper[i, j])
            found.append(row)
        return found


class Predictor:
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
        self.model, self.task, self.scaling, self.data = model.eval(), task, scaling, data
        self.axes, self.channels = tuple(axes), tuple(channels)

    def __call__(self, x: ArrayLike, coverage: float | None = None) -> Prediction:
        """Predict samples `(n, *grid)` or `(n, channels, *grid)`; `coverage` asks for intervals, e.g. 0.9."""
        return self.answer(self.outputs(x), coverage)

    def answer(self, out: Tensor, coverage: float | None = None) -> Prediction:
        """What raw outputs `(n, K)` say."""
        out = out.double()
        if not isinstance(self.task, Regression):
            return Prediction(self.task.classes, out.softmax(-1).numpy())
        values = self.task.physical(out)  # in double: a small spread about a large mean needs the digits
        if coverage is None:
            return Prediction(targets=self.task.targets, values=values.numpy())
        half = self.task.half_width(out, coverage)
        least = values.new_tensor([0.0 if target.log else -np.inf for target in self.task.targets])
        lower, upper = torch.maximum(values - half, least).numpy(), (values + half).numpy()
        return Prediction((), None, self.task.targets, values.numpy(), lower, upper, coverage)

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

    def check(self, x: ArrayLike) -> NDArray[Any]:
        """Samples as `(n, channels, *grid)`, or one line that says what is wrong with them."""
        samples = np.asarray(x)
        expected = self.model.config.input
        if samples.dtype.kind not in "iufb":
            raise InputError(f"input: found values of type {samples.dtype}, expected numbers")
        if samples.ndim == len(expected) and expected[0] == 1:
            samples = samples[:, None]
        if samples.shape[1:] != expected or samples.ndim != len(expected) + 1:
            raise InputError(f"input: found samples of shape {samples.shape[1:]}, expected {expected}")
        if samples.dtype.kind == "f" and not np.isfinite(samples).all():
            row = int(np.flatnonzero(~np.isfinite(samples).reshape(len(samples), -1).all(1))[0])
            raise InputError(f"input: sample {row} has values that are not finite")
        return np.ascontiguousarray(samples)

    def on_axis(self, source: Source) -> NDArray[Any]:
        """A source's samples, carried linearly to the axis that the model knows where theirs is another one."""
        (ours, *more), theirs = self.axes, source.axes[0]
        if more or (theirs.origin, theirs.spacing) == (ours.origin, ours.spacing):
            return source.x
        wanted = ours.origin + ours.spacing * np.arange(self.model.config.input[1])
        given = theirs.origin + theirs.spacing * np.arange(source.x.shape[-1])
        slack = abs(theirs.spacing)
        if wanted.min() < given.min() - slack or wanted.max() > given.max() + slack:
            raise InputError(
                f"{source.name}: its {theirs.name} runs from {given.min():g} to {given.max():g} {theirs.unit}, "
                f"but the model needs {wanted.min():g} to {wanted.max():g} {ours.unit}".rstrip()
            )
        order = np.argsort(given)
        flat = np.asarray(source.x, dtype=np.float64).reshape(-1, source.x.shape[-1])[:, order]
        moved = np.stack([np.interp(wanted, given[order], row) for row in flat])
        return moved.reshape(*source.x.shape[:-1], len(wanted)).astype(np.float32)


def load(folder: str | PathLike[str], device: str = "cpu") -> Predictor:
    """The predictor of a run folder."""
    folder = Path(folder)
    if not (folder / TASK).is_file():
        raise InputError(f"{folder}: is no run folder ({TASK} is missing)")
    if not (folder / RESULT).is_file():
        raise InputError(f"{folder}: the run has not finished; go on with vitreous train --resume")
    try:
        about = json.loads((folder / TASK).read_text())
        if about["version"] != VERSION:
            raise InputError(f"{folder}: was written in format {about['version']}, this version reads {VERSION}")
        task, scaling = task_from_dict(about["task"]), Scaling.from_dict(about["scaling"])
        axes = [Axis(**axis) for axis in about["axes"]]
        channels, data = tuple(about["channels"]), str(about["data"])
    except (ValueError, KeyError, TypeError) as fault:
        if isinstance(fault, InputError):
            raise
        raise InputError(f"{folder / TASK}: is damaged ({type(fault).__name__}: {fault})") from None
    return Predictor(load_model(folder).to(torch.device(device)), task, scaling, axes, channels, data)
