"""Patches of 1-, 2- and 3-D grids as tokens (S0.2, S3.2)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.nn.tokens.base import Contents, Tokenizer, TokenizerConfig, Tokens, check_batch, check_mask

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig

CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_CONV_TRANSPOSE: dict[int, Any] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


class PatchTokenizer(Tokenizer):
    """Cut a grid into patches and project each linearly, which equals a convolution with kernel = patch (S3.2).

    A grid that the patches do not cover exactly is padded with zeros at its end. Padding counts as missing data, like
    samples whose mask is False: a token without any sample is masked, a token with some samples is not.
    """

    is_grid = True

    def __init__(self, c: "ViTConfig") -> None:
        super().__init__()
        self.channels, self.grid, self.patch, self.stride = c.input[0], c.grid, c.patch, c.stride
        self.axes, self.shape, self.shown = len(c.grid), c.token_grid, self.channels * math.prod(c.patch)
        self.origin, self.spacing = c.origin or (0.0,) * self.axes, c.spacing or (1.0,) * self.axes
        covered = [(n - 1) * s + p for n, s, p in zip(self.shape, self.stride, self.patch, strict=True)]
        missing = [max(0, end - samples) for end, samples in zip(covered, self.grid, strict=True)]
        self._padding = tuple(side for m in reversed(missing) for side in (0, m)) if any(missing) else ()
        self.stem = _stem(self.axes, self.channels, c.stem)
        shrink = 2 ** len(c.stem)
        self._window = tuple(p // shrink for p in c.patch), tuple(s // shrink for s in c.stride)
        self.kernel = kernel_shape(c)
        self.project = nn.Linear(self.kernel[1:].numel(), c.dim)
        self.norm = nn.LayerNorm(c.dim, c.eps) if c.embed_norm else nn.Identity()
        index = torch.cartesian_prod(*(torch.arange(n) for n in self.shape)).reshape(-1, len(self.shape))
        self.register_buffer("index", index, persistent=False)  # (N, axes)

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tokens:
        """`x`: `(B, channels, *grid)`; `mask`: `(B, *grid)`, False where a sample is missing."""
        check_batch(x, (self.channels, *self.grid), self.project.weight)
        if coords is not None:
            raise InputError("coords: a grid has its own coordinates; only sets take them as an argument")
        if mask is not None:
            check_mask(mask, (x.shape[0], *self.grid))
            x = x.masked_fill(~mask.unsqueeze(1), 0.0)
            mask = _patches(self._pad(mask.unsqueeze(1)), self.patch, self.stride).any(-1)  # (B, N)
        values = self.norm(self.project(_patches(self.stem(self._pad(x)), *self._window)))
        return Tokens(values, mask, self.coords())

    def coords(self) -> Tensor:
        """Centres of the patches `(N, axes)` in the units of the input, in float64: origins may be Julian dates."""
        index = self.index if self.index.device.type == "mps" else self.index.double()  # MPS has no float64
        axes = zip(self.origin, self.spacing, self.stride, self.patch, strict=True)
        return torch.stack([o + d * (index[:, a] * s + (p - 1) / 2) for a, (o, d, s, p) in enumerate(axes)], dim=-1)

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """The samples of each patch; padding is 0."""
        if mask is not None:
            raise InputError("mask: found a mask, but patches with missing samples have no contents to predict")
        return Contents(_patches(self._pad(x), self.patch, self.stride), None)

    def hiding_units(self, values: Tensor) -> Tensor:
        """Neighbouring patches that overlap are hidden together, so that some samples are really hidden."""
        units = torch.zeros_like(self.index[:, 0])
        for axis, (count, p, s) in enumerate(zip(self.shape, self.patch, self.stride, strict=True)):
            across = -(-p // s)
            units = units * -(-count // across) + self.index[:, axis] // across
        return units

    def hide(self, x: Tensor, values: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The input with zeros where no visible patch covers it, and which samples of hidden patches these are."""
        covered = self.covered(~hidden)
        uncovered = _patches(self._pad((~covered).expand(-1, self.channels, *self.grid)), self.patch, self.stride)
        return x * covered, hidden.unsqueeze(-1).expand_as(values) & uncovered

    def covered(self, tokens: Tensor) -> Tensor:
        """Samples `(B, 1, *grid)` that lie in at least one of the tokens marked in `(B, N)`."""
        marked = tokens.unflatten(1, self.shape).unsqueeze(1).float()
        spread: Tensor = _CONV_TRANSPOSE[self.axes](marked, marked.new_ones(1, 1, *self.patch), stride=self.stride)
        inside = slice(None), slice(None), *(slice(0, n) for n in self.grid)
        return spread[inside] > 0.5

    def picture(self, x: Tensor) -> Tensor:
        return x

    def visible(self, hidden: Tensor) -> Tensor:
        return self.covered(~hidden)

    def assemble(self, values: Tensor) -> Tensor:
        """Samples `(B, channels, *grid)` from those of the patches `(B, N, shown)`; the mean where patches overlap."""
        size = self.channels * math.prod(self.grid)
        number = torch.arange(1, size + 1, device=values.device).view(1, self.channels, *self.grid)
        target = _patches(self._pad(number), self.patch, self.stride).flatten()  # 0 for padding
        total = values.new_zeros(len(values), size + 1).index_add(1, target, values.flatten(1))
        count = values.new_zeros(size + 1).index_add(0, target, torch.ones_like(target, dtype=values.dtype))
        return (total / count.clamp(min=1))[:, 1:].reshape(-1, self.channels, *self.grid)

    def _pad(self, x: Tensor) -> Tensor:
        return F.pad(x, self._padding) if self._padding else x


