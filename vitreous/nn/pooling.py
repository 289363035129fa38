"""Pooling: from tokens to one vector for each sample (cls S0.3, mean, attention, flatten S4.4)."""

import torch
from torch import Tensor, nn

from vitreous.nn.attention import Attention
from vitreous.nn.record import Sink


class Pool(nn.Module):
    """`(B, prefix + N, D) -> (B, D)`; prefix tokens come first and `mask` `(B, N)` marks the tokens with data."""

    def __init__(self, prefix: int, dim: int, heads: int) -> None:
        super().__init__()
        self.prefix = prefix


class ClsPool(Pool):
    """The class token."""

    def forward(self, x: Tensor, mask: Tensor | None, sink: Sink = None) -> Tensor:
        return x[:, 0]


class MeanPool(Pool):
    """The mean of the tokens with data, without prefix tokens."""

    def forward(self, x: Tensor, mask: Tensor | None, sink: Sink = None) -> Tensor:
        x = x[:, self.prefix :]
        if mask is None:
            return x.sum(dim=1) / max(1, x.shape[1])  # the mean of an empty set is zero
        weight = mask.unsqueeze(-1).to(x.dtype)  # (B, N, 1)
        return (x * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)


class AttentionPool(Pool):
    """A learned query attends to the tokens with data."""

    def __init__(self, prefix: int, dim: int, heads: int) -> None:
        super().__init__(prefix, dim, heads)
        self.query = nn.Parameter(torch.zeros(1, 1, dim))
        self.attention = Attention(dim, heads)

    def forward(self, x: Tensor, mask: Tensor | None, sink: Sink = None) -> Tensor:
        query = self.query.expand(x.shape[0], -1, -1)
        keys = None if mask is None else mask[:, None, None, :]  # (B, 1, 1, N)
        pooled: Tensor = self.attention(query, context=x[:, self.prefix :], mask=keys, sink=sink)
        return pooled.squeeze(1)


class FlattenPool(Pool):
    """All tokens concatenated, `(B, N * D)` (S4.4); tokens without data are zero."""

    def forward(self, x: Tensor, mask: Tensor | None, sink: Sink = None) -> Tensor:
        x = x[:, self.prefix :]
        return (x if mask is None else x * mask.unsqueeze(-1)).flatten(1)


POOLS: dict[str, type[Pool]] = {"cls": ClsPool, "mean": MeanPool, "attention": AttentionPool, "flatten": FlattenPool}
