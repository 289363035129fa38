"""Strided attention of the Sparse Transformer (S2.7; Child et al. 2019)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.nn.attention.base import AttentionConfig, common_arguments
from vitreous.nn.attention.multihead import Attention
from vitreous.nn.attention.relative import BiasTable, Layout
from vitreous.nn.attention.scores import Dot
from vitreous.nn.attention.sparse import Sparse, attend_blocks

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig


@dataclass(frozen=True)
class StridedAttention(AttentionConfig):
    """A token attends to its row or to its column."""

    kind: ClassVar[str] = "strided"
    needs_grid: ClassVar[bool] = True

    def build(self, c: "ViTConfig", layer: int, layout: Layout) -> Attention | None:
        return Strided(layer, layout, *common_arguments(c, layout))


class Strided(Sparse):
    """Half of the heads attend within a token's row, half within its column (Child et al. 2019).

    The sequence of tokens is arranged in rows of `stride`. Two layers connect any two tokens at a cost of N √N. The
    roles of the heads alternate from layer to layer, so that one head is enough.
    """

    def __init__(self, layer: int, layout: Layout, *others: Any, **named: Any) -> None:
        super().__init__(layout, *others, **named)
        self.stride = choose_stride(layout.shape)
        self.rows = -(-math.prod(layout.shape) // self.stride)
        self.turn = layer % 2

    def _tokens(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: BiasTable | None, dropout: float) -> Tensor:
        out = torch.empty_like(scored.q)
        for turn, transposed in ((self.turn, False), (1 - self.turn, True)):
            heads = slice(turn, None, 2)
            if turn < self.heads:
                part = Dot(scored.q[:, heads], scored.k[:, heads], scored.scale)
                some = None if bias is None else bias.heads(heads)
                out[:, heads] = self._lines(part, v[:, heads], mask, some, dropout, transposed)
        return out

    def _lines(
        self, scored: Dot, v: Tensor, mask: Tensor | None, bias: BiasTable | None, dropout: float, transposed: bool
    ) -> Tensor:
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
        mixed = attend_blocks(
            Dot(lay(scored.q), lay(scored.k[:, :, p:]), scored.scale), lay(v[:, :, p:]), present.unsqueeze(-2), extra,
            (scored.k[:, :, :p], v[:, :, :p]), mask, bias, dropout,
        )  # fmt: skip
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
