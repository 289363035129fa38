"""`Familiarity`: how much samples resemble the training part, as a conformal p-value. NumPy alone is needed.

Samples are compared by their raw values and by their embedding, which is the input of the model's head. Three
statistics measure the distance: Hotelling's T² in the principal components, the squared residual Q outside of them,
and for raw values the distance to the nearest training sample. Of several classes the nearest counts (SIMCA).
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from vitreous.core.batching import split_into_batches
from vitreous.core.checksums import read_verified
from vitreous.core.errors import InputError

Numbers = NDArray[np.float64]
FAMILIARITY = "familiarity.safetensors"
"""File in a run folder."""
MOST_SAMPLES = 4000
"""Samples of the training part, and of the validation part, that are enough."""
UNFAMILIAR = 0.01
"""Samples with a familiarity below this are reported as unlike the training data."""


@dataclass(frozen=True)
class FamiliarityLimits:
    """Sizes of the description of the training part; tuned on tablets, Tecator, digits and MNIST."""

    values: int = 2000  # of a raw sample; larger ones are averaged in blocks
    neighbours: int = 2000  # stored training samples
    neighbour_values: int = 200  # of each, averaged in blocks
    components: int = 8  # of raw values; the embedding has three times as many
    per_component: int = 30  # samples
    group: int = 40  # samples of a class with principal components of its own
    groups: int = 20
    folds: int = 10  # of cross-fitting, where validation samples are fewer than:
    calibration: int = 500
    least: int = 20  # training samples
    shares: tuple[float, ...] = (0.1, 0.3, 0.6)  # of T², Q and the nearest sample in the false alarms
    raw_share: float = 0.9  # of raw values in the false alarms; the rest is that of embeddings


_LIMITS = FamiliarityLimits()


@dataclass(frozen=True)
class _Space:
    """The training part in one space, with the scores of samples that it was not fitted to.

    Arrays: `means` `(groups, d)`, `components` `(groups or 1, k, d)`, `variances` `(groups or 1, k)`, `neighbours`
    `(m, d')` or `(m, 0)`, `scores` `(n, 2 or 3)`: each statistic of calibration samples, sorted,
    and `combined` `(n,)`.
    """

    means: NDArray[Any]
    components: NDArray[Any]
    variances: NDArray[Any]
    neighbours: NDArray[Any]
    scores: NDArray[Any]
    combined: NDArray[Any]

    @classmethod
    def fit(cls, x: Numbers, coarse: Numbers, labels: NDArray[Any], shared: bool, most: int) -> Self:
        """Fit to samples `(n, d)`; `coarse` are averaged ones `(n, d')`, `shared` is for components of all groups."""
        groups = [x[labels == label] for label in np.unique(labels)]
        means = np.stack([group.mean(0) for group in groups])
        if shared:
            groups = [np.concatenate([group - mean for group, mean in zip(groups, means, strict=True)])]
        k = min(most, min(map(len, groups)) // _LIMITS.per_component, x.shape[1] // 2)
        pairs = [_principal_components(group, max(1, k)) for group in groups]
        components, variances = (np.stack(part) for part in zip(*pairs, strict=True))
        arrays = (means, components, variances, coarse[_evenly(len(coarse), _LIMITS.neighbours)])
        return cls(*(array.astype(np.float32) for array in arrays), *[np.zeros(0, np.float32)] * 2)

    def statistics(self, x: Numbers, coarse: Numbers) -> Numbers:
        """Logarithms of T², Q and, if there are neighbours, the distance to the nearest, `(n, 2 or 3)`."""
        least = np.full((len(x), 2), np.inf)
        for g, mean in enumerate(self.means.astype(np.float64)):
            v = self.components[g % len(self.components)].astype(np.float64)  # (k, d)
            variances = self.variances[g % len(self.components)].astype(np.float64)
            t = (x - mean) @ v.T
            residual = np.square(x - mean - t @ v).sum(1)
            least = np.minimum(least, np.stack([(t**2 / variances).sum(1), residual / variances.sum()], 1))
        columns = [np.log(least + 1e-12)]
        if self.neighbours.size:
            near = self.neighbours.astype(np.float64)
            squares = np.square(coarse).sum(1)[:, None] + np.square(near).sum(1) - 2 * coarse @ near.T
            columns.append(np.log(np.maximum(squares.min(1), 0) / self.variances.sum() + 1e-12)[:, None])
        return np.concatenate(columns, 1)

    def calibrated(self, statistics: Numbers) -> Self:
        """The same space with the statistics of samples that it was not fitted to."""
        ordered = np.sort(statistics, axis=0).astype(np.float32)
        combined = np.sort(_combined(ordered, statistics)).astype(np.float32)
        return replace(self, scores=ordered, combined=combined)

    def p_values(self, x: Numbers, coarse: Numbers) -> Numbers:
        """The share of unseen samples that are as far from the training part, `(n,)`."""
        return _tail_share(self.combined, _combined(self.scores, self.statistics(x, coarse)))


@dataclass(frozen=True)
class Familiarity:
    """The training part, as far as it tells how familiar a sample is.

    Args:
        raw: in the space of raw samples; None for sets, whose elements have no order.
        embedding: in the space of embeddings; None without validation samples.
    """

    raw: _Space | None
    embedding: _Space | None

    @classmethod
    def fit(
        cls,
        train: tuple[NDArray[Any] | None, NDArray[Any]],
        validation: tuple[NDArray[Any] | None, NDArray[Any]],
        labels: NDArray[Any] | None = None,
    ) -> "Familiarity | None":
        """Fit to the training part and calibrate on the validation part; None if there are too few samples.

        Args:
            train, validation: raw samples `(n, channels, *grid)`, None for sets, and embeddings `(n, D)`.
            labels: classes of the training samples, `(n,)`; None for quantities.
        """
        n, held_out = len(train[1]), len(validation[1])
        if n < _LIMITS.least:
            return None
        classes = np.zeros(n, np.intp) if labels is None else np.unique(labels, return_inverse=True)[1]
        counts = np.bincount(classes)
        if counts.min() < _LIMITS.group or len(counts) > _LIMITS.groups:
            classes = np.zeros(n, np.intp)
        raw = None if train[0] is None else _fit_raw(train[0], validation[0], classes)
        embedding = None
        if held_out >= _LIMITS.least:
            seen, unseen = (part[1].astype(np.float64) for part in (train, validation))
            space = _Space.fit(seen, np.zeros((n, 0)), classes, True, 3 * _LIMITS.components)
            embedding = space.calibrated(space.statistics(unseen, unseen))
        return None if raw is None and embedding is None else cls(raw, embedding)

    def p_values(self, x: NDArray[Any], embedding: NDArray[Any]) -> Numbers:
        """The familiarity `(n,)` of raw samples `(n, channels, *grid)` with embeddings `(n, D)`."""
        with np.errstate(all="ignore"):  # values that overflow are unfamiliar
            parts = [np.zeros(0)]
            for rows in split_into_batches(range(len(x))):
                parts.append(self._p_values(x[rows.start : rows.stop], embedding[rows.start : rows.stop]))
        return np.concatenate(parts)

    def _p_values(self, x: NDArray[Any], embedding: NDArray[Any]) -> Numbers:
        p, both = [np.ones(len(x))], self.raw is not None and self.embedding is not None
        if self.raw is not None:
            p.append(self.raw.p_values(*_reduced(x)) / (_LIMITS.raw_share if both else 1))
        if self.embedding is not None:
            features = embedding.astype(np.float64)
            p.append(self.embedding.p_values(features, features) / (1 - _LIMITS.raw_share if both else 1))
        return np.asarray(np.min(p, axis=0))

    def to_bytes(self) -> bytes:
        """Content of a `.safetensors` file."""
        spaces = [(name, space) for name, space in (("raw", self.raw), ("embedding", self.embedding)) if space]
        arrays = {f"{name}.{each.name}": getattr(space, each.name) for name, space in spaces for each in fields(space)}
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}  # as safetensors requires
        return safetensors.numpy.save(arrays)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The inverse of `to_bytes`; `InputError` if the content is damaged."""
        try:
            arrays = safetensors.numpy.load(content)
            names = [each.name for each in fields(_Space)]
            spaces = {
                space: _Space(*(arrays[f"{space}.{name}"] for name in names))
                for space in ("raw", "embedding")
                if f"{space}.means" in arrays
            }
            return cls(spaces.get("raw"), spaces.get("embedding"))
        except (SafetensorError, KeyError, ValueError) as fault:
            raise InputError(f"the description of familiar samples is damaged ({fault})") from None

    @classmethod
    def from_description(cls, about: Mapping[str, Any]) -> Self | None:
        """From the description in an exported file; None if it was exported without."""
        try:
            return cls.from_bytes(base64.b64decode(about["familiarity"])) if "familiarity" in about else None
        except (binascii.Error, TypeError) as fault:
            raise InputError(f"the description of familiar samples is damaged ({fault})") from None

    def to_description(self) -> dict[str, str]:
        """The inverse of `from_description`."""
        return {"familiarity": base64.b64encode(self.to_bytes()).decode()}


