"""From the input to tokens: patches of 1-, 2- and 3-D grids (S0.2, S3.2), and the elements of a set.

A tokenizer returns tokens `(B, N, D)`, a mask `(B, N)` or None (True: there is data), and coordinates
`(N, k)` or `(B, N, k)` in the input's own units.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.errors import InputError

CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_SPREAD: dict[int, Callable[..., Tensor]] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


class Tokens(NamedTuple):
    """What every tokenizer returns."""

    values: Tensor
    mask: Tensor | None
    coords: Tensor


class Contents(NamedTuple):
    """What the tokens stand for, before any weight: what can be asked of a model that has not seen them."""

    values: Tensor
    """`(B, N, shown)`."""
    there: Tensor | None
    """`(B, N)`: the tokens with data; None for all."""
    coords: Tensor | None = None
    """`(B, N, axes)`: where they are, of sets that hold it."""


class PatchTokenizer(nn.Module):
    """Cut a grid into patches and project each one linearly; a convolution with kernel = patch does the same (S3.2).

    A grid that the patches do not cover exactly is padded with zeros at its end. Padding counts as missing data,
    like the samples a mask marks False: a token with no sample left is masked, one with some is kept.

    Args:
        grid: samples along each axis.
        channels: channels of the input.
        patch, stride: samples along each axis; a stride below the patch makes patches overlap.
        stem: widths of stride-2 convolutions before the patches, which then cover the same samples.
        norm: layer norm after the projection (S4.4).
        origin, spacing: coordinate of the first sample and step between samples, along each axis.
    """

    index: Tensor

    def __init__(
        self,
        grid: Sequence[int],
        channels: int,
        patch: Sequence[int],
        stride: Sequence[int],
        dim: int,
        stem: Sequence[int] = (),
        norm: bool = False,
        origin: Sequence[float] = (),
        spacing: Sequence[float] = (),
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        self.grid, self.channels, self.patch, self.stride = tuple(grid), channels, tuple(patch), tuple(stride)
        self.shape = token_grid(grid, patch, stride)
        self.most = math.prod(self.shape)
        self.origin = tuple(origin) or (0.0,) * len(self.grid)
        self.spacing = tuple(spacing) or (1.0,) * len(self.grid)
        covered = [(n - 1) * s + p for n, s, p in zip(self.shape, self.stride, self.patch, strict=True)]
        missing = [max(0, c - g) for c, g in zip(covered, self.grid, strict=True)]
        self._pad = tuple(side for m in reversed(missing) for side in (0, m)) if any(missing) else ()
        self.stem = _stem(len(self.grid), channels, stem)
        shrink = 2 ** len(stem)
        self._window = tuple(p // shrink for p in patch), tuple(s // shrink for s in stride)
        self.kernel = kernel_shape(dim, channels, patch, stem)
        self.project = nn.Linear(self.kernel[1:].numel(), dim)
        self.norm = nn.LayerNorm(dim, eps) if norm else nn.Identity()
        index = torch.cartesian_prod(*(torch.arange(n) for n in self.shape)).reshape(-1, len(self.shape))
        self.register_buffer("index", index, persistent=False)  # (N, axes), the token's place in the token grid

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tokens:
        """`x`: `(B, channels, *grid)`; `mask`: `(B, *grid)`, False where a sample is missing."""
        check_batch(x, (self.channels, *self.grid), self.project.weight)
        if coords is not None:
            raise InputError("coords: a grid knows its own coordinates; they are given with sets only")
        if mask is not None:
            _check_mask(mask, (x.shape[0], *self.grid))
            x = x.masked_fill(~mask.unsqueeze(1), 0.0)
            mask = _patches(self._padded(mask.unsqueeze(1)), self.patch, self.stride).any(-1)  # (B, N)
        values = self.norm(self.project(_patches(self.stem(self._padded(x)), *self._window)))
        return Tokens(values, mask, self.coords())

    @property
    def shown(self) -> int:
        """Numbers that a token shows: the samples of its patch."""
        return self.channels * math.prod(self.patch)

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """The samples of each patch, those beyond the grid as zeros."""
        if mask is not None:
            raise InputError("mask: only whole grids show what their patches hold")
        return Contents(_patches(self._padded(x), self.patch, self.stride), None)

    def cells(self) -> Tensor:
        """Which tokens are hidden together, `(N,)`: so many that some of their samples are in no other token."""
        found = torch.zeros_like(self.index[:, 0])
        for axis, (count, p, s) in enumerate(zip(self.shape, self.patch, self.stride, strict=True)):
            across = -(-p // s)
            found = found * -(-count // across) + self.index[:, axis] // across
        return found

    def covered(self, tokens: Tensor) -> Tensor:
        """Samples `(B, 1, *grid)` that lie in at least one of the tokens marked in `(B, N)`."""
        marked = tokens.unflatten(1, self.shape).unsqueeze(1).float()
        spread = _SPREAD[len(self.grid)](marked, marked.new_ones(1, 1, *self.patch), stride=self.stride)
        inside = slice(None), slice(None), *(slice(0, n) for n in self.grid)
        return spread[inside] > 0.5

    def uncovered(self, tokens: Tensor) -> Tensor:
        """Of the samples of each patch, `(B, N, shown)`, those that lie in none of the marked tokens."""
        free = (~self.covered(tokens)).expand(-1, self.channels, *self.grid)
        return _patches(self._padded(free), self.patch, self.stride)

    def assembled(self, values: Tensor) -> Tensor:
        """Samples `(B, channels, *grid)` from those of the patches, `(B, N, shown)`, the mean where patches overlap."""
        size = self.channels * math.prod(self.grid)
        number = torch.arange(1, size + 1, device=values.device).view(1, self.channels, *self.grid)
        place = _patches(self._padded(number), self.patch, self.stride).flatten()  # 0 beyond the grid
        total = values.new_zeros(len(values), size + 1).index_add(1, place, values.flatten(1))
        count = values.new_zeros(size + 1).index_add(0, place, torch.ones_like(place, dtype=values.dtype))
        return (total / count.clamp(min=1))[:, 1:].reshape(-1, self.channels, *self.grid)

    def _padded(self, x: Tensor) -> Tensor:
        return F.pad(x, self._pad) if self._pad else x

    def coords(self) -> Tensor:
        """Centres of the patches `(N, axes)`, in the input's own units, exact for origins as large as a Julian date."""
        place = self.index if self.index.device.type == "mps" else self.index.double()  # which has no float64
        axes = zip(self.origin, self.spacing, self.stride, self.patch, strict=True)
        return torch.stack([o + d * (place[:, a] * s + (p - 1) / 2) for a, (o, d, s, p) in enumerate(axes)], dim=-1)


