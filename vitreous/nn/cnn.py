"""A residual CNN (He et al. 2016) for grids of any dimension, with optional non-local blocks (S0.7), to compare with.

The non-local block is the embedded-Gaussian one of Wang et al. 2018, eq. 4 and 6.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.core.errors import InputError, check_choice
from vitreous.core.settings import Settings
from vitreous.nn.block import MLP
from vitreous.nn.execution import Network
from vitreous.nn.pooling import POOLS
from vitreous.nn.tokens.base import check_batch
from vitreous.nn.tokens.patches import CONV
from vitreous.nn.tokens.sets import Traces

_NORM = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
_MAX_POOL = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
_STEMS = {"small": 0, "large": 2}  # how often each halves the grid


@dataclass(frozen=True)
class CNNConfig(Settings):
    """A residual CNN for signals of one, two or three dimensions; the rank of `input` decides.

    With `widths=(64, 128, 256, 512)` and `stem="large"`, `blocks=(2, 2, 2, 2)` is ResNet-18, and `blocks=(3, 4, 6, 3)`
    with `block="bottleneck"` is ResNet-50.

    >>> CNNConfig(input=(1, 4500), out=6, stem="large", nonlocal_after=(1,)).shape
    (282,)
    """

    kind: ClassVar[str] = "cnn"
    tokenizer: ClassVar[None] = None
    input: tuple[int, ...]
    """Channels, then samples along each axis."""
    out: int = 0
    """Outputs; 0 returns the pooled features."""
    widths: tuple[int, ...] = (32, 64, 128)
    """Channels of each stage; every stage but the first halves the grid. Bottlenecks output four times as many."""
    blocks: tuple[int, ...] = (1,)
    """Residual blocks of each stage; one number serves all stages."""
    block: str = "basic"
    """basic: two convolutions | bottleneck: one convolution between two 1×1 convolutions."""
    kernel: int = 3
    """Samples of a convolution along each axis; odd."""
    hexagonal: bool = False
    """Whether a 2-D grid is hexagonal, in axial coordinates: a cell then has six neighbours instead of eight."""
    stem: str = "small"
    """small: one convolution that keeps the grid | large: one of 7 samples and a pooling, which quarter it."""
    samples: int = 0
    """How many of the first channels are a trace, recorded at each cell of the grid (S2.8)."""
    traces: tuple[int, ...] = ()
    """Widths of convolutions along the trace, each halving it, before a projection to `widths[0]` channels; the other
    channels are appended."""
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
    def features(self) -> int:
        """Channels after the last stage."""
        return self.widths[-1] * _BLOCKS[self.block].expansion

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples along each axis after the last stage."""
        halvings = len(self.widths) - 1 + _STEMS[self.stem]
        return tuple(-(-n // 2**halvings) for n in self.grid)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("stem", self.stem, _STEMS)
        check_choice("block", self.block, _BLOCKS)
        check_choice("pool", self.pool, ("mean", "flatten"))
        self._at_least(1, "input", "widths", "blocks", "head", "kernel", "traces")
        self._at_least(0, "out", "samples")
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
            raise InputError(f"kernel: found {self.kernel}, expected an odd number")
        stages = range(len(self.widths))
        if not set(self.nonlocal_after) <= set(stages) or len(set(self.nonlocal_after)) < len(self.nonlocal_after):
            expected = f"different stages from 0 to {stages[-1]}"
            raise InputError(f"nonlocal_after: found {self.nonlocal_after}, expected {expected}")
        if self.hexagonal and (len(self.grid) != 2 or self.stem == "large"):
            raise InputError(f"hexagonal: found input {self.input} and stem {self.stem!r}, expected 2-D and 'small'")
        if self.stem == "large" and len(self.grid) == 3 and min(self.grid) < 8:
            # On a CPU, torch 2.13 computes wrong gradients of the stem's strided convolution on such small volumes.
            raise InputError(f"stem: found 'large' for input {self.input}, expected 8 or more samples along each axis")
        if bool(self.samples) != bool(self.traces):
            raise InputError(f"samples: found {self.samples} with traces = {self.traces}, expected both or neither")
        if self.samples > self.input[0]:
            raise InputError(f"samples: found {self.samples}, but input {self.input} has {self.input[0]} channels")


class CNN(Network):
    """A residual network made of the parts that its config names.

    >>> import torch
    >>> CNN(CNNConfig(input=(1, 8, 8), out=10))(torch.rand(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    tokenizer = None

    def __init__(self, config: CNNConfig) -> None:
        super().__init__()
        c = self.config = config
        rank, last = len(c.grid), c.features
        self.traces = Traces(c.samples, c.traces, c.widths[0]) if c.traces else None
        channels = c.input[0] - c.samples + (c.widths[0] if c.traces else 0)
        kernel, stride, pool = (7, 2, [_MAX_POOL[rank](3, 2, padding=1)]) if c.stem == "large" else (c.kernel, 1, [])
        first = _conv_norm(rank, channels, c.widths[0], kernel, stride, c.hexagonal)
        self.stem = nn.Sequential(*first, nn.ReLU(), *pool)
        self.stages = nn.Sequential(*(_stage(c, rank, stage) for stage in range(len(c.widths))))
        self.pool = POOLS[c.pool](0, last, 1)
        pooled = last * (math.prod(c.shape) if c.pool == "flatten" else 1)
        self.head = MLP((pooled, *c.head, c.out), c.dropout) if c.out else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """`(B, channels, *grid) -> (B, out)`."""
        check_batch(x, self.config.input, next(self.parameters()))
        if self.traces is not None:  # (B, samples + others, *grid) -> (B, widths[0] + others, *grid)
            recorded, others = x.split((self.config.samples, x.shape[1] - self.config.samples), dim=1)
            encoded = self.traces(recorded.flatten(2).mT).mT  # (B, N, samples) -> (B, widths[0], N)
            x = torch.cat([encoded.unflatten(2, x.shape[2:]), others], dim=1)
        x = self.stem(x)
        if x.is_cuda and x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)  # the memory layout of tensor cores
        x = self.stages(x)
        pooled = self.pool(x.flatten(2).mT, None)  # (B, D, *shape) -> (B, N, D) -> (B, D) or (B, N * D)
        out: Tensor = self.head(F.dropout(pooled, self.config.dropout, training=self.training))
        return out


class ResidualBlock(nn.Module):
    """`relu(x + norm(conv(relu(norm(conv(x))))))`; x is projected if stride or width change its shape."""

    expansion: ClassVar[int] = 1
    """Output channels, in units of the width."""

    def __init__(
        self, rank: int, channels: int, width: int, kernel: int, stride: int = 1, hexagonal: bool = False
    ) -> None:
        super().__init__()
        self.branch = self._branch(rank, channels, width, kernel, stride, hexagonal)
        out = width * self.expansion
        fits = stride == 1 and channels == out
        self.shortcut = nn.Identity() if fits else nn.Sequential(*_conv_norm(rank, channels, out, 1, stride))

    def _branch(self, rank: int, channels: int, width: int, kernel: int, stride: int, hexagonal: bool) -> nn.Sequential:
        first = _conv_norm(rank, channels, width, kernel, stride, hexagonal)
        return nn.Sequential(*first, nn.ReLU(), *_conv_norm(rank, width, width, kernel, hexagonal=hexagonal))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.shortcut(x) + self.branch(x))


class Bottleneck(ResidualBlock):
    """A residual block whose branch narrows: convolutions of 1, `kernel` and 1 samples."""

    expansion = 4

    def _branch(self, rank: int, channels: int, width: int, kernel: int, stride: int, hexagonal: bool) -> nn.Sequential:
        first = _conv_norm(rank, channels, width, 1)
        second = _conv_norm(rank, width, width, kernel, stride, hexagonal)
        return nn.Sequential(*first, nn.ReLU(), *second, nn.ReLU(), *_conv_norm(rank, width, width * self.expansion, 1))


_BLOCKS: dict[str, type[ResidualBlock]] = {"basic": ResidualBlock, "bottleneck": Bottleneck}


class NonLocalBlock(nn.Module):
    """`x + W_z softmax(theta(x)ᵀ phi(x)) g(x)`: every position attends to all others (Wang et al. 2018, eq. 4 and 6).

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


def _stage(c: CNNConfig, rank: int, stage: int) -> nn.Sequential:
    width, block = c.widths[stage], _BLOCKS[c.block]
    out = width * block.expansion
    before = c.widths[stage - 1] * block.expansion if stage else width
    first = block(rank, before, width, c.kernel, 2 if stage else 1, c.hexagonal)
    others = [block(rank, out, width, c.kernel, 1, c.hexagonal) for _ in range(c.blocks[stage] - 1)]
    return nn.Sequential(first, *others, *([NonLocalBlock(rank, out)] if stage in c.nonlocal_after else []))


def _conv_norm(
    rank: int, channels: int, width: int, kernel: int, stride: int = 1, hexagonal: bool = False
) -> tuple[nn.Module, nn.Module]:
    """A convolution, initialised for ReLU (He et al. 2015), and its norm, which has the bias."""
    if hexagonal:
        return HexagonalConv(channels, width, kernel, stride), _NORM[rank](width)
    conv = CONV[rank](channels, width, kernel, stride=stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv, _NORM[rank](width)


class HexagonalConv(nn.Module):
    """A convolution on a hexagonal grid (S2.8): with a kernel 3 cells across, a cell and its six neighbours.

    The grid is an array in axial coordinates: rows and columns are steps along two lattice vectors 60° apart. A step
    along one and back along the other leads to a neighbour; a step along both does not, so that two corners of a square
    kernel are empty. There is no bias, and the outputs are a hexagonal grid again.
    """

    place: Tensor

    def __init__(self, channels: int, width: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, stride
        step = torch.arange(kernel) - kernel // 2
        inside = (step[:, None] + step).abs() <= kernel // 2  # (kernel, kernel)
        count = int(inside.sum())
        place = torch.full((kernel, kernel), count)  # index of the padding zero
        place[inside] = torch.arange(count)
        self.register_buffer("place", place, persistent=False)
        self.weight = nn.Parameter(torch.empty(width, channels, count))
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu")

    def square(self) -> Tensor:
        """The kernel as an array `(width, channels, kernel, kernel)`, zero outside the hexagon."""
        return F.pad(self.weight, (0, 1))[..., self.place]

    def forward(self, x: Tensor) -> Tensor:
        """`(B, channels, rows, columns) -> (B, width, rows / stride, columns / stride)`."""
        return F.conv2d(x, self.square(), stride=self.stride, padding=self.kernel // 2)
