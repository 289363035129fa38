"""Multi-head attention (S2.3): self or cross, any score of S2.2, masks and additive biases (S4.1, S2.10).

The fast path hands scores that are dot products, with their bias, to `scaled_dot_product_attention`; the recorded path
computes the N × N weights in the open and agrees with it. Weights that are only wanted reduced are computed beside the
fast path, a few samples at a time, and never lie in memory together. A trainable bias has a gradient for every pair, so
while it trains on a CPU the fused kernel too holds one number a pair.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.errors import InputError, check_choice
from vitreous.nn.record import Reduce, Reduced, Sink, keep
from vitreous.nn.score import SCORES, Dot, logits

_AT_ONCE = 2**22  # weights in memory while they are reduced


class Attention(nn.Module):
    """`concat(head_1 … head_h) W_O` with `head_i = softmax(score(Q_i, K_i) + bias) V_i`.

    Args:
        dim: width of the tokens, split equally over the heads.
        heads: number of heads.
        score: one of `SCORES`.
        keys: the most keys there can be; needed by the score `location` only.
        qk_norm: layer norm on each head's queries and keys before they are scored.
        dropout: dropout on the attention weights.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        score: str = "scaled_dot",
        keys: int = 0,
        qk_norm: bool = False,
        dropout: float = 0.0,
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        check_choice("score", score, SCORES)
        if dim % heads:
            raise InputError(f"heads: {heads} heads do not divide the width {dim}")
        if score == "location" and not keys:
            raise InputError("keys: the score 'location' must be told the largest number of keys")
        d = dim // heads
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(dim, 3 * dim)
        self.project = nn.Linear(dim, dim)
        self.query_norm = nn.LayerNorm(d, eps) if qk_norm else nn.Identity()
        self.key_norm = nn.LayerNorm(d, eps) if qk_norm else nn.Identity()
        self._score = SCORES[score].function
        self.score = nn.ParameterDict(SCORES[score].weights(heads, d, keys))

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        seen: Sink = None,
    ) -> Tensor:
        """Attend from `x` `(B, N, D)` to `context` `(B, M, D)`, or to `x` itself.

        Args:
            mask: True where a key may be attended to, broadcastable to `(B, heads, N, M)`.
            bias: added to the logits, broadcastable to `(B, heads, N, M)`.
            seen: where to keep the keys and the attention weights; None for the fast path.
        """
        q, k, v = self._split(x, context)
        q, k = self.query_norm(q), keep(seen, "keys", self.key_norm(k))
        bias = None if bias is None else bias.to(v.dtype)
        scored = self._score(q, k, self.score)
        dropout = self.dropout if self.training else 0.0
        if isinstance(seen, Reduced):
            if seen.reduce is not None:
                keep(seen, "weights", _reduced(scored, mask, bias, seen.reduce))
            seen = None  # from here on the fast path
        if isinstance(scored, Dot) and seen is None:
            mixed = F.scaled_dot_product_attention(
                scored.q, scored.k, v, attn_mask=_additive_mask(mask, bias), dropout_p=dropout, scale=scored.scale
            )
        else:
            weights = keep(seen, "weights", _softmax(logits(scored), mask, bias))
            mixed = F.dropout(weights.to(v.dtype), dropout, training=self.training) @ v
        out: Tensor = self.project(mixed.transpose(1, 2).flatten(2))  # (B, heads, N, d) -> (B, N, D)
        return out

    def _split(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of `x`, keys and values of the context: `(B, N, D) -> (B, heads, N, D / heads)` each."""
        if context is None:
            q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
            return q, k, v
        dim = x.shape[-1]
        weight, bias = self.qkv.weight, self.qkv.bias
        q = F.linear(x, weight[:dim], bias[:dim]).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        kv = F.linear(context, weight[dim:], bias[dim:])
        k, v = kv.unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        return q, k, v


def _additive_mask(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """Mask and bias as the one tensor that fused attention takes."""
    if bias is None or mask is None:
        return mask if bias is None else bias
    return bias.masked_fill(~mask, float("-inf"))


def _softmax(scores: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """Softmax over the keys; a query that may attend to nothing gets weights of zero, as fused attention does."""
    extra = _additive_mask(mask, bias)
    if extra is None:
        return scores.softmax(dim=-1)
    forbidden = ~extra if extra.dtype == torch.bool else extra.isneginf()
    nothing = forbidden.all(-1, keepdim=True)
    if extra.dtype == torch.bool:
        scores = scores.masked_fill(forbidden & ~nothing, float("-inf"))
    else:
        scores = scores + extra.masked_fill(nothing, 0.0)
    return scores.softmax(dim=-1).masked_fill(nothing, 0.0)


def _reduced(scored: Dot | Tensor, mask: Tensor | None, bias: Tensor | None, reduce: Reduce) -> Tensor:
    """What the sink wants to know of the weights, computed for a few samples at a time."""
    batch, heads, count = (scored if isinstance(scored, Tensor) else scored.q).shape[:3]
    keys = scored.shape[-1] if isinstance(scored, Tensor) else scored.k.shape[-2]
    step = max(1, _AT_ONCE // max(1, heads * count * keys))

    def weights(rows: slice) -> Tensor:
        extra = (part if part is None or len(part) == 1 else part[rows] for part in (mask, bias))
        some = scored[rows] if isinstance(scored, Tensor) else Dot(scored.q[rows], scored.k[rows], scored.scale)
        return _softmax(logits(some), *extra)

    return torch.cat([reduce(weights(slice(start, start + step))) for start in range(0, max(1, batch), step)])
