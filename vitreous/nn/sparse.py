"""Attention that is not between all pairs (S2.7): windows, and the strides of the Sparse Transformer.

Each kind has the weights of full attention and says which keys a query sees; prefix tokens see all and are seen by all.
The fast path gathers the keys of a block of queries and leaves the rest to `scaled_dot_product_attention`; the recorded
path is full attention with the pairs that are not seen masked, and agrees with it.
"""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.nn.attention import Attention, Bias, additive_mask
from vitreous.nn.relative import Displaced, Layout, entries
from vitreous.nn.score import Dot

_LEAST = {1: 64, 2: 8, 3: 4}  # side of a block of queries, by the number of axes


class Sparse(Attention):
    """Attention in which a token sees some of the others; dot products only.

    Args:
        layout: where the tokens stand.
        others: those of `Attention`.
    """

    places: Tensor

    def __init__(self, layout: Layout, *others: Any, **named: Any) -> None:
        super().__init__(*others, **named)
        self.shape, self.prefix = layout.shape, layout.prefix
        self.register_buffer("places", layout.places, persistent=False)

    def mix(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: Bias, dropout: float) -> Tensor:
        """The mixed values `(B, heads, prefix + N, d)`."""
        assert not isinstance(bias, Tensor)
        p = self.prefix
        seen = self._tokens(Dot(scored.q[:, :, p:], scored.k, scored.scale), v, mask, bias, dropout)
        if not p:
            return seen
        row = None if bias is None else bias.from_prefix(p, v.shape[-2] - p).to(v.dtype)
        first = F.scaled_dot_product_attention(
            scored.q[:, :, :p], scored.k, v, additive_mask(mask, row), dropout, scale=scored.scale
        )
        return torch.cat([first, seen], dim=2)

    def _tokens(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: Displaced | None, dropout: float) -> Tensor:
        """What the tokens of the grid get: queries `(B, heads, N, d)`, keys and values with the prefix before them."""
        raise NotImplementedError

    def pairs(self, scored: Dot | Tensor, mask: Tensor | None, bias: Bias) -> tuple[Tensor, Tensor | None]:
        """Mask and bias of all pairs, for the recorded path."""
        assert isinstance(scored, Dot)
        assert not isinstance(bias, Tensor)
        p = self.prefix
        visible = F.pad(self._visible(Dot(scored.q[:, :, p:], scored.k, scored.scale), mask), (p, 0, p, 0), value=True)
        whole = None if bias is None else bias.dense(entries(self.places, self.shape, p)).to(scored.q.dtype)
        return visible if mask is None else visible & mask, whole

    def _visible(self, scored: Dot, mask: Tensor | None) -> Tensor:
        """Which of the tokens of the grid see each other, broadcastable to `(B, heads, N, N)`."""
        raise NotImplementedError


