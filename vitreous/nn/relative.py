"""Relative bias (S4.1): what is added to the attention logits of two tokens by their displacement on the grid."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.nn.resample import resize


class Layout(NamedTuple):
    """Where the tokens of a model stand."""

    places: Tensor
    """`(N, axes)`: on the token grid, in steps; a set's have none."""
    shape: tuple[int, ...]
    """Of the token grid; of a set, the largest number of elements."""
    prefix: int
    """Tokens before those: class token and registers."""


class Displaced(NamedTuple):
    """The relative bias of one layer, for attention that does not look at all pairs."""

    table: Tensor
    """`(heads, entries)`, those of the prefix last."""
    shape: tuple[int, ...]
    """Of the token grid."""

    def at(self, moved: Tensor) -> Tensor:
        """The bias `(heads, ...)` of displacements `(..., axes)`; those beyond the grid get that of its edge."""
        return self.table[:, entry(moved, self.shape)]

    def each(self, moved: Tensor) -> Tensor:
        """The bias of displacements `(B, heads, chunks, n, m, axes)` that differ from head to head."""
        heads = torch.arange(len(self.table), device=moved.device).view(-1, 1, 1, 1)
        return self.table[heads, entry(moved, self.shape)]

    def to_prefix(self, count: int) -> Tensor:
        """From a token to each of the prefix tokens, `(heads, count)`."""
        return self.table[:, -2:-1].expand(-1, count)

    def from_prefix(self, count: int, tokens: int) -> Tensor:
        """From the prefix tokens to themselves and to all tokens, `(1, heads, count, count + tokens)`."""
        row = torch.cat([self.table[:, -1:].expand(-1, count), self.table[:, -3:-2].expand(-1, tokens)], dim=1)
        return row[None, :, None].expand(-1, -1, count, -1)

    def heads(self, some: slice) -> "Displaced":
        """For some of the heads."""
        return Displaced(self.table[some], self.shape)

    def dense(self, index: Tensor) -> Tensor:
        """`(1, heads, N, N)` of an index of entries."""
        return self.table[:, index].unsqueeze(0)


def entry(moved: Tensor, shape: Sequence[int]) -> Tensor:
    """The place in a table of relative biases of displacements `(..., axes)` on a grid."""
    index = torch.zeros_like(moved[..., 0])
    for axis, n in enumerate(shape):
        index = index * (2 * n - 1) + moved[..., axis].clamp(1 - n, n - 1) + n - 1
    return index


def entries(places: Tensor, shape: Sequence[int], prefix: int) -> Tensor:
    """The place in the table for every pair of tokens, `(prefix + N, prefix + N)`."""
    index = entry(places.unsqueeze(1) - places.unsqueeze(0), shape)
    if prefix:
        last = math.prod(2 * n - 1 for n in shape)
        index = F.pad(index, (prefix, 0, prefix, 0))
        index[:prefix, prefix:] = last
        index[prefix:, :prefix] = last + 1
        index[:prefix, :prefix] = last + 2
    return index


class RelativeBias(nn.Module):
    """S4.1: a trainable `p_ij` added to the logits, per layer and head, that depends on the displacement alone.

    Displacements are whole steps on the token grid. The prefix tokens stand nowhere, so three entries of their
    own serve all pairs prefix → token, token → prefix and prefix → prefix. Where attention is not between `all` pairs,
    nothing of the size of all pairs is held.
    """

    index: Tensor | None

    def __init__(
        self, places: Tensor, shape: Sequence[int], depth: int, heads: int, prefix: int, all: bool = True
    ) -> None:
        super().__init__()
        self.shape = tuple(shape)
        self.register_buffer("index", entries(places, shape, prefix) if all else None, persistent=False)
        self.table = nn.Parameter(torch.zeros(depth, heads, math.prod(2 * n - 1 for n in shape) + 3 * bool(prefix)))

    def forward(self, layer: int) -> "Tensor | Displaced":
        """The bias of one layer: of all pairs `(1, heads, N, N)`, or what gives it for some."""
        some = Displaced(self.table[layer], self.shape)
        return some if self.index is None else some.dense(self.index)

    @staticmethod
    def resample(table: Tensor, old: Sequence[int], new: Sequence[int]) -> Tensor:
        """A table `(depth, heads, entries)` of the grid `old`, carried to the grid `new`; prefix entries stay."""
        reach = [[2 * n - 1 for n in grid] for grid in (old, new)]
        entries = math.prod(reach[0])
        grid = table[..., :entries].float().unflatten(-1, reach[0])  # (depth, heads, *displacements)
        return torch.cat([resize(grid, reach[1]).flatten(2).to(table.dtype), table[..., entries:]], dim=-1)