def read_familiarity(folder: Path) -> Familiarity | None:
    """The familiarity in a run folder; None if there is none."""
    path = folder / FAMILIARITY
    if not path.is_file():
        return None
    content = read_verified(path)
    try:
        return Familiarity.from_bytes(content)
    except InputError as fault:
        raise InputError(f"{path}: {fault}; delete it to do without") from None


def _fit_raw(x: NDArray[Any], held_out: NDArray[Any] | None, labels: NDArray[Any]) -> _Space:
    """Few validation samples are joined by those of the training part, each scored by a fit to the others."""
    values, coarse = _reduced(x)

    def fit(rows: NDArray[Any]) -> _Space:
        return _Space.fit(values[rows], coarse[rows], labels[rows], False, _LIMITS.components)

    space, statistics = fit(np.arange(len(x))), list[Numbers]()
    if held_out is not None and len(held_out):
        statistics.append(space.statistics(*_reduced(held_out)))
    if held_out is None or len(held_out) < _LIMITS.calibration:
        fold = np.random.default_rng(0).permutation(len(x)) % _LIMITS.folds
        for f in range(_LIMITS.folds):
            others = fit(np.flatnonzero(fold != f))
            statistics.append(others.statistics(values[fold == f], coarse[fold == f]))
    return space.calibrated(np.concatenate(statistics))


