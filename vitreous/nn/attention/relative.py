"""Relative bias (S4.1): added to the attention logits of two tokens, by their displacement on the grid."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.nn.resample import resize


class Layout(NamedTuple):
    """Where the tokens of a model are."""

    places: Tensor
    """`(N, axes)`: positions on the token grid, in steps; `(N, 0)` for sets."""
    shape: tuple[int, ...]
    """Shape of the token grid; for sets, the largest number of elements."""
    prefix: int
    """Number of tokens before those of the data: class token and registers."""


class BiasTable(NamedTuple):
    """The relative bias of one layer, looked up for the pairs that sparse attention needs."""

    table: Tensor
    """`(heads, entries)`; the three entries of the prefix are last."""
    shape: tuple[int, ...]
    """Shape of the token grid."""

    def at(self, moved: Tensor) -> Tensor:
        """The bias `(heads, ...)` of displacements `(..., axes)`, clamped to the size of the grid."""
        return self.table[:, displacement_index(moved, self.shape)]

    def each(self, moved: Tensor) -> Tensor:
        """The bias of displacements `(B, heads, chunks, n, m, axes)` that differ from head to head."""
        heads = torch.arange(len(self.table), device=moved.device).view(-1, 1, 1, 1)
        return self.table[heads, displacement_index(moved, self.shape)]

    def to_prefix(self, count: int) -> Tensor:
        """From a token to each prefix token, `(heads, count)`."""
        return self.table[:, -2:-1].expand(-1, count)

    def from_prefix(self, count: int, tokens: int) -> Tensor:
        """From the prefix tokens to themselves and to all tokens, `(1, heads, count, count + tokens)`."""
        row = torch.cat([self.table[:, -1:].expand(-1, count), self.table[:, -3:-2].expand(-1, tokens)], dim=1)
        return row[None, :, None].expand(-1, -1, count, -1)

    def heads(self, some: slice) -> "BiasTable":
        """The table of some of the heads."""
        return BiasTable(self.table[some], self.shape)

    def dense(self, index: Tensor) -> Tensor:
        """`(1, heads, N, N)` for the result of `table_index`."""
        return self.table[:, index].unsqueeze(0)


def displacement_index(moved: Tensor, shape: Sequence[int]) -> Tensor:
    """Entry in a table of relative biases for displacements `(..., axes)` on a grid."""
    index = torch.zeros_like(moved[..., 0])
    for axis, n in enumerate(shape):
        index = index * (2 * n - 1) + moved[..., axis].clamp(1 - n, n - 1) + n - 1
    return index


def table_index(places: Tensor, shape: Sequence[int], prefix: int) -> Tensor:
    """Entry in the table for every pair of tokens, `(prefix + N, prefix + N)`."""
    index = displacement_index(places.unsqueeze(1) - places.unsqueeze(0), shape)
    if prefix:
        last = math.prod(2 * n - 1 for n in shape)
        index = F.pad(index, (prefix, 0, prefix, 0))
        index[:prefix, prefix:] = last
        index[prefix:, :prefix] = last + 1
        index[:prefix, :prefix] = last + 2
    return index


class RelativeBias(nn.Module):
    """S4.1: a trainable `p_ij` for each layer and head, added to the logits, that depends on the displacement only.

    Displacements are integer steps on the token grid. Prefix tokens have no position; three entries of their own
    serve all pairs prefix → token, token → prefix and prefix → prefix. Without `all`, no array of the size of all pairs
    is kept.
    """

    index: Tensor | None

    def __init__(
        self, places: Tensor, shape: Sequence[int], depth: int, heads: int, prefix: int, all: bool = True
    ) -> None:
        super().__init__()
        self.shape = tuple(shape)
        self.register_buffer("index", table_index(places, shape, prefix) if all else None, persistent=False)
        self.table = nn.Parameter(torch.zeros(depth, heads, math.prod(2 * n - 1 for n in shape) + 3 * bool(prefix)))

    def forward(self, layer: int) -> "Tensor | BiasTable":
        """The bias of one layer: of all pairs `(1, heads, N, N)`, or the table for sparse attention."""
        table = BiasTable(self.table[layer], self.shape)
        return table if self.index is None else table.dense(self.index)

    @staticmethod
    def resample(table: Tensor, old: Sequence[int], new: Sequence[int]) -> Tensor:
        """Interpolate a table `(depth, heads, entries)` from the grid `old` to `new`; prefix entries stay."""
        reach = [[2 * n - 1 for n in grid] for grid in (old, new)]
        entries = math.prod(reach[0])
        grid = table[..., :entries].float().unflatten(-1, reach[0])  # (depth, heads, *displacements)
        return torch.cat([resize(grid, reach[1]).flatten(2).to(table.dtype), table[..., entries:]], dim=-1)
