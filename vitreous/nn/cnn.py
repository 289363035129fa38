"""The rivals: a residual CNN (He et al. 2016) for grids of any dimension, with non-local blocks if wanted (S0.7).

The non-local block is the embedded-Gaussian one of Wang et al. 2018, eq. 4 and 6.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.errors import InputError, check_choice
from vitreous.nn.block import MLP
from vitreous.nn.head import POOLS
from vitreous.nn.tokens import CONV, check_batch
from vitreous.settings import Settings

_NORM = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
_MAX_POOL = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
_POOLS = ("mean", "flatten")


@dataclass(frozen=True)
class CNNConfig(Settings):
    """A residual CNN for signals of one, two or three dimensions; the rank of `input` decides.

    >>> CNNConfig(input=(1, 4500), out=6, stem="large", nonlocal_after=(1,)).shape
    (282,)
    """

    input: tuple[int, ...]
    """Channels, then samples along each axis."""
    out: int = 0
    """Outputs; 0 returns the pooled features."""
    widths: tuple[int, ...] = (32, 64, 128)
    """Channels of each stage; every stage but the first halves the grid."""
    blocks: tuple[int, ...] = (1,)
    """Residual blocks of each stage; one number serves all stages."""
    kernel: int = 3
    """Samples of a convolution along each axis; odd."""
    stem: str = "small"
    """small: one convolution that keeps the grid | large: one of 7 samples and a pooling, which quarter it."""
    nonlocal_after: tuple[int, ...] = ()
    """Stages, counted from 0, after which a non-local block stands (S0.7)."""
    pool: str = "mean"
    """mean | flatten."""
    head: tuple[int, ...] = ()
    """Widths of the head's hidden layers; none makes it linear."""
    dropout: float = 0.0
    """Dropout on the pooled features and in the head."""

    @property
    def grid(self) -> tuple[int, ...]:
        """Samples along each axis."""
        return self.input[1:]

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples along each axis after the last stage."""
        halvings = len(self.widths) - 1 + _STEMS[self.stem].halvings
        return tuple(-(-n // 2**halvings) for n in self.grid)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("stem", self.stem, _STEMS)
        check_choice("pool", self.pool, _POOLS)
        self._at_least(1, "input", "widths", "blocks", "head", "kernel")
        self._at_least(0, "out")
        self._probability("dropout")
        if not 2 <= len(self.input) <= 4:
            raise InputError(f"input: found {self.input}, expected channels and then samples along 1, 2 or 3 axes")
        if not self.widths:
            raise InputError("widths: found none, expected the channels of each stage")
        if len(self.blocks) == 1:
            self._set("blocks", self.blocks * len(self.widths))
        if len(self.blocks) != len(self.widths):
            raise InputError(f"blocks: found {self.blocks}, expected one number for each stage of widths {self.widths}")
        if self.kernel % 2 == 0:
            raise InputError(f"kernel: found {self.kernel}, expected an odd number, so that it has a middle")
        stages = range(len(self.widths))
        if not set(self.nonlocal_after) <= set(stages) or len(set(self.nonlocal_after)) < len(self.nonlocal_after):
            raise InputError(
                f"nonlocal_after: found {self.nonlocal_after}, expected different stages from 0 to {stages[-1]}"
            )


class CNN(nn.Module):
    """A residual network made of the parts that its config names.

    >>> import torch
    >>> CNN(CNNConfig(input=(1, 8, 8), out=10))(torch.rand(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    def __init__(self, config: CNNConfig) -> None:
        super().__init__()
        c = self.config = config
        rank, last = len(c.grid), c.widths[-1]
        self.stem = _STEMS[c.stem].make(rank, c.input[0], c.widths[0], c.kernel)
        self.stages = nn.Sequential(*(_stage(c, rank, stage) for stage in range(len(c.widths))))
        self.pool = POOLS[c.pool](0, last, 1)
        pooled = last * (math.prod(c.shape) if c.pool == "flatten" else 1)
        self.head = MLP((pooled, *c.head, c.out), c.dropout) if c.out else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """`(B, channels, *grid) -> (B, out)`."""
        check_batch(x, self.config.input, next(self.parameters()))
        x = self.stages(self.stem(x))
        pooled = self.pool(x.flatten(2).mT, None)  # (B, D, *shape) -> (B, N, D) -> (B, D) or (B, N * D)
        out: Tensor = self.head(F.dropout(pooled, self.config.dropout, training=self.training))
        return out


class ResidualBlock(nn.Module):
    """`relu(x + norm(conv(relu(norm(conv(x))))))`; with a stride or another width, x is projected to fit."""

    def __init__(self, rank: int, channels: int, width: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            _conv(rank, channels, width, kernel, stride),
            _NORM[rank](width),
            nn.ReLU(),
            _conv(rank, width, width, kernel),
            _NORM[rank](width),
        )
        fits = stride == 1 and channels == width
        self.shortcut = (
            nn.Identity() if fits else nn.Sequential(_conv(rank, channels, width, 1, stride), _NORM[rank](width))
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.shortcut(x) + self.branch(x))


class NonLocalBlock(nn.Module):
    """`x + W_z softmax(theta(x)ᵀ phi(x)) g(x)`: every place attends to every other (Wang et al. 2018, eq. 4 and 6).

    theta, phi and g halve the width; W_z starts at zero, so that the block starts as the identity.
    """

    def __init__(self, rank: int, width: int) -> None:
        super().__init__()
        inner = max(1, width // 2)
        self.theta, self.phi, self.g = (CONV[rank](width, inner, 1) for _ in range(3))
        self.project = CONV[rank](inner, width, 1)
        for parameter in self.project.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        # (B, D, *grid) -> (B, 1, N, D / 2), one head
        q, k, v = (part(x).flatten(2).mT.unsqueeze(1) for part in (self.theta, self.phi, self.g))
        mixed = F.scaled_dot_product_attention(q, k, v, scale=1.0).squeeze(1).mT  # (B, D / 2, N)
        out: Tensor = x + self.project(mixed.reshape(x.shape[0], -1, *x.shape[2:]))
        return out


@dataclass(frozen=True)
class _Stem:
    """How a stem is made from rank, channels, width and kernel, and how often it halves the grid."""

    make: Callable[[int, int, int, int], nn.Sequential]
    halvings: int


def _small_stem(rank: int, channels: int, width: int, kernel: int) -> nn.Sequential:
    return nn.Sequential(_conv(rank, channels, width, kernel), _NORM[rank](width), nn.ReLU())


def _large_stem(rank: int, channels: int, width: int, kernel: int) -> nn.Sequential:
    pool = _MAX_POOL[rank](3, stride=2, padding=1)
    return nn.Sequential(_conv(rank, channels, width, 7, stride=2), _NORM[rank](width), nn.ReLU(), pool)


_STEMS = {"small": _Stem(_small_stem, 0), "large": _Stem(_large_stem, 2)}


def _stage(c: CNNConfig, rank: int, stage: int) -> nn.Sequential:
    width = c.widths[stage]
    first = ResidualBlock(rank, c.widths[max(0, stage - 1)], width, c.kernel, stride=2 if stage else 1)
    others = [ResidualBlock(rank, width, width, c.kernel) for _ in range(c.blocks[stage] - 1)]
    return nn.Sequential(first, *others, *([NonLocalBlock(rank, width)] if stage in c.nonlocal_after else []))


def _conv(rank: int, channels: int, width: int, kernel: int, stride: int = 1) -> nn.Module:
    """A convolution before a norm, which brings the bias; scaled for ReLU (He et al. 2015)."""
    conv = CONV[rank](channels, width, kernel, stride=stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv
