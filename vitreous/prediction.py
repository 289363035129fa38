"""`Prediction`: answers in physical quantities; `AnyPredictor`: what predictors share, whatever computes their answers.

Nothing here needs torch, so that an exported model answers where torch is not installed.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitreous.data.source import Axis, Source, Target
from vitreous.errors import InputError


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


Scores = Sequence[Sequence[float]]
"""For each target, sorted |error| / uncertainty on the validation part: what intervals are made from."""


def quantities(
    targets: tuple[Target, ...],
    values: NDArray[np.float64],
    uncertainty: NDArray[np.float64],
    scores: Scores,
    coverage: float | None,
) -> Prediction:
    """Values and their uncertainties `(n, targets)`, in units, with the intervals of a coverage where one is asked."""
    if coverage is None:
        return Prediction(targets=targets, values=values)
    half = uncertainty * half_widths(scores, coverage)
    least = [0.0 if target.log else -np.inf for target in targets]
    return Prediction((), None, targets, values, np.maximum(values - half, least), values + half, coverage)


def rank_of(count: int, coverage: float) -> int:
    """Which of so many scores bounds this share: the ⌈(n + 1) · coverage⌉-th, whatever 0.55 may be in binary."""
    return math.ceil(round((count + 1) * coverage, 9))


def half_widths(scores: Scores, coverage: float) -> list[float]:
    """Of the interval that covers the truth with the given probability, half the width, in uncertainties.

    Split conformal: the ⌈(n + 1) · coverage⌉-th smallest score of each target.
    """
    if not 0 < coverage < 1:
        raise InputError(f"coverage: found {coverage}, expected a probability between 0 and 1")
    if not scores:
        raise InputError("intervals need a run that was calibrated on a validation part")
    count, rank = len(scores[0]), rank_of(len(scores[0]), coverage)
    if rank > count:
        most = count / (count + 1)
        raise InputError(f"coverage: {count} validation samples bound {most:.3g} at most, not {coverage:g}")
    return [column[rank - 1] for column in scores]


class AnyPredictor(ABC):
    """A trained model: raw samples in, physical quantities out.

    Args:
        input: channels and samples along each axis that it takes.
        axes, channels: of the samples it was trained on.
        data: name of the data it was trained on.
        shorter: whether it also takes fewer samples along the last axis, as a model of sets does; an empty set is none.
    """

    classes: tuple[str, ...]  # of a classification
    targets: tuple[Target, ...]  # of a regression
    scores: Scores  # what its intervals are made from; none where it was not calibrated

    def __init__(
        self, input: Sequence[int], axes: Sequence[Axis], channels: Sequence[str], data: str, shorter: bool = False
    ) -> None:
        self.input, self.axes, self.channels = tuple(input), tuple(axes), tuple(channels)
        self.data, self.shorter = data, shorter

    @abstractmethod
    def __call__(self, x: ArrayLike, coverage: float | None = None) -> Prediction:
        """Predict samples `(n, *grid)` or `(n, channels, *grid)`; `coverage` asks for intervals, e.g. 0.9."""

    def merging(self, r: int | Sequence[int]) -> AbstractContextManager[None]:
        """For as long as the `with` block lasts every block merges r tokens, or as many as its number says."""
        if np.any(r):
            raise InputError("merge: tokens are merged by runs and .safetensors files, not by an exported .onnx model")
        return nullcontext()

    def check(self, x: ArrayLike) -> NDArray[Any]:
        """Samples as `(n, channels, *grid)`, or one line that says what is wrong with them."""
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
        if self.shorter and not (there := samples.reshape(len(samples), -1).any(1)).all():
            raise InputError(
                f"input: sample {int(there.argmin())} is an empty set, expected an element that is not zero"
            )
        return np.ascontiguousarray(samples)

    def on_axis(self, source: Source) -> NDArray[Any]:
        """A source's samples, carried linearly to the axis that the model knows where theirs is another one."""
        (ours, *more), theirs = self.axes, source.axes[0]
        if more or (theirs.origin, theirs.spacing) == (ours.origin, ours.spacing):
            return source.x
        wanted = ours.origin + ours.spacing * np.arange(self.input[1])
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
