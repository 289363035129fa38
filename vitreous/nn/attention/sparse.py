"""Attention between some pairs of tokens only (S2.7): what windows, strides and hashing share.

Each kind has the weights of full attention and defines which keys a query attends to; prefix tokens attend to all
tokens and all tokens attend to them. The fast path gathers the keys of a block of queries and calls
`scaled_dot_product_attention`; the recorded path is full attention with a mask, and agrees with it.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.nn.attention.multihead import Attention, Bias
from vitreous.nn.attention.relative import BiasTable, Layout, table_index
from vitreous.nn.attention.scores import Dot
from vitreous.nn.attention.softmax import additive_mask


class Sparse(Attention):
    """Attention in which a token attends to some of the others; dot products only.

    Args:
        layout: where the tokens are.
        others: arguments of `Attention`.
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
        tokens = self._tokens(Dot(scored.q[:, :, p:], scored.k, scored.scale), v, mask, bias, dropout)
        if not p:
            return tokens
        row = None if bias is None else bias.from_prefix(p, v.shape[-2] - p).to(v.dtype)
        first = F.scaled_dot_product_attention(
            scored.q[:, :, :p], scored.k, v, additive_mask(mask, row), dropout, scale=scored.scale
        )
        return torch.cat([first, tokens], dim=2)

    def _tokens(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: BiasTable | None, dropout: float) -> Tensor:
        """Attention of the tokens without prefix: queries `(B, heads, N, d)`, keys and values with the prefix."""
        raise NotImplementedError

    def pairs(self, scored: Dot | Tensor, mask: Tensor | None, bias: Bias) -> tuple[Tensor, Tensor | None]:
        """Mask and bias of all pairs, for the recorded path."""
        assert isinstance(scored, Dot)
        assert not isinstance(bias, Tensor)
        p = self.prefix
        visible = F.pad(self._visible(Dot(scored.q[:, :, p:], scored.k, scored.scale), mask), (p, 0, p, 0), value=True)
        whole = None if bias is None else bias.dense(table_index(self.places, self.shape, p)).to(scored.q.dtype)
        return visible if mask is None else visible & mask, whole

    def _visible(self, scored: Dot, mask: Tensor | None) -> Tensor:
        """Which tokens attend to each other, without prefix, broadcastable to `(B, heads, N, N)`."""
        raise NotImplementedError


def attend_blocks(
    scored: Dot,
    v: Tensor,
    visible: Tensor,
    bias: Tensor | None,
    shared: tuple[Tensor, Tensor],
    mask: Tensor | None,
    table: BiasTable | None,
    dropout: float,
) -> Tensor:
    """Attention of each block of queries to its own keys and to the prefix tokens.

    Args:
        scored: queries `(B, blocks, heads, n, d)` and keys `(B, blocks, heads, m, d)`.
        visible: broadcastable to `(B, blocks, 1, n, m)`.
        bias: broadcastable to `(blocks, heads, n, m)`.
        shared: keys and values of the prefix, `(B, heads, p, d)`.
        mask: of all keys, `(B, 1, 1, p + N)`.
        table: the source of the bias between tokens and prefix.
    """
    batch, blocks, heads, n, _ = scored.q.shape
    p = shared[0].shape[2]
    k, v = (
        torch.cat([first.unsqueeze(1).expand(-1, blocks, -1, -1, -1), own], dim=3)
        for first, own in zip(shared, (scored.k, v), strict=True)
    )
    allowed = visible.expand(*visible.shape[:3], n, -1)
    first = allowed.new_ones(1, 1, 1, 1, p) if mask is None else mask[:, None, :, :, :p]
    lead = torch.broadcast_shapes(allowed.shape[:4], first.shape[:4])
    allowed = torch.cat([first.expand(*lead, -1), allowed.expand(*lead, -1)], dim=-1)  # (B or 1, blocks, 1, n, p + m)
    if bias is None:
        q, k, v = (x.transpose(0, 1).flatten(1, 2) for x in (scored.q, k, v))  # (blocks, B heads, ...)
        extra = allowed.transpose(0, 1)
        if len(allowed) > 1:
            extra = extra.expand(-1, -1, heads, -1, -1)
        mixed = F.scaled_dot_product_attention(q, k, v, extra.flatten(1, 2), dropout, scale=scored.scale)
        by_block: Tensor = mixed.unflatten(1, (batch, heads))
        return by_block.transpose(0, 1)
    assert table is not None
    row = table.to_prefix(p)[:, None, :].expand(*bias.shape[:-1], p)  # (heads, 1, p)
    whole = torch.cat([row, bias], dim=-1).to(v.dtype).masked_fill(~allowed, float("-inf"))
    q, k, v = (x.flatten(0, 1) for x in (scored.q, k, v))  # (B blocks, heads, ...)
    extra = whole.expand(batch, -1, -1, -1, -1).flatten(0, 1)
    mixed = F.scaled_dot_product_attention(q, k, v, extra, dropout, scale=scored.scale)
    by_sample: Tensor = mixed.unflatten(0, (batch, blocks))
    return by_sample
