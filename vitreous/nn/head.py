"""From tokens to outputs: pooling (cls S0.3, mean, attention, flatten S4.4), then a linear or MLP head (S0.6)."""

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
    """The class token alone."""

    def forward(self, x: Tensor, mask: Tensor | None, seen: Sink = None) -> Tensor:
        return x[:, 0]


class MeanPool(Pool):
    """The mean of the tokens with data, prefix tokens left out."""

    def forward(self, x: Tensor, mask: Tensor | None, seen: Sink = None) -> Tensor:
        x = x[:, self.prefix :]
        if mask is None:
            return x.sum(dim=1) / max(1, x.shape[1])  # an empty set has a mean of zero
        weight = mask.unsqueeze(-1).to(x.dtype)  # (B, N, 1)
        return (x * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)


class AttentionPool(Pool):
    """A learned query attends to the tokens with data."""

    def __init__(self, prefix: int, dim: int, heads: int) -> None:
        super().__init__(prefix, dim, heads)
        self.query = nn.Parameter(torch.zeros(1, 1, dim))
        self.attention = Attention(dim, heads)

    def forward(self, x: Tensor, mask: Tensor | None, seen: Sink = None) -> Tensor:
        query = self.query.expand(x.shape[0], -1, -1)
        keys = None if mask is None else mask[:, None, None, :]  # (B, 1, 1, N)
        pooled: Tensor = self.attention(query, context=x[:, self.prefix :], mask=keys, seen=seen)
        return pooled.squeeze(1)


class FlattenPool(Pool):
    """All tokens side by side, `(B, N * D)` (S4.4); tokens without data count as zero."""

    def forward(self, x: Tensor, mask: Tensor | None, seen: Sink = None) -> Tensor:
        x = x[:, self.prefix :]
        return (x if mask is None else x * mask.unsqueeze(-1)).flatten(1)


POOLS: dict[str, type[Pool]] = {
    "cls": ClsPool,
    "mean": MeanPool,
    "attention": AttentionPool,
    "flatten": FlattenPool,
}
