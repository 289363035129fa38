"""Multi-head attention (S2.3): self or cross, any score of S2.2, masks and additive biases (S4.1, S2.10).

The fast path hands scores that are dot products, with their bias, to `scaled_dot_product_attention`; the recorded path
computes the N × N weights in the open and agrees with it. Weights that are only wanted reduced are computed beside the
fast path, a few samples at a time, and never lie in memory together. A trainable bias has a gradient for every pair, so
while it trains on a CPU the fused kernel too holds one number a pair.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.errors import InputError, check_choice
from vitreous.gpu import kernels, multiplies_in_bfloat16
from vitreous.nn.cache import Past
from vitreous.nn.linear import Linear
from vitreous.nn.record import Reduce, Reduced, Sink, keep, wants_keys
from vitreous.nn.relative import Displaced
from vitreous.nn.score import SCORES, Dot, dot, logits, scaled_dot

Bias = Tensor | Displaced | None
"""What is added to the logits: of all pairs, or what gives it for some."""


_PACKED = kernels("nn.packed")
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
        self.heads, self.dropout, self.qk_norm = heads, dropout, qk_norm
        self.qkv = Linear(dim, 3 * dim)
        self.project = Linear(dim, dim)
        self.query_norm = nn.LayerNorm(d, eps) if qk_norm else nn.Identity()
        self.key_norm = nn.LayerNorm(d, eps) if qk_norm else nn.Identity()
        self._score = SCORES[score].function
        self.score = nn.ParameterDict(SCORES[score].weights(heads, d, keys))

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Bias = None,
        seen: Sink = None,
        past: Past | None = None,
    ) -> Tensor:
        """Attend from `x` `(B, N, D)` to `context` `(B, M, D)`, or to `x` itself.

        Args:
            mask: True where a key may be attended to, broadcastable to `(B, heads, N, M)`.
            bias: added to the logits, broadcastable to `(B, heads, N, M)`.
            seen: where to keep the keys and the attention weights; None for the fast path.
            past: keys and values of the tokens before `x`, or of a context that stays; it takes up the new ones.
        """
        if context is None and mask is None and past is None:
            packed = self._packed(x, bias, seen)
            if packed is not None:
                return self._project(packed)
        q, k, v = self._split(x, context, past)
        scored = self._score(self.query_norm(q), keep(seen, "keys", self.key_norm(k)), self.score)
        dropout = self.dropout if self.training else 0.0
        if isinstance(seen, Reduced):
            if seen.reduce is not None:  # else the keys alone are wanted
                keep(seen, "weights", self._reduced(scored, *self.pairs(scored, mask, bias), seen.reduce))
            seen = None  # from here on the fast path
        if isinstance(scored, Dot) and seen is None:
            mixed = self.mix(scored, v, mask, bias, dropout)
        else:
            weights = keep(seen, "weights", weigh(logits(scored), *self.pairs(scored, mask, bias)))
            mixed = F.dropout(weights.to(v.dtype), dropout, training=self.training) @ v
        return self._project(mixed.transpose(1, 2).flatten(2))  # (B, heads, N, d) -> (B, N, D)

    def _project(self, mixed: Tensor) -> Tensor:
        out: Tensor = self.project(mixed)
        return out

    def _packed(self, x: Tensor, bias: Bias, seen: Sink) -> Tensor | None:
        """The mixed values `(B, N, D)` by our own kernel, where it is the fastest: short sequences on a GPU.

        It takes a bias that is the same for all queries and heads, but without gradients, and can keep the keys.
        """
        dim, d = x.shape[2], x.shape[2] // self.heads
        plain = type(self) is Attention and self._score in (dot, scaled_dot) and not self.qk_norm
        if _PACKED is None or not plain or (self.training and self.dropout) or not multiplies_in_bfloat16(x):
            return None
        if x.shape[1] > _PACKED.LONGEST.get(d, 0) or not (seen is None or wants_keys(seen)):
            return None
        weights = None
        if bias is not None:
            if torch.is_grad_enabled() or not isinstance(bias, Tensor) or bias.shape[1:3] != (1, 1):
                return None
            weights = (bias.flatten(1) * math.log2(math.e)).float().expand(len(x), -1).contiguous()
        qkv, scale = self.qkv(x, learns=False), d**-0.5 if self._score is scaled_dot else 1.0
        if seen is not None:
            keep(seen, "keys", qkv[..., dim : 2 * dim].unflatten(-1, (self.heads, -1)).transpose(1, 2))
        mixed: Tensor = _PACKED.packed_attention(qkv, self.qkv.bias, self.heads, scale, weights)[0]
        return mixed

    def mix(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: Bias, dropout: float) -> Tensor:
        """The fast path: mixed values `(B, heads, N, d)`."""
        extra = additive_mask(*self.pairs(scored, mask, bias))
        return F.scaled_dot_product_attention(scored.q, scored.k, v, extra, dropout, scale=scored.scale)

    def pairs(self, scored: Dot | Tensor, mask: Tensor | None, bias: Bias) -> tuple[Tensor | None, Tensor | None]:
        """Mask and bias of all pairs, broadcastable to `(B, heads, N, M)`, the bias in the type of the scores."""
        assert bias is None or isinstance(bias, Tensor)
        kind = scored.dtype if isinstance(scored, Tensor) else scored.q.dtype
        return mask, None if bias is None else bias.to(kind)

    def _reduced(self, scored: Dot | Tensor, mask: Tensor | None, bias: Tensor | None, reduce: Reduce) -> Tensor:
        """What a sink wants to know of the weights."""
        batch, heads, count = (scored if isinstance(scored, Tensor) else scored.q).shape[:3]
        keys = scored.shape[-1] if isinstance(scored, Tensor) else scored.k.shape[-2]

        def weights(rows: slice) -> Tensor:
            some = scored[rows] if isinstance(scored, Tensor) else Dot(scored.q[rows], scored.k[rows], scored.scale)
            return weigh(logits(some), rows_of(mask, rows), rows_of(bias, rows))

        return reduced(weights, batch, heads * count * keys, reduce)

    def _split(self, x: Tensor, context: Tensor | None, past: Past | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of `x`, keys and values of the context: `(B, N, D) -> (B, heads, N, D / heads)` each."""
        if context is None:
            q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
            return (q, k, v) if past is None else (q, *past.extended(k, v))
        kept = self._keys_of(context) if past is None else past.once(lambda: self._keys_of(context))
        return self._queries_of(x), *kept

    def _queries_of(self, x: Tensor) -> Tensor:
        dim = x.shape[-1]
        q: Tensor = F.linear(x, self.qkv.weight[:dim], self.qkv.bias[:dim]).unflatten(-1, (self.heads, -1))
        return q.transpose(1, 2)

    def _keys_of(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values."""
        dim = x.shape[-1]
        kv = F.linear(x, self.qkv.weight[dim:], self.qkv.bias[dim:])
        k, v = kv.unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        return k, v


def additive_mask(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """Mask and bias as the one tensor that fused attention takes."""
    if bias is None or mask is None:
        return mask if bias is None else bias
    return bias.masked_fill(~mask, float("-inf"))


def weigh(scores: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """Softmax over the keys; a query that may attend to nothing gets weights of zero, as fused attention does."""
    if mask is None and bias is None:
        return scores.softmax(dim=-1)
    return normalised(restricted(scores, mask, bias))


def restricted(scores: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """Scores with their bias, minus infinity where there is nothing to attend to."""
    extra = additive_mask(mask, bias)
    if extra is None:
        return scores
    return scores.masked_fill(~extra, float("-inf")) if extra.dtype == torch.bool else scores + extra


def normalised(scores: Tensor, dim: int = -1) -> Tensor:
    """Softmax; where all is forbidden the weights are zero, and so are their gradients."""
    nothing = scores.isneginf().all(dim, keepdim=True)
    return scores.masked_fill(nothing, 0.0).softmax(dim).masked_fill(nothing, 0.0)


def share(scores: Tensor, v: Tensor, dropout: float) -> tuple[Tensor, Tensor]:
    """Values mixed by the softmax of some of the scores, and the logarithm of what it divides by.

    With the latter, `joined` puts parts together that are computed apart.
    """
    kind = torch.promote_types(scores.dtype, torch.float32)
    scores = scores.to(kind)
    place = scores.argmax(-1, keepdim=True)
    top = scores.gather(-1, place)
    nothing = top.isneginf()  # of this part of the keys, which then counts for nothing
    weights = scores.masked_fill(nothing, 0.0).softmax(-1)
    total = top.masked_fill(nothing, 0.0) - weights.gather(-1, place).log()
    mixed = F.dropout(weights, dropout).to(v.dtype) @ v
    return mixed, total.masked_fill(nothing, float("-inf")).squeeze(-1)


def joined(mixed: Tensor, total: Tensor) -> Tensor:
    """What all keys give, from what `share` gave for each part of them, `(parts, …)`."""
    return (normalised(total, 0).unsqueeze(-1) * mixed).sum(0).to(mixed.dtype)


def reduced(weights: Callable[[slice], Tensor], batch: int, size: int, reduce: Reduce) -> Tensor:
    """What a sink wants to know of the `weights` of some rows, each of a size, computed for a few at a time."""
    step = max(1, _AT_ONCE // size)
    return torch.cat([reduce(weights(slice(start, start + step))) for start in range(0, max(1, batch), step)])


def rows_of(part: Tensor | None, rows: slice) -> Tensor | None:
    """Some samples of what may be the same for all."""
    return part if part is None or len(part) == 1 else part[rows]