class SetTokenizer(nn.Module):
    """Elements of a set, each with features and coordinates, in any number up to a maximum (S2.8, S2.10).

    Args:
        features: features of an element.
        most: the largest number of elements.
        axes: coordinates of an element.
    """

    def __init__(
        self,
        features: int,
        most: int,
        axes: int,
        dim: int,
        norm: bool = False,
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        self.features, self.most, self.axes = features, most, axes
        self.project: nn.Module = nn.Linear(features, dim)
        self.norm = nn.LayerNorm(dim, eps) if norm else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tokens:
        """`x`: `(B, features, N)`; `mask`: `(B, N)`, False where there is no element; `coords`: `(B, N, axes)`."""
        check_elements(x, self.features, self.most, next(self.parameters()))
        batch, _, count = x.shape
        if coords is None and not self.axes:
            coords = x.new_zeros(batch, count, 0)
        if coords is None or tuple(coords.shape) != (batch, count, self.axes):
            found = "none" if coords is None else f"shape {_text(coords.shape)}"
            raise InputError(f"coords: found {found}, expected shape {_text((batch, count, self.axes))}")
        coords = coords.to(torch.promote_types(coords.dtype, torch.float32))  # whole or half numbers would round
        if mask is not None:
            _check_mask(mask, (batch, count))
            x = x.masked_fill(~mask.unsqueeze(1), 0.0)
            coords = coords.masked_fill(~mask.unsqueeze(2), 0.0)
        return Tokens(self.norm(self.project(x.mT)), mask, coords)

    @property
    def shown(self) -> int:
        """Numbers that a token shows: the features of its element."""
        return self.features

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """The features of each element."""
        return Contents(x.mT, mask)


TOKENIZERS = ("patch", "set", "packed", "peaks", "lines")


def token_grid(grid: Sequence[int], patch: Sequence[int], stride: Sequence[int]) -> tuple[int, ...]:
    """Patches along each axis, the last one padded where it does not fit."""
    return tuple(-((p - g) // s) + 1 if g > p else 1 for g, p, s in zip(grid, patch, stride, strict=True))


def kernel_shape(dim: int, channels: int, patch: Sequence[int], stem: Sequence[int]) -> torch.Size:
    """The patch projection's shape, were it a convolution's: `(dim, channels, *patch)`, after the stem."""
    return torch.Size((dim, stem[-1] if stem else channels, *(p // 2 ** len(stem) for p in patch)))


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


def check_batch(x: Tensor, expected: Sequence[int], weight: Tensor) -> None:
    """Raise `InputError` unless `x` is `(batch, *expected)` and of the type of the model's weights."""
    _check_type(x, weight)
    if x.dim() != len(expected) + 1 or tuple(x.shape[1:]) != tuple(expected):
        raise InputError(f"input: found a batch of shape {_text(x.shape)}, expected {_text(('batch', *expected))}")


def check_elements(x: Tensor, rows: int, most: int, weight: Tensor) -> None:
    """Raise `InputError` unless `x` is `(batch, rows, at most so many)` and of the type of the model's weights."""
    _check_type(x, weight)
    if x.dim() != 3 or x.shape[1] != rows or x.shape[2] > most:
        raise InputError(f"input: found a batch of shape {_text(x.shape)}, expected (batch, {rows}, at most {most})")


def _check_type(x: object, weight: Tensor) -> None:
    """A batch must be a tensor of the model's own type; autocast sees to the rest."""
    if not isinstance(x, Tensor):
        raise InputError(f"input: found {type(x).__module__}.{type(x).__name__}, expected a torch.Tensor")
    mixed = x.is_floating_point() and x.device.type != "meta" and torch.is_autocast_enabled(x.device.type)
    if x.dtype != weight.dtype and not mixed:
        raise InputError(f"input: found {x.dtype}, expected {weight.dtype} like the model")


def _check_mask(mask: Tensor, shape: Sequence[int]) -> None:
    if mask.dtype != torch.bool or tuple(mask.shape) != tuple(shape):
        raise InputError(
            f"mask: found {mask.dtype} of shape {_text(mask.shape)}, expected torch.bool of shape {_text(shape)}"
        )


def _text(shape: Sequence[object]) -> str:
    return f"({', '.join(str(n) for n in shape)})"
