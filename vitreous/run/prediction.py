"""`Prediction`: answers in physical quantities; `AnyPredictor`: what all predictors have in common.

Nothing here needs torch, so an exported model works where torch is not installed.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitreous.core.errors import InputError
from vitreous.data.source import Axis, Source, Target
from vitreous.run.familiarity import Familiarity

Numbers = NDArray[np.float64]
Scores = Sequence[Sequence[float]]
"""For each target, sorted |error| / uncertainty on the validation part; intervals are made from them."""


@dataclass(frozen=True)
class Prediction:
    """Answers for a batch of samples, in physical quantities.

    For classes: `probabilities` `(n, classes)` and `labels`. For quantities: `values`, `lower` and `upper`, all of them
    `(n, targets)`. `familiarity` `(n,)` is the share of samples like the training data that lie as far from it as this
    one, or None if the run does not know.
    """

    classes: tuple[str, ...] = ()
    probabilities: Numbers | None = None
    targets: tuple[Target, ...] = ()
    values: Numbers | None = None
    lower: Numbers | None = None
    upper: Numbers | None = None
    coverage: float | None = None
    familiarity: Numbers | None = None

    @property
    def labels(self) -> list[str]:
        """The likeliest class of each sample."""
        assert self.probabilities is not None
        return [self.classes[i] for i in self.probabilities.argmax(1)]

    @property
    def finite(self) -> NDArray[np.bool_]:
        """Which of the answers are finite, `(n,)`."""
        numbers = [part for part in (self.probabilities, self.values, self.lower, self.upper) if part is not None]
        return np.asarray(np.isfinite(np.stack(numbers)).all(axis=(0, 2)))

    def rows(self) -> list[dict[str, Any]]:
        """One plain record a sample, the unit in each name."""
        if self.familiarity is None:
            return self._answers()
        pairs = zip(self._answers(), self.familiarity, strict=True)
        return [row | {"familiarity": float(p)} for row, p in pairs]

    def _answers(self) -> list[dict[str, Any]]:
        if self.probabilities is not None:
            return [
                {"class": label, "probability": float(row.max())}
                | {f"p({name})": float(p) for name, p in zip(self.classes, row, strict=True)}
                for label, row in zip(self.labels, self.probabilities, strict=True)
            ]
        assert self.values is not None
        columns: dict[str, Numbers] = {}
        for j, target in enumerate(self.targets):
            columns[target.label] = self.values[:, j]
            if self.lower is not None and self.upper is not None:
                columns[f"{target.label} lower {self.coverage:.0%}"] = self.lower[:, j]
                columns[f"{target.label} upper {self.coverage:.0%}"] = self.upper[:, j]
        return [dict(zip(columns, map(float, row), strict=True)) for row in zip(*columns.values(), strict=True)]


def quantities(
    targets: tuple[Target, ...], values: Numbers, uncertainty: Numbers, scores: Scores, coverage: float | None
) -> Prediction:
    """Values and uncertainties `(n, targets)` in units as a prediction, with intervals if a coverage is asked for."""
    if coverage is None:
        return Prediction(targets=targets, values=values)
    half = uncertainty * half_widths(scores, coverage)
    least = [0.0 if target.log else -np.inf for target in targets]
    return Prediction((), None, targets, values, np.maximum(values - half, least), values + half, coverage)


def rank_of(count: int, coverage: float) -> int:
    """Rank of the score that bounds this share of `count` scores: ⌈(n + 1) · coverage⌉, safe against rounding."""
    return math.ceil(round((count + 1) * coverage, 9))


def half_widths(scores: Scores, coverage: float) -> list[float]:
    """Half the width of split-conformal intervals, in uncertainties: the ⌈(n + 1) · coverage⌉-th score of each."""
    if not 0 < coverage < 1:
        raise InputError(f"coverage: found {coverage}, expected a probability between 0 and 1")
    if not scores:
        raise InputError("intervals need a run that was calibrated on a validation part")
    count, rank = len(scores[0]), rank_of(len(scores[0]), coverage)
    if rank > count:
        most = count / (count + 1)
        raise InputError(f"coverage: {count} validation samples bound {most:.3g} at most, not {coverage:g}")
    return [column[rank - 1] for column in scores]


def not_finite(sample: str) -> InputError:
    """The error for a sample whose answer is not finite."""
    return InputError(f"input: the answer for {sample} is not finite; are its values far outside the training data?")


class AnyPredictor(ABC):
    """A trained model: raw samples in, physical quantities out.

    Args:
        input: channels and samples along each axis of its input.
        axes, channels: those of the training samples.
        data: name of the training data.
        shorter: whether it also takes fewer samples along the last axis, as a model of sets does; a set is not empty.
    """

    classes: tuple[str, ...]  # of a classification
    targets: tuple[Target, ...]  # of a regression
    scores: Scores  # intervals are made from them; empty if the run was not calibrated
    familiarity: Familiarity | None = None  # None for a run or file that was made without
    explains: bool  # whether its model can be looked into: attention, gradients
    precision: str  # float32, bfloat16, int8

    def __init__(
        self, input: Sequence[int], axes: Sequence[Axis], channels: Sequence[str], data: str, shorter: bool = False
    ) -> None:
        self.input, self.axes, self.channels = tuple(input), tuple(axes), tuple(channels)
        self.data, self.shorter = data, shorter

    def __call__(self, x: ArrayLike, coverage: float | None = None) -> Prediction:
        """Predict samples `(n, *grid)` or `(n, channels, *grid)`; `coverage` asks for intervals, e.g. 0.9."""
        prediction = self.predict(x, coverage)
        if not prediction.finite.all():
            raise not_finite(f"sample {int(prediction.finite.argmin())}")
        return prediction

    @abstractmethod
    def predict(self, x: ArrayLike, coverage: float | None = None) -> Prediction:
        """As a call, but answers that are not finite raise no error; see `Prediction.finite`."""

    def merging(self, r: int | Sequence[int]) -> AbstractContextManager[None]:
        """Inside the `with` block every block merges r tokens, or each block its own number."""
        if np.any(r):
            raise InputError("merge: works for runs and .safetensors files, not for an exported .onnx model")
        return nullcontext()

    def check(self, x: ArrayLike) -> NDArray[Any]:
        """Samples as `(n, channels, *grid)`; `InputError` says what is wrong with them."""
        samples = np.asarray(x)
        expected = self.input
        if samples.dtype.kind not in "iufb":
            raise InputError(f"input: found values of type {samples.dtype}, expected numbers")
        if samples.ndim == len(expected) and expected[0] == 1:
            samples = samples[:, None]
        if self.shorter and samples.ndim == len(expected) + 1 and 1 <= samples.shape[-1] < expected[-1]:
            expected = (*expected[:-1], samples.shape[-1])
        if samples.shape[1:] != expected or samples.ndim != len(expected) + 1:
            raise InputError(f"input: found samples of shape {samples.shape[1:]}, expected {expected}")
        if samples.dtype.kind == "f" and not np.isfinite(samples).all():
            row = int(np.flatnonzero(~np.isfinite(samples).reshape(len(samples), -1).all(1))[0])
            raise InputError(f"input: sample {row} has values that are not finite")
        if self.shorter and not (has_elements := samples.reshape(len(samples), -1).any(1)).all():
            row = int(has_elements.argmin())
            raise InputError(f"input: sample {row} is an empty set, expected an element that is not zero")
        return np.ascontiguousarray(samples)

    def on_axis(self, source: Source) -> NDArray[Any]:
        """A source's samples, interpolated linearly to the model's axis if theirs is another one."""
        (ours, *more), theirs = self.axes, source.axes[0]
        if more or (theirs.origin, theirs.spacing) == (ours.origin, ours.spacing):
            return source.x
        positions = ours.origin + ours.spacing * np.arange(self.input[1])
        measured = theirs.origin + theirs.spacing * np.arange(source.x.shape[-1])
        slack = abs(theirs.spacing)
        if positions.min() < measured.min() - slack or positions.max() > measured.max() + slack:
            measured_range = f"{theirs.name} runs from {measured.min():g} to {measured.max():g} {theirs.unit}"
            needed = f"the model needs {positions.min():g} to {positions.max():g} {ours.unit}".rstrip()
            raise InputError(f"{source.name}: its {measured_range}, but {needed}")
        order = np.argsort(measured)
        flat = np.asarray(source.x, dtype=np.float64).reshape(-1, source.x.shape[-1])[:, order]
        resampled = np.stack([np.interp(positions, measured[order], row) for row in flat])
        return resampled.reshape(*source.x.shape[:-1], len(positions)).astype(np.float32)
