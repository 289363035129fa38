"""`Source`: samples with axes, units and targets; `Split`: rows for training, validation and test."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError, check_choice

if TYPE_CHECKING:  # exported models read files without torch
    import torch
    from torch import Tensor

PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class Axis:
    """Evenly spaced coordinates of one axis of the grid: `origin + spacing * i`, in `unit`."""

    name: str = "index"
    unit: str = ""
    origin: float = 0.0
    spacing: float = 1.0

    @property
    def label(self) -> str:
        """For figures and tables, e.g. `wavelength (nm)`."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True)
class Target:
    """A regression target. Set `log` to learn the logarithm of a positive quantity with a wide range."""

    name: str
    unit: str = ""
    log: bool = False

    @property
    def label(self) -> str:
        """For figures and tables, e.g. `assay (mg)`."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True)
class Source:
    """Samples with the meaning of their values, and optionally a predefined split.

    Args:
        name: for messages and figures.
        x: `(n, channels, *grid)`, any real type; may be memory-mapped, so read it in slices.
        y: class numbers `(n,)`, or targets `(n, len(targets))`; None without labels.
        axes: one for each axis of the grid.
        channels: names of the channels.
        classes: class names, for classification.
        targets: the quantities, for regression.
        parts: predefined rows of `train`, `validation` and `test`; each is optional.
        allow_constant: accept a target with the same value in all samples.
        fresh: simulates new training samples `(n, channels, *grid)` and targets `(n, len(targets))`, given their number
            and a device. The rows of `train` are then used only to fit the scaling.
    """

    name: str
    x: NDArray[Any]
    y: NDArray[Any] | None
    axes: tuple[Axis, ...]
    channels: tuple[str, ...]
    classes: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()
    parts: Mapping[str, NDArray[np.intp]] = field(default_factory=dict)
    allow_constant: bool = False
    fresh: "Callable[[int, torch.device], tuple[Tensor, Tensor]] | None" = None

    def __post_init__(self) -> None:
        if len(self.axes) != self.x.ndim - 2 or len(self.channels) != self.x.shape[1]:
            raise InputError(
                f"{self.name}: found samples of shape {self.x.shape} with {len(self.channels)} channel name(s) and "
                f"{len(self.axes)} axis/axes, expected (samples, channels, *grid)"
            )
        if self.y is not None and len(self.y) != len(self.x):
            raise InputError(f"{self.name}: found {len(self.x)} samples but {len(self.y)} labels")
        if len(self.x) == 0:
            raise InputError(f"{self.name}: found no samples")
        if self.y is not None and self.classes and len(np.unique(self.y)) < 2:
            only = self.classes[int(self.y[0])]
            raise InputError(f"{self.name}: found one class only, {only!r}; expected two or more")
        if self.y is not None:
            for column, target in enumerate(self.targets):
                label = f"{self.name}: target {target.name!r}"
                _check_target(label, target, self.y[:, column], self.allow_constant)
        _check_parts(self.name, self.parts, len(self.x))

    def __len__(self) -> int:
        return len(self.x)

    @property
    def input(self) -> tuple[int, ...]:
        """Number of channels and of samples along each axis, as in `ViTConfig.input`."""
        return tuple(int(n) for n in self.x.shape[1:])


def label_names(labelled: Any) -> tuple[str, ...]:
    """Names of the targets or else of the classes that a source, a task or a predictor has."""
    return tuple(target.name for target in labelled.targets) or tuple(labelled.classes)


def _check_target(label: str, target: Target, values: NDArray[Any], allow_constant: bool) -> None:
    invalid = np.flatnonzero(~np.isfinite(values))
    if len(invalid):
        raise InputError(f"{label} has {len(invalid)} missing or infinite value(s), the first in row {invalid[0]}")
    if not allow_constant and len(values) > 1 and np.ptp(values) == 0:
        raise InputError(f"{label} is constant ({values[0]:g}), so there is nothing to learn")
    if target.log and (values <= 0).any():
        raise InputError(f"{label} is learned as a logarithm, but has values of 0 or below")


def _check_parts(source: str, parts: Mapping[str, NDArray[np.intp]], count: int) -> None:
    for part, rows in parts.items():
        check_choice(f"{source}: part", part, PARTS)
        if len(rows) == 0:
            raise InputError(f"{source}: part {part!r} is empty; expected rows, or no such part")
        outside = rows[(rows < 0) | (rows >= count)]
        if len(outside):
            raise InputError(f"{source}: part {part!r} names row {outside[0]}, but there are {count} samples")
    rows, times = np.unique(np.concatenate([*parts.values(), np.array([], dtype=np.intp)]), return_counts=True)
    if np.any(times > 1):
        raise InputError(f"{source}: row {rows[times > 1][0]} is in more than one part, or twice in one")


def consecutive_parts(*counts: int) -> dict[str, NDArray[np.intp]]:
    """Parts of consecutive rows with these numbers of rows, in the order `train`, `validation`, `test`."""
    return dict(zip(PARTS, np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1]), strict=False))


@dataclass(frozen=True)
class Split:
    """Row numbers of each part."""

    train: NDArray[np.intp]
    validation: NDArray[np.intp]
    test: NDArray[np.intp]


_SMALL_CLASS = 3  # all samples of a smaller class are in `train`


def split(source: Source, validation: float = 0.1, test: float = 0.1, seed: int = 0) -> Split:
    """Split a source: predefined parts are used, the others are drawn reproducibly and stratified by class.

    `validation` and `test` are fractions drawn from the rows of `train`, or from all rows without a part; 0 for none.
    """
    requested = {"validation": validation, "test": test}
    shares = {part: share for part, share in requested.items() if part not in source.parts and share != 0}
    for part, share in shares.items():
        if not 0 < share < 1 or sum(shares.values()) >= 1:
            raise InputError(f"{part}: found {share:g}, expected fractions from 0 to below 1 that leave rows to train")
    empty = np.array([], dtype=np.intp)
    predefined = np.concatenate([*source.parts.values(), empty])
    pool = np.sort(source.parts.get("train", np.setdiff1d(np.arange(len(source)), predefined)))
    classes = source.y[pool] if source.y is not None and source.classes else np.zeros(len(pool), dtype=np.intp)
    places = _draw(classes, list(shares.values()), seed, smallest=_SMALL_CLASS if source.classes else 1 + len(shares))
    parts = {part: np.sort(source.parts.get(part, empty)) for part in PARTS}
    parts |= {part: pool[rows] for part, rows in zip(["train", *shares], places, strict=True)}
    for part in ["train", *shares]:
        if len(parts[part]) == 0:
            at_share = f" at a share of {shares[part]:g}" if part in shares else ""
            raise InputError(f"{source.name}: {part} would be empty, with {len(pool)} sample(s) to draw from{at_share}")
    return Split(**parts)


def _draw(classes: NDArray[Any], shares: Sequence[float], seed: int, smallest: int) -> list[NDArray[np.intp]]:
    """Sorted places in `classes`: the rest, then those of each share."""
    shuffled = np.random.default_rng(seed).permutation(len(classes))
    _, member = np.unique(classes[shuffled], return_inverse=True)
    grouped = shuffled[np.argsort(member, kind="stable")]
    counts = np.bincount(member)
    large = counts >= smallest
    starts, left = np.cumsum(counts) - counts, counts
    parts = []
    for later, share in zip(reversed(range(len(shares))), shares, strict=True):
        take = np.zeros_like(counts)
        # leave one sample of each class for every later part and one for training
        take[large] = np.minimum(_stratified_counts(counts[large], share), left[large] - 1 - later)
        parts.append([grouped[s : s + n] for s, n in zip(starts, take, strict=True)])
        starts, left = starts + take, left - take
    parts.insert(0, [grouped[s : s + n] for s, n in zip(starts, left, strict=True)])
    return [np.sort(np.concatenate([*part, np.array([], dtype=np.intp)])) for part in parts]


def _stratified_counts(counts: NDArray[np.intp], share: float) -> NDArray[np.intp]:
    """Samples of each class in a share: at least one, and the total by the largest remainder method."""
    exact = share * counts
    take: NDArray[np.intp] = np.maximum(1, np.floor(exact).astype(np.intp))
    short = max(0, round(share * int(counts.sum())) - int(take.sum()))
    take[np.argsort(take - exact, kind="stable")[:short]] += 1
    return take
