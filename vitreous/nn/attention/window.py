"""Attention within a window (S2.7)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.nn.attention.base import AttentionConfig, common_arguments
from vitreous.nn.attention.multihead import Attention
from vitreous.nn.attention.relative import BiasTable, Layout
from vitreous.nn.attention.scores import Dot
from vitreous.nn.attention.sparse import Sparse, attend_blocks

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig

_SMALLEST = {1: 64, 2: 8, 3: 4}  # smallest side of a block of queries, by the number of axes


@dataclass(frozen=True)
class WindowAttention(AttentionConfig):
    """A token attends to near tokens on the grid."""

    kind: ClassVar[str] = "window"
    needs_grid: ClassVar[bool] = True
    window: tuple[int, ...] = ()
    """How many tokens away a token attends, along each axis; one number serves all axes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(1, "window")

    def complete(self, c: "ViTConfig") -> Self:
        super().complete(c)
        if len(self.window) not in (1, len(c.grid)):
            raise InputError(f"window: found {self.window}, expected one number for each axis of input {c.input}")
        window = self.window * len(c.grid) if len(self.window) == 1 else self.window
        shape = c.token_grid
        if any(w >= n for w, n in zip(window, shape, strict=True)):
            raise InputError(f"window: {window} reaches past the {shape} tokens; use attention = 'full'")
        return replace(self, window=window)

    def build(self, c: "ViTConfig", layer: int, layout: Layout) -> Attention | None:
        return Window(self.window, layout, *common_arguments(c, layout))


class Window(Sparse):
    """A token attends to tokens that are at most `window` steps away along each axis.

    Queries are processed in blocks, each with the keys around it: time and memory grow linearly with the tokens.
    """

    near: Tensor
    moved: Tensor
    inside: Tensor

    def __init__(self, window: Sequence[int], layout: Layout, *others: Any, **named: Any) -> None:
        super().__init__(layout, *others, **named)
        shape = layout.shape
        self.window = tuple(window)
        side = _SMALLEST[len(shape)]
        self.block = tuple(min(n, max(4 * w, side)) for n, w in zip(shape, window, strict=True))
        self.blocks = tuple(-(-n // b) for n, b in zip(shape, self.block, strict=True))
        # Positions of a block's queries and of the keys around it, relative to the first query.
        queries = torch.cartesian_prod(*(torch.arange(b) for b in self.block)).reshape(-1, len(shape))
        keys = torch.cartesian_prod(
            *(torch.arange(-w, b + w) for b, w in zip(self.block, self.window, strict=True))
        ).reshape(-1, len(shape))
        moved = queries[:, None] - keys[None]  # (queries, keys, axes)
        self.register_buffer("moved", moved, persistent=False)
        self.register_buffer("near", (moved.abs() <= torch.tensor(self.window)).all(-1), persistent=False)
        self.register_buffer("inside", self._around(torch.ones(1, 1, math.prod(shape), 1))[0, :, 0, :, 0] > 0, False)
        # In 1-D all blocks but those at the ends share one mask.
        changes = (self.inside[1:] != self.inside[:-1]).any(1).nonzero().flatten().tolist()
        self.runs = [b - a for a, b in pairwise([-1, *changes, len(self.inside) - 1])]

    def _tokens(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: BiasTable | None, dropout: float) -> Tensor:
        p = self.prefix
        visible = self.inside[:, None, None] & self.near  # (blocks, 1, queries, keys)
        visible = visible.unsqueeze(0)
        if mask is not None:
            present = self._around(mask[:, :, 0, p:, None].to(v.dtype))[..., 0] > 0  # (B, blocks, 1, keys)
            visible = visible & present.unsqueeze(-2)
        extra = None if bias is None else bias.at(self.moved).unsqueeze(0)  # (1, heads, queries, keys)
        q, k, values = self._queries(scored.q), self._around(scored.k[:, :, p:]), self._around(v[:, :, p:])
        first = scored.k[:, :, :p], v[:, :, :p]
        if mask is not None or bias is not None or len(self.shape) > 1:
            return self._back(
                attend_blocks(Dot(q, k, scored.scale), values, visible, extra, first, mask, bias, dropout)
            )
        parts = zip(*(part.split(self.runs, dim=1) for part in (q, k, values, visible)), strict=True)
        mixed = [
            attend_blocks(Dot(q_run, k_run, scored.scale), v_run, allowed[:, :1], None, first, None, None, dropout)
            for q_run, k_run, v_run, allowed in parts
        ]
        return self._back(torch.cat(mixed, dim=1))

    def _queries(self, q: Tensor) -> Tensor:
        """`(B, heads, N, d) -> (B, blocks, heads, queries of a block, d)`."""
        return self._cut(q, [(0, nb * b - n) for n, b, nb in self._axes()], self.block)

    def _around(self, k: Tensor) -> Tensor:
        """`(B, heads, N, d) -> (B, blocks, heads, keys around a block, d)`, zeros outside the grid."""
        sides = [(w, nb * b - n + w) for (n, b, nb), w in zip(self._axes(), self.window, strict=True)]
        return self._cut(k, sides, [b + 2 * w for b, w in zip(self.block, self.window, strict=True)])

    def _axes(self) -> list[tuple[int, int, int]]:
        return list(zip(self.shape, self.block, self.blocks, strict=True))

    def _cut(self, x: Tensor, sides: Sequence[tuple[int, int]], size: Sequence[int]) -> Tensor:
        rank = len(self.shape)
        x = x.unflatten(2, self.shape)
        x = F.pad(x, (0, 0, *(side for pair in reversed(sides) for side in pair)))
        for axis, (length, step) in enumerate(zip(size, self.block, strict=True)):
            x = x.unfold(axis + 2, length, step)  # (B, heads, *blocks, d, *size)
        x = x.permute(0, *range(2, 2 + rank), 1, *range(3 + rank, 3 + 2 * rank), 2 + rank)
        return x.flatten(1, rank).flatten(3, 2 + rank)

    def _back(self, mixed: Tensor) -> Tensor:
        """`(B, blocks, heads, queries, d) -> (B, heads, N, d)`."""
        rank = len(self.shape)
        x: Tensor = mixed.unflatten(3, self.block).unflatten(1, self.blocks)  # (B, *blocks, heads, *block, d)
        pairs = [axis for a in range(rank) for axis in (1 + a, 2 + rank + a)]
        x = x.permute(0, 1 + rank, *pairs, 2 + 2 * rank)
        x = x.reshape(*x.shape[:2], *(b * nb for _, b, nb in self._axes()), x.shape[-1])
        for axis, n in enumerate(self.shape):
            x = x.narrow(axis + 2, 0, n)
        return x.flatten(2, 1 + rank)

    def _visible(self, scored: Dot, mask: Tensor | None) -> Tensor:
        moved = self.places[:, None] - self.places[None]
        near: Tensor = (moved.abs() <= moved.new_tensor(self.window)).all(-1)
        return near[None, None]
