"""Attention between some pairs of tokens only (S2.7): windows and strides, and what they share with hashing.

Each kind has the weights of full attention and defines which keys a query attends to; prefix tokens attend to all
tokens and all tokens attend to them. The fast path gathers the keys of a block of queries and calls
`scaled_dot_product_attention`; the recorded path is full attention with a mask, and agrees with it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.nn.attention.bias import BiasTable, Layout, table_index
from vitreous.nn.attention.multihead import Attention, AttentionConfig, Bias, common_arguments
from vitreous.nn.attention.scores import Dot

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig

_SMALLEST = {1: 64, 2: 8, 3: 4}  # smallest side of a window's block of queries, by the number of axes


class Sparse(Attention):
    """Attention in which a token attends to some of the others; dot products only."""

    places: Tensor

    def __init__(self, layout: Layout, *others: Any, **named: Any) -> None:
        super().__init__(*others, **named)
        self.shape, self.prefix = layout.shape, layout.prefix
        self.register_buffer("places", layout.places, persistent=False)

    def mix(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: Bias) -> Tensor:
        assert not isinstance(bias, Tensor)
        p = self.prefix
        tokens = self._tokens(Dot(scored.q[:, :, p:], scored.k, scored.scale), v, mask, bias)
        if not p:
            return tokens
        row = None if bias is None else bias.from_prefix(p, v.shape[-2] - p).to(v.dtype)
        first = Dot(scored.q[:, :, :p], scored.k, scored.scale).attend(v, mask, row, self.active_dropout)
        return torch.cat([first, tokens], dim=2)

    def _tokens(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: BiasTable | None) -> Tensor:
        """Attention of the tokens without prefix: queries `(B, heads, N, d)`, keys and values with the prefix."""
        raise NotImplementedError

    def pairs(self, scored: Dot | Tensor, mask: Tensor | None, bias: Bias) -> tuple[Tensor, Tensor | None]:
        assert isinstance(scored, Dot)
        assert not isinstance(bias, Tensor)
        p = self.prefix
        visible = F.pad(self._visible(Dot(scored.q[:, :, p:], scored.k, scored.scale), mask), (p, 0, p, 0), value=True)
        if bias is not None:
            bias = bias.table[:, table_index(self.places, self.shape, p)].unsqueeze(0).to(scored.dtype)
        return visible if mask is None else visible & mask, bias

    def _visible(self, scored: Dot, mask: Tensor | None) -> Tensor:
        """Which tokens attend to each other, without prefix, broadcastable to `(B, heads, N, N)`."""
        raise NotImplementedError

    def _attend_blocks(
        self, scored: Dot, v: Tensor, visible: Tensor, bias: Tensor | None, first: Sequence[Tensor], mask: Tensor | None
    ) -> Tensor:
        """Attention of each block of queries to its own keys and to the prefix tokens.

        Args:
            scored: queries `(B, blocks, heads, n, d)` and keys `(B, blocks, heads, m, d)`.
            visible: broadcastable to `(B, blocks, 1, n, m)`.
            bias: broadcastable to `(blocks, heads, n, p + m)`.
            first: keys and values of the prefix, `(B, heads, p, d)`.
            mask: of all keys, `(B, 1, 1, p + N)`.
        """
        (batch, blocks, heads, n, _), p = scored.q.shape, self.prefix
        k, v = (
            torch.cat([prefix.unsqueeze(1).expand(-1, blocks, -1, -1, -1), own], dim=3)
            for prefix, own in zip(first, (scored.k, v), strict=True)
        )
        visible = visible.expand(*visible.shape[:3], n, -1)
        present = visible.new_ones(1, 1, 1, 1, p) if mask is None else mask[:, None, :, :, :p]
        lead = torch.broadcast_shapes(visible.shape[:4], present.shape[:4])  # (B or 1, blocks, 1, n)
        allowed = torch.cat([present.expand(*lead, -1), visible.expand(*lead, -1)], dim=-1)
        if bias is None:
            q, k, v = (x.transpose(0, 1).flatten(1, 2) for x in (scored.q, k, v))  # (blocks, B heads, ...)
            extra = allowed.transpose(0, 1)
            if len(allowed) > 1:
                extra = extra.expand(-1, -1, heads, -1, -1)
            mixed = Dot(q, k, scored.scale).attend(v, extra.flatten(1, 2), None, self.active_dropout)
            return torch.unflatten(mixed, 1, (batch, heads)).transpose(0, 1)
        whole = bias.to(v.dtype).masked_fill(~allowed, float("-inf"))
        q, k, v = (x.flatten(0, 1) for x in (scored.q, k, v))  # (B blocks, heads, ...)
        extra = whole.expand(batch, -1, -1, -1, -1).flatten(0, 1)
        mixed = Dot(q, k, scored.scale).attend(v, None, extra, self.active_dropout)
        return torch.unflatten(mixed, 0, (batch, blocks))


@dataclass(frozen=True)
class WindowAttention(AttentionConfig):
    """A token attends to near tokens on the grid."""

    kind: ClassVar[str] = "window"
    needs_grid: ClassVar[bool] = True
    least: ClassVar[int] = 1
    window: tuple[int, ...] = ()
    """How many tokens away a token attends, along each axis; one number serves all axes."""

    def complete(self, c: "ViTConfig") -> Self:
        super().complete(c)
        if len(self.window) not in (1, len(c.grid)):
            raise InputError(f"window: found {self.window}, expected one number for each axis of input {c.input}")
        window = self.window * len(c.grid) if len(self.window) == 1 else self.window
        if any(w >= n for w, n in zip(window, c.token_grid, strict=True)):
            raise InputError(f"window: {window} reaches past the {c.token_grid} tokens; use attention = 'full'")
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
        queries, keys = (
            torch.cartesian_prod(*(torch.arange(-w, b + w) for b, w in zip(self.block, margin, strict=True)))
            for margin in ([0] * len(shape), self.window)
        )
        moved = (queries[:, None] - keys[None]).reshape(len(queries), -1, len(shape))  # (queries, keys, axes)
        self.register_buffer("moved", moved, persistent=False)
        self.register_buffer("near", (moved.abs() <= torch.tensor(self.window)).all(-1), persistent=False)
        inside = self._around(torch.ones(1, 1, math.prod(shape), 1, device="cpu"))[0, :, 0, :, 0] > 0
        self.register_buffer("inside", inside.to(moved.device), persistent=False)
        # In 1-D all blocks but those at the ends share one mask.
        changes = (inside[1:] != inside[:-1]).any(1).nonzero().flatten().tolist()
        self.runs = [b - a for a, b in pairwise([-1, *changes, len(inside) - 1])]

    def _tokens(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: BiasTable | None) -> Tensor:
        p, rank = self.prefix, len(self.shape)
        visible = (self.inside[:, None, None] & self.near).unsqueeze(0)  # (1, blocks, 1, queries, keys)
        if mask is not None:
            present = self._around(mask[:, :, 0, p:, None].to(v.dtype))[..., 0] > 0  # (B, blocks, 1, keys)
            visible = visible & present.unsqueeze(-2)
        extra = None if bias is None else bias.after_prefix(bias.at(self.moved).unsqueeze(0), p)
        q, k, values = (
            self._cut(scored.q, [0] * len(self.shape)),
            self._around(scored.k[:, :, p:]),
            self._around(v[:, :, p:]),
        )
        first = scored.k[:, :, :p], v[:, :, :p]
        if mask is not None or bias is not None or rank > 1:
            return self._back(self._attend_blocks(Dot(q, k, scored.scale), values, visible, extra, first, mask))
        parts = zip(*(part.split(self.runs, dim=1) for part in (q, k, values, visible)), strict=True)
        mixed = [
            self._attend_blocks(Dot(q_run, k_run, scored.scale), v_run, allowed[:, :1], None, first, None)
            for q_run, k_run, v_run, allowed in parts
        ]
        return self._back(torch.cat(mixed, dim=1))

    def _around(self, k: Tensor) -> Tensor:
        """`(B, heads, N, d) -> (B, blocks, heads, keys around a block, d)`, zeros outside the grid."""
        return self._cut(k, self.window)

    def _cut(self, x: Tensor, margin: Sequence[int]) -> Tensor:
        """`(B, heads, N, d) -> (B, blocks, heads, tokens of a block and of the margin around it, d)`."""
        rank = len(self.shape)
        x = x.unflatten(2, self.shape)
        sides = [(w, nb * b - n + w) for n, b, nb, w in zip(self.shape, self.block, self.blocks, margin, strict=True)]
        x = F.pad(x, (0, 0, *(side for pair in reversed(sides) for side in pair)))
        for axis, (step, w) in enumerate(zip(self.block, margin, strict=True)):
            x = x.unfold(axis + 2, step + 2 * w, step)  # (B, heads, *blocks, d, *size)
        x = x.permute(0, *range(2, 2 + rank), 1, *range(3 + rank, 3 + 2 * rank), 2 + rank)
        return x.flatten(1, rank).flatten(3, 2 + rank)

    def _back(self, mixed: Tensor) -> Tensor:
        """`(B, blocks, heads, queries, d) -> (B, heads, N, d)`."""
        rank = len(self.shape)
        x: Tensor = mixed.unflatten(3, self.block).unflatten(1, self.blocks)  # (B, *blocks, heads, *block, d)
        pairs = [axis for a in range(rank) for axis in (1 + a, 2 + rank + a)]
        x = x.permute(0, 1 + rank, *pairs, 2 + 2 * rank)
        x = x.reshape(*x.shape[:2], *map(math.prod, zip(self.block, self.blocks, strict=True)), x.shape[-1])
        for axis, n in enumerate(self.shape):
            x = x.narrow(axis + 2, 0, n)
        return x.flatten(2, 1 + rank)

    def _visible(self, scored: Dot, mask: Tensor | None) -> Tensor:
        moved = self.places[:, None] - self.places[None]
        return (moved.abs() <= moved.new_tensor(self.window)).all(-1)[None, None]


@dataclass(frozen=True)
class StridedAttention(AttentionConfig):
    """A token attends to its row or to its column."""

    kind: ClassVar[str] = "strided"
    needs_grid: ClassVar[bool] = True

    def build(self, c: "ViTConfig", layer: int, layout: Layout) -> Attention | None:
        return Strided(layer, layout, *common_arguments(c, layout))


class Strided(Sparse):
    """Half of the heads attend within a token's row, half within its column (Sparse Transformer, Child et al. 2019).

    The sequence of tokens is arranged in rows of `stride`. Two layers connect any two tokens at a cost of N √N. The
    roles of the heads alternate from layer to layer, so that one head is enough.
    """

    def __init__(self, layer: int, layout: Layout, *others: Any, **named: Any) -> None:
        super().__init__(layout, *others, **named)
        self.stride = choose_stride(layout.shape)
        self.rows = -(-math.prod(layout.shape) // self.stride)
        self.turn = layer % 2

    def _tokens(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: BiasTable | None) -> Tensor:
        out = torch.empty_like(scored.q)
        for turn, transposed in ((self.turn, False), (1 - self.turn, True)):
            heads = slice(turn, None, 2)
            if turn < self.heads:
                part = Dot(scored.q[:, heads], scored.k[:, heads], scored.scale)
                some = None if bias is None else BiasTable(bias.table[heads], bias.shape)
                out[:, heads] = self._lines(part, v[:, heads], mask, some, transposed)
        return out

    def _lines(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: BiasTable | None, transposed: bool) -> Tensor:
        """Attention within each row, or within each column."""
        p, count = self.prefix, scored.q.shape[2]
        lay = partial(self._lay, transposed=transposed)
        present = lay(v.new_ones(1, 1, count, 1))[..., 0] > 0  # (1, lines, 1, tokens of a line)
        if mask is not None:
            present = present & (lay(mask[:, :, 0, p:, None].to(v.dtype))[..., 0] > 0)
        extra = None
        if bias is not None:
            places = lay(self.places[None, None])[0, :, 0]  # (lines, tokens, axes)
            extra = bias.at(places[:, :, None] - places[:, None]).transpose(0, 1)  # (lines, heads, tokens, tokens)
            extra = bias.after_prefix(extra, p)
        lines, values = Dot(lay(scored.q), lay(scored.k[:, :, p:]), scored.scale), lay(v[:, :, p:])
        first = scored.k[:, :, :p], v[:, :, :p]
        mixed = self._attend_blocks(lines, values, present.unsqueeze(-2), extra, first, mask)
        mixed = mixed.transpose(1, 2)  # (B, heads, lines, tokens, d)
        return (mixed.transpose(2, 3) if transposed else mixed).flatten(2, 3)[:, :, :count]

    def _lay(self, x: Tensor, transposed: bool) -> Tensor:
        """`(B, heads, N, d) -> (B, lines, heads, tokens of a line, d)`, zero-padded at the end."""
        x = F.pad(x, (0, 0, 0, self.rows * self.stride - x.shape[2])).unflatten(2, (self.rows, self.stride))
        return (x.transpose(2, 3) if transposed else x).transpose(1, 2)

    def _visible(self, scored: Dot, mask: Tensor | None) -> Tensor:
        order = torch.arange(len(self.places), device=scored.q.device)
        row, column = order // self.stride, order % self.stride
        same = torch.stack([row[:, None] == row, column[:, None] == column])  # (2, N, N)
        kind = (torch.arange(self.heads, device=order.device) + self.turn) % 2
        return same[kind].unsqueeze(0)


def choose_stride(shape: Sequence[int]) -> int:
    """Tokens of a row: √N in 1-D; on a grid, the product of trailing axes that is nearest to it."""
    root = math.sqrt(math.prod(shape))
    if len(shape) == 1:
        return math.ceil(root)
    return min((math.prod(shape[a:]) for a in range(1, len(shape))), key=lambda n: abs(math.log(n / root)))