class Window(Sparse):
    """A token sees those that are at most `window` steps away along each axis.

    Queries are taken in blocks, each with the keys around it, so that time and memory grow with the number of tokens.
    """

    near: Tensor
    moved: Tensor
    inside: Tensor

    def __init__(self, window: Sequence[int], layout: Layout, *others: Any, **named: Any) -> None:
        super().__init__(layout, *others, **named)
        shape = layout.shape
        self.window = tuple(window)
        side = _LEAST[len(shape)]
        self.block = tuple(min(n, max(4 * w, side)) for n, w in zip(shape, window, strict=True))
        self.blocks = tuple(-(-n // b) for n, b in zip(shape, self.block, strict=True))
        # Places within a block of queries, and of the keys around it, counted from the block's first query.
        queries = torch.cartesian_prod(*(torch.arange(b) for b in self.block)).reshape(-1, len(shape))
        keys = torch.cartesian_prod(
            *(torch.arange(-w, b + w) for b, w in zip(self.block, self.window, strict=True))
        ).reshape(-1, len(shape))
        moved = queries[:, None] - keys[None]  # (queries, keys, axes)
        self.register_buffer("moved", moved, persistent=False)
        self.register_buffer("near", (moved.abs() <= torch.tensor(self.window)).all(-1), persistent=False)
        self.register_buffer("inside", self._around(torch.ones(1, 1, math.prod(shape), 1))[0, :, 0, :, 0] > 0, False)
        # Along a line all blocks but those at its ends look alike, and one mask serves them all.
        changes = (self.inside[1:] != self.inside[:-1]).any(1).nonzero().flatten().tolist()
        self.alike = [b - a for a, b in pairwise([-1, *changes, len(self.inside) - 1])]

    def _tokens(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: Displaced | None, dropout: float) -> Tensor:
        p = self.prefix
        visible = self.inside[:, None, None] & self.near  # (blocks, 1, queries, keys)
        visible = visible.unsqueeze(0)
        if mask is not None:
            there = self._around(mask[:, :, 0, p:, None].to(v.dtype))[..., 0] > 0  # (B, blocks, 1, keys)
            visible = visible & there.unsqueeze(-2)
        extra = None if bias is None else bias.at(self.moved).unsqueeze(0)  # (1, heads, queries, keys)
        q, k, values = self._queries(scored.q), self._around(scored.k[:, :, p:]), self._around(v[:, :, p:])
        first = scored.k[:, :, :p], v[:, :, :p]
        if mask is not None or bias is not None or len(self.shape) > 1:
            return self._back(attend(Dot(q, k, scored.scale), values, visible, extra, first, mask, bias, dropout))
        runs = zip(*(part.split(self.alike, dim=1) for part in (q, k, values, visible)), strict=True)
        mixed = [
            attend(Dot(a, b, scored.scale), c, seen[:, :1], None, first, None, None, dropout) for a, b, c, seen in runs
        ]
        return self._back(torch.cat(mixed, dim=1))

    def _queries(self, q: Tensor) -> Tensor:
        """`(B, heads, N, d) -> (B, blocks, heads, queries of a block, d)`."""
        return self._cut(q, [(0, nb * b - n) for n, b, nb in self._axes()], self.block)

    def _around(self, k: Tensor) -> Tensor:
        """`(B, heads, N, d) -> (B, blocks, heads, keys around a block, d)`, zeros beyond the grid."""
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


class Strided(Sparse):
    """The Sparse Transformer's factorisation (Child et al. 2019): half of the heads see a token's row, half its column.

    Tokens in their order are laid out in rows of `stride`, so that two layers connect any two of them at a cost of
    N √N. Heads take turns from layer to layer, so that it also works with one head.
    """

    def __init__(self, layer: int, layout: Layout, *others: Any, **named: Any) -> None:
        super().__init__(layout, *others, **named)
        self.stride = stride_of(layout.shape)
        self.rows = -(-math.prod(layout.shape) // self.stride)
        self.turn = layer % 2

    def _tokens(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: Displaced | None, dropout: float) -> Tensor:
        out = torch.empty_like(scored.q)
        for turn, transposed in ((self.turn, False), (1 - self.turn, True)):
            heads = slice(turn, None, 2)
            if turn < self.heads:
                part = Dot(scored.q[:, heads], scored.k[:, heads], scored.scale)
                some = None if bias is None else bias.heads(heads)
                out[:, heads] = self._lines(part, v[:, heads], mask, some, dropout, transposed)
        return out

    def _lines(
        self, scored: Dot, v: Tensor, mask: Tensor | None, bias: Displaced | None, dropout: float, transposed: bool
    ) -> Tensor:
        """Attention within each row, or within each column."""
        p, count = self.prefix, scored.q.shape[2]
        lay = partial(self._lay, transposed=transposed)
        there = lay(v.new_ones(1, 1, count, 1))[..., 0] > 0  # (1, lines, 1, tokens of a line)
        if mask is not None:
            there = there & (lay(mask[:, :, 0, p:, None].to(v.dtype))[..., 0] > 0)
        extra = None
        if bias is not None:
            places = lay(self.places[None, None])[0, :, 0]  # (lines, tokens, axes)
            extra = bias.at(places[:, :, None] - places[:, None]).transpose(0, 1)  # (lines, heads, tokens, tokens)
        mixed = attend(
            Dot(lay(scored.q), lay(scored.k[:, :, p:]), scored.scale), lay(v[:, :, p:]), there.unsqueeze(-2), extra,
            (scored.k[:, :, :p], v[:, :, :p]), mask, bias, dropout,
        )  # fmt: skip
        mixed = mixed.transpose(1, 2)  # (B, heads, lines, tokens, d)
        return (mixed.transpose(2, 3) if transposed else mixed).flatten(2, 3)[:, :, :count]

    def _lay(self, x: Tensor, transposed: bool) -> Tensor:
        """`(B, heads, N, d) -> (B, lines, heads, tokens of a line, d)`, zeros at the end."""
        x = F.pad(x, (0, 0, 0, self.rows * self.stride - x.shape[2])).unflatten(2, (self.rows, self.stride))
        return (x.transpose(2, 3) if transposed else x).transpose(1, 2)

    def _visible(self, scored: Dot, mask: Tensor | None) -> Tensor:
        order = torch.arange(len(self.places), device=scored.q.device)
        row, column = order // self.stride, order % self.stride
        same = torch.stack([row[:, None] == row, column[:, None] == column])  # (2, N, N)
        kind = (torch.arange(self.heads, device=order.device) + self.turn) % 2
        return same[kind].unsqueeze(0)


def stride_of(shape: Sequence[int]) -> int:
    """Tokens of a row: √N along a line; on a grid the trailing axes whose product is nearest to that."""
    root = math.sqrt(math.prod(shape))
    if len(shape) == 1:
        return math.ceil(root)
    return min((math.prod(shape[a:]) for a in range(1, len(shape))), key=lambda n: abs(math.log(n / root)))


def attend(
    scored: Dot,
    v: Tensor,
    visible: Tensor,
    bias: Tensor | None,
    shared: tuple[Tensor, Tensor],
    mask: Tensor | None,
    displaced: Displaced | None,
    dropout: float,
) -> Tensor:
    """Attention of each block of queries to its own keys and to those of the prefix.

    Args:
        scored: queries `(B, blocks, heads, n, d)` and keys `(B, blocks, heads, m, d)`.
        visible: broadcastable to `(B, blocks, 1, n, m)`.
        bias: broadcastable to `(blocks, heads, n, m)`.
        shared: keys and values of the prefix, `(B, heads, p, d)`.
        mask: of all keys, `(B, 1, 1, p + N)`.
        displaced: where the bias between tokens and prefix comes from.
    """
    batch, blocks, heads, n, _ = scored.q.shape
    p = shared[0].shape[2]
    k, v = (
        torch.cat([first.unsqueeze(1).expand(-1, blocks, -1, -1, -1), own], dim=3)
        for first, own in zip(shared, (scored.k, v), strict=True)
    )
    seen = visible.expand(*visible.shape[:3], n, -1)
    first = seen.new_ones(1, 1, 1, 1, p) if mask is None else mask[:, None, :, :, :p]
    lead = torch.broadcast_shapes(seen.shape[:4], first.shape[:4])
    seen = torch.cat([first.expand(*lead, -1), seen.expand(*lead, -1)], dim=-1)  # (B or 1, blocks, 1, n, p + m)
    if bias is None:
        q, k, v = (x.transpose(0, 1).flatten(1, 2) for x in (scored.q, k, v))  # (blocks, B heads, ...)
        over = seen.transpose(0, 1)
        if len(seen) > 1:
            over = over.expand(-1, -1, heads, -1, -1)
        mixed = F.scaled_dot_product_attention(q, k, v, over.flatten(1, 2), dropout, scale=scored.scale)
        apart: Tensor = mixed.unflatten(1, (batch, heads))
        return apart.transpose(0, 1)
    assert displaced is not None
    row = displaced.to_prefix(p)[:, None, :].expand(*bias.shape[:-1], p)  # (heads, 1, p)
    whole = torch.cat([row, bias], dim=-1).to(v.dtype).masked_fill(~seen, float("-inf"))
    q, k, v = (x.flatten(0, 1) for x in (scored.q, k, v))  # (B blocks, heads, ...)
    over = whole.expand(batch, -1, -1, -1, -1).flatten(0, 1)
    mixed = F.scaled_dot_product_attention(q, k, v, over, dropout, scale=scored.scale)
    back: Tensor = mixed.unflatten(0, (batch, blocks))
    return back
