"""`Source`: samples with all that is needed to read them, and `Split`: which of them train, validate and test."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitreous.errors import InputError, check_choice

if TYPE_CHECKING:  # what is exported reads files without torch
    import torch
    from torch import Tensor

PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class Axis:
    """Where the samples along one axis of the grid lie: `origin + spacing * i`, in `unit`."""

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
    """A quantity to regress; one that is positive and spans a wide range is better regressed by its logarithm."""

    name: str
    unit: str = ""
    log: bool = False

    @property
    def label(self) -> str:
        """For figures and tables, e.g. `assay (mg)`."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


Fresh = Callable[[int, "torch.device"], tuple["Tensor", "Tensor"]]


@dataclass(frozen=True)
class Source:
    """Samples, what they mean, and how they are to be split.

    Args:
        name: for messages and figures.
        x: `(n, channels, *grid)`, any real type; may be memory-mapped, so read it in slices.
        y: class numbers `(n,)`, or targets `(n, len(targets))`; None where there are none.
        axes: one for each axis of the grid.
        channels: names of the channels.
        classes: class names, for classification.
        targets: the quantities to regress, for regression.
        parts: rows of `train`, `validation` and `test` where the data come already split; any may be absent.
        constant: whether a target may be the same in all samples.
        fresh: where samples can be simulated, draws new ones to train on: given their number and a device, samples
            `(n, channels, *grid)` and targets `(n, len(targets))`. The rows of `train` then only set the scales.
    """

    name: str
    x: NDArray[Any]
    y: NDArray[Any] | None
    axes: tuple[Axis, ...]
    channels: tuple[str, ...]
    classes: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()
    parts: Mapping[str, NDArray[np.intp]] = field(default_factory=dict)
    constant: bool = False
    fresh: "Fresh | None" = None

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
        if self.y is not None and self.classes:
            present = np.unique(self.y)
            if len(present) < 2:
                raise InputError(
                    f"{self.name}: found one class only, {self.classes[int(present[0])]!r}; expected two or more"
                )
        if self.y is not None and self.targets:
            for column, target in enumerate(self.targets):
                _check_target(self.name, target, self.y[:, column], self.constant)
        _check_parts(self.name, self.parts, len(self.x))

    def __len__(self) -> int:
        return len(self.x)

    @property
    def input(self) -> tuple[int, ...]:
        """Channels and samples along each axis: what `ViTConfig.input` wants."""
        return tuple(int(n) for n in self.x.shape[1:])


def _check_target(source: str, target: Target, values: NDArray[Any], constant: bool) -> None:
    name = target.name
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise InputError(
            f"{source}: target {name!r} has {len(bad)} missing or infinite value(s), the first in row {bad[0]}"
        )
    if not constant and len(values) > 1 and np.ptp(values) == 0:
        raise InputError(f"{source}: target {name!r} is constant ({values[0]:g}), so there is nothing to learn")
    if target.log and (values <= 0).any():
        raise InputError(f"{source}: target {name!r} is to be learned by its logarithm, but has values of 0 or below")


def _check_parts(source: str, parts: Mapping[str, NDArray[np.intp]], count: int) -> None:
    for part, rows in parts.items():
        check_choice(f"{source}: part", part, PARTS)
        if len(rows) == 0:
            raise InputError(f"{source}: part {part!r} is empty; expected rows, or no such part")
        stray = rows[(rows < 0) | (rows >= count)]
        if len(stray):
            raise InputError(f"{source}: part {part!r} names row {stray[0]}, but there are {count} samples")
    rows, times = np.unique(np.concatenate([*parts.values(), np.array([], dtype=np.intp)]), return_counts=True)
    if np.any(times > 1):
        raise InputError(f"{source}: row {rows[times > 1][0]} is in more than one part, or twice in one")


def in_order(*counts: int) -> dict[str, NDArray[np.intp]]:
    """Parts of rows that come one after the other: so many of `train`, of `validation` and of `test`."""
    return dict(zip(PARTS, np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1]), strict=False))


@dataclass(frozen=True)
class Split:
    """Row numbers of each part."""

    train: NDArray[np.intp]
    validation: NDArray[np.intp]
    test: NDArray[np.intp]


_FEW = 3  # a class of fewer members stays whole in `train`


def split(source: Source, validation: float = 0.1, test: float = 0.1, seed: int = 0) -> Split:
    """Rows of each part: those the source gives, the rest drawn reproducibly and, for classes, stratified.

    Args:
        source: where its `parts` name `validation` or `test`, those rows are taken as they are.
        validation: else the share drawn from the rows of `train`, or from all rows without a part; 0 for none.
        test: likewise.
        seed: equal seeds draw equal rows.
    """
    shares = {"validation": validation, "test": test}
    wanted = {part: share for part, share in shares.items() if part not in source.parts and share != 0}
    for part, share in wanted.items():
        if not 0 < share < 1 or sum(wanted.values()) >= 1:
            raise InputError(f"{part}: found {share:g}, expected fractions from 0 to below 1 that leave rows to train")
    pool = _pool(source)
    classes = source.y[pool] if source.y is not None and source.classes else np.zeros(len(pool), dtype=np.intp)
    drawn = _draw(classes, list(wanted.values()), seed, few=_FEW if source.classes else 1 + len(wanted))
    none = np.array([], dtype=np.intp)
    parts = {part: np.sort(source.parts.get(part, none)) for part in PARTS}
    parts |= {part: pool[rows] for part, rows in zip(["train", *wanted], drawn, strict=True)}
    for part in ["train", *wanted]:
        if len(parts[part]) == 0:
            raise InputError(
                f"{source.name}: {part} would be empty, with {len(pool)} sample(s) to draw from"
                + (f" at a share of {wanted[part]:g}" if part in wanted else "")
            )
    return Split(**parts)


def _pool(source: Source) -> NDArray[np.intp]:
    """Rows that train, before any are drawn for the other parts."""
    if "train" in source.parts:
        return np.sort(source.parts["train"])
    free = np.ones(len(source), dtype=bool)
    for rows in source.parts.values():
        free[rows] = False
    return np.flatnonzero(free)


def _draw(classes: NDArray[Any], shares: Sequence[float], seed: int, few: int) -> list[NDArray[np.intp]]:
    """Places in `classes`, sorted: those left over, then those of each share."""
    shuffled = np.random.default_rng(seed).permutation(len(classes))
    _, member = np.unique(classes[shuffled], return_inverse=True)
    grouped = shuffled[np.argsort(member, kind="stable")]
    counts = np.bincount(member)
    many = counts >= few
    starts, left = np.cumsum(counts) - counts, counts
    parts = []
    for later, share in zip(reversed(range(len(shares))), shares, strict=True):
        take = np.zeros_like(counts)
        # one of each class stays for each part to come and one for training
        take[many] = np.minimum(_quota(counts[many], share), left[many] - 1 - later)
        parts.append([grouped[s : s + n] for s, n in zip(starts, take, strict=True)])
        starts, left = starts + take, left - take
    parts.insert(0, [grouped[s : s + n] for s, n in zip(starts, left, strict=True)])
    return [np.sort(np.concatenate([*part, np.array([], dtype=np.intp)])) for part in parts]


def _quota(counts: NDArray[np.intp], share: float) -> NDArray[np.intp]:
    """How many of each class make up the share: one at least, the total by largest remainders."""
    exact = share * counts
    take: NDArray[np.intp] = np.maximum(1, np.floor(exact).astype(np.intp))
    short = max(0, round(share * int(counts.sum())) - int(take.sum()))
    take[np.argsort(take - exact, kind="stable")[:short]] += 1
    return take
