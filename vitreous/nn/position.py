"""Where a token is: learned (S0.4) and sinusoidal (S1.3) position encodings, relative bias (S4.1), resampling.

On a grid a token's place is its whole number of steps along each axis; in a set its coordinates come with it.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.nn.block import MLP

POSITIONS = ("learned", "sinusoidal", "none")
BIASES = ("none", "relative")


def sinusoidal(position: Tensor, dim: int) -> Tensor:
    """S1.3: `PE(k, 2i) = sin(k / 10000^(2i/dim))`, `PE(k, 2i+1) = cos(same)`.

    Args:
        position: `(..., axes)`, in steps between neighbouring tokens. With several axes the encoding is
            factorised: each axis takes an equal, even share of the width and what is left over stays zero.

    Returns:
        `(..., dim)`.
    """
    axes = position.shape[-1]
    share = dim if axes == 1 else dim // (2 * axes) * 2
    even = torch.arange(0, share, 2, device=position.device, dtype=position.dtype)  # the 2i of the formula
    angle = position.unsqueeze(-1) / 10000 ** (even / share)  # (..., axes, ceil(share / 2))
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[..., :share]  # sin, cos, sin, cos, …
    return F.pad(waves.flatten(-2), (0, dim - axes * share))


class GridPosition(nn.Module):
    """Positions of a fixed grid, one row a token, prefix tokens (cls, registers) first: `(1, prefix + N, D)`.

    `learned` is a trainable table of that shape (S0.4); `sinusoidal` a constant one, zero for the prefix.
    """

    def __init__(self, kind: str, index: Tensor, dim: int, prefix: int) -> None:
        super().__init__()
        if kind == "learned":
            self.table: Tensor = nn.Parameter(torch.zeros(1, prefix + len(index), dim))
        else:
            rows = F.pad(sinusoidal(index.float(), dim), (0, 0, prefix, 0))
            self.register_buffer("table", rows.unsqueeze(0), persistent=False)

    def forward(self, coords: Tensor, dtype: torch.dtype) -> Tensor:
        return self.table


class SetPosition(nn.Module):
    """Positions of elements that bring their own coordinates: `(B, prefix + N, D)`, zero for the prefix.

    `learned` is an MLP of the coordinates, `sinusoidal` the factorised S1.3 of them, both in steps of `spacing`.
    """

    def __init__(self, kind: str, axes: int, dim: int, prefix: int, spacing: Sequence[float] = ()) -> None:
        super().__init__()
        self.dim, self.prefix = dim, prefix
        self.spacing = tuple(spacing) or (1.0,) * axes
        self.embed = MLP((axes, dim, dim)) if kind == "learned" else None

    def forward(self, coords: Tensor, dtype: torch.dtype) -> Tensor:
        steps = coords / coords.new_tensor(self.spacing)
        encoded = sinusoidal(steps, self.dim).to(dtype) if self.embed is None else self.embed(steps.to(dtype))
        return F.pad(encoded, (0, 0, self.prefix, 0))


class RelativeBias(nn.Module):
    """S4.1: a trainable `p_ij` added to the logits, per layer and head, that depends on the displacement alone.

    Displacements are whole steps on the token grid. The prefix tokens stand nowhere, so three entries of their
    own serve all pairs prefix → token, token → prefix and prefix → prefix.
    """

    index: Tensor

    def __init__(self, places: Tensor, shape: Sequence[int], depth: int, heads: int, prefix: int) -> None:
        super().__init__()
        reach = [2 * n - 1 for n in shape]  # displacements along each axis
        entries = math.prod(reach)
        moved = places.unsqueeze(1) - places.unsqueeze(0)  # (N, N, axes)
        index = torch.zeros_like(moved[..., 0])
        for axis, size in enumerate(reach):
            index = index * size + moved[..., axis] + size // 2
        if prefix:
            index = F.pad(index, (prefix, 0, prefix, 0))
            index[:prefix, prefix:] = entries
            index[prefix:, :prefix] = entries + 1
            index[:prefix, :prefix] = entries + 2
        self.register_buffer("index", index, persistent=False)
        self.table = nn.Parameter(torch.zeros(depth, heads, entries + 3 * bool(prefix)))

    def forward(self, layer: int) -> Tensor:
        """The bias `(1, heads, N, N)` of one layer."""
        return self.table[layer][:, self.index].unsqueeze(0)

    @staticmethod
    def resample(table: Tensor, old: Sequence[int], new: Sequence[int]) -> Tensor:
        """A table `(depth, heads, entries)` of the grid `old`, carried to the grid `new`; prefix entries stay."""
        reach = [[2 * n - 1 for n in grid] for grid in (old, new)]
        entries = math.prod(reach[0])
        grid = table[..., :entries].float().unflatten(-1, reach[0])  # (depth, heads, *displacements)
        return torch.cat([resize(grid, reach[1]).flatten(2).to(table.dtype), table[..., entries:]], dim=-1)


def resample(table: Tensor, old: Sequence[int], new: Sequence[int], prefix: int) -> Tensor:
    """A learned table `(1, prefix + N, D)` of the grid `old`, carried to the grid `new`; prefix rows stay."""
    if tuple(old) == tuple(new):
        return table
    grid = table[:, prefix:].float().unflatten(1, tuple(old)).movedim(-1, 1)  # (1, D, *old)
    rows = resize(grid, new).flatten(2).mT.to(table.dtype)  # (1, N, D)
    return torch.cat([table[:, :prefix], rows], dim=1)


def resize(x: Tensor, size: Sequence[int]) -> Tensor:
    """`(B, C, *grid) -> (B, C, *size)`: bicubic with antialiasing along one or two axes, trilinear along three."""
    if len(size) == 3:
        return F.interpolate(x, size=tuple(size), mode="trilinear")
    if len(size) == 1:  # a line is a picture of height one
        return resize(x.unsqueeze(2), (1, *size)).squeeze(2)
    return F.interpolate(x, size=tuple(size), mode="bicubic", antialias=True)