def _combined(scores: NDArray[Any], statistics: Numbers) -> Numbers:
    """Minus the logarithm of the smallest share of calibration samples beyond the statistics, weighted."""
    tails = [_tail_share(*pair) for pair in zip(scores.T, statistics.T, strict=True)]
    smallest = np.asarray(np.min([tail / share for tail, share in zip(tails, _LIMITS.shares, strict=False)], axis=0))
    return np.asarray(-np.log(np.maximum(smallest, 1e-300)))


def _tail_share(scores: Numbers, values: Numbers) -> Numbers:
    """Share of sorted scores `(n,)` above each value, and beyond the highest tenth that of an exponential fit."""
    n = len(scores)
    m = min(max(10, n // 10), n // 2)
    threshold = scores[-m - 1]
    excess = max(float((scores[-m:] - threshold).mean()), 1e-6)
    tail = (m + 1) / (n + 1) * np.exp(-np.maximum(values - threshold, 0) / excess)
    rank = (1 + n - np.searchsorted(scores, values)) / (n + 1)
    return np.asarray(np.nan_to_num(np.where(values > threshold, tail, rank), nan=0.0))


def _principal_components(x: Numbers, k: int) -> tuple[Numbers, Numbers]:
    """The first k directions `(k, d)` and their variances `(k,)`, from the smaller of the two products."""
    x = x - x.mean(0)
    wide = x.shape[1] > len(x)
    variances, vectors = np.linalg.eigh((x @ x.T if wide else x.T @ x) / max(1, len(x) - 1))
    vectors = (x.T @ vectors[:, ::-1] if wide else vectors[:, ::-1])[:, :k]
    lengths = np.linalg.norm(vectors, axis=0)
    largest = max(float(variances[-1]), 1e-20)
    return (vectors / np.maximum(lengths, 1e-20)).T, np.maximum(variances[::-1][:k], 1e-9 * largest)


def _reduced(x: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Samples `(n, channels, *grid)` as rows, averaged in blocks to two sizes."""
    values = x.astype(np.float64)
    fine, coarse = (_averaged(values, most) for most in (_LIMITS.values, _LIMITS.neighbour_values))
    return fine.reshape(len(x), -1), coarse.reshape(len(x), -1)


def _averaged(x: Numbers, most: int) -> Numbers:
    """Samples with at most so many values, averaged in blocks of equal length along each axis of the grid."""
    block, grid = 1, x.shape[2:]
    while x.shape[1] * prod(-(-size // block) for size in grid) > most and block < max(grid):
        block += 1
    for axis, size in enumerate(grid, 2):
        starts = np.arange(0, size, block)
        counts = np.diff(np.append(starts, size)).reshape(-1, *[1] * (x.ndim - axis - 1))
        x = np.add.reduceat(x, starts, axis=axis) / counts
    return x


def _evenly(count: int, most: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(np.intp))