@dataclass(frozen=True)
class PatchTokens(TokenizerConfig):
    """Patches of a grid. The model's `input` is `(channels, samples along each axis)`."""

    kind: ClassVar[str] = "patch"
    has_mask: ClassVar[bool] = False
    builds: ClassVar[type[Tokenizer]] = PatchTokenizer
    patch: tuple[int, ...] = ()
    """Samples of a patch along each axis; one number serves all axes."""
    stride: tuple[int, ...] = ()
    """Samples between neighbouring patches; the patch itself by default. Patches overlap if it is smaller."""
    stem: tuple[int, ...] = ()
    """Widths of convolutions before the patches; each halves the grid."""
    origin: tuple[float, ...] = ()
    """Coordinate of the first sample along each axis, in the units of the input; 0 by default."""
    spacing: tuple[float, ...] = ()
    """Step between samples along each axis, in the units of the input; 1 by default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(1, "patch", "stride", "stem")

    def complete(self, c: "ViTConfig") -> Self:
        axes = len(c.grid)
        if axes > 3:
            raise InputError(f"input: found {axes} axes after the channels in {c.input}, expected 1, 2 or 3")
        patch = self._spread("patch", axes, c)
        stride = self._spread("stride", axes, c) if self.stride else patch
        complete = replace(self, patch=patch, stride=stride, **self._scales(axes, c))
        shrink = 2 ** len(self.stem)
        for p, s, samples in zip(patch, stride, c.grid, strict=True):
            if p > samples:
                raise InputError(f"patch: {patch} is larger than the grid {c.grid}")
            if s > p:
                raise InputError(f"stride: {stride} is larger than the patch {patch} and would skip samples")
            if p % shrink or s % shrink:
                needed = f"patch {patch} and stride {stride} to be multiples of {shrink}"
                raise InputError(f"stem: {len(self.stem)} halvings need {needed}")
        return complete


def token_grid(grid: Sequence[int], patch: Sequence[int], stride: Sequence[int]) -> tuple[int, ...]:
    """Patches along each axis; the last one may need padding."""
    return tuple(-((p - g) // s) + 1 if g > p else 1 for g, p, s in zip(grid, patch, stride, strict=True))


def kernel_shape(c: "ViTConfig") -> torch.Size:
    """Shape of the patch projection as a convolution kernel: `(dim, channels, *patch)`, after the stem."""
    return torch.Size((c.dim, c.stem[-1] if c.stem else c.input[0], *(p // 2 ** len(c.stem) for p in c.patch)))


def _patches(x: Tensor, patch: Sequence[int], stride: Sequence[int]) -> Tensor:
    """`(B, C, *grid) -> (B, N, C * prod(patch))`, in the order of a convolution's weight."""
    rank = len(patch)
    for axis, (p, s) in enumerate(zip(patch, stride, strict=True)):
        x = x.unfold(axis + 2, p, s)
    return x.movedim(1, rank + 1).flatten(1, rank).flatten(2)  # (B, C, *tokens, *patch) -> (B, N, C * patch)


def _stem(rank: int, channels: int, widths: Sequence[int]) -> nn.Sequential:
    """Convolutions that each halve the grid, with norm and GELU."""
    layers: list[nn.Module] = []
    for width in widths:
        layers += [CONV[rank](channels, width, 3, stride=2, padding=1), nn.GroupNorm(1, width), nn.GELU()]
        channels = width
    return nn.Sequential(*layers)
