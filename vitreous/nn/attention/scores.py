"""Attention weights: the six alignment scores of S2.2 as one table of small functions, and the softmax over the keys.

`q` and `k` are `(B, heads, N, d)`; a score gives logits `(B, heads, N_query, N_key)`. Four scores are dot products of
transformed queries and keys, which fused attention kernels can compute; the other two return their logits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.core.errors import InputError

Weights = Mapping[str, Tensor] | nn.ParameterDict


@dataclass
class Dot:
    """A score written as `scale * q @ k^T`; samples, shape and data type are those of its logits."""

    q: Tensor
    k: Tensor
    scale: float

    def __getitem__(self, samples: slice) -> "Dot":
        return Dot(self.q[samples], self.k[samples], self.scale)

    @property
    def shape(self) -> tuple[int, ...]:
        return *self.q.shape[:3], self.k.shape[-2]

    @property
    def dtype(self) -> torch.dtype:
        return self.q.dtype

    def attend(self, v: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float = 0.0) -> Tensor:
        """Mixed values by fused attention."""
        extra = additive_mask(mask, bias)
        return F.scaled_dot_product_attention(self.q, self.k, v, extra, dropout, scale=self.scale)


def scaled_dot(q: Tensor, k: Tensor, w: Weights) -> Dot:
    """q·k / √d (Vaswani 2017)."""
    return Dot(q, k, q.shape[-1] ** -0.5)


def dot(q: Tensor, k: Tensor, w: Weights) -> Dot:
    """q·k (Luong 2015)."""
    return Dot(q, k, 1.0)


def cosine(q: Tensor, k: Tensor, w: Weights) -> Dot:
    """cos of the angle between q and k: content-based attention (Graves 2014)."""
    return Dot(F.normalize(q, dim=-1), F.normalize(k, dim=-1), 1.0)


def general(q: Tensor, k: Tensor, w: Weights) -> Dot:
    """qᵀ W k (Luong 2015); the trained parameter is √d W, which starts as the identity."""
    return Dot(q @ w["weight"], k, q.shape[-1] ** -0.5)


def additive(q: Tensor, k: Tensor, w: Weights) -> Tensor:
    """vᵀ tanh(W [q; k]) (Bahdanau 2015). Needs memory for N_query × N_key × d numbers: for short sequences."""
    w_query, w_key = w["weight"].chunk(2, dim=-1)  # (heads, d, 2d) -> two of (heads, d, d)
    from_query = (q @ w_query.mT).unsqueeze(-2)  # (B, heads, N_query, 1, d)
    from_key = (k @ w_key.mT).unsqueeze(-3)  # (B, heads, 1, N_key, d)
    return torch.einsum("bhqkd,hd->bhqk", torch.tanh(from_query + from_key), w["v"])


def location(q: Tensor, k: Tensor, w: Weights) -> Tensor:
    """(W q)_j: the logit of key j depends on the query and on j only (Luong 2015)."""
    if k.shape[-2] > w["weight"].shape[1]:
        raise InputError(f"score: found {k.shape[-2]} keys, expected at most {w['weight'].shape[1]} with 'location'")
    return q @ w["weight"][:, : k.shape[-2]].mT  # (B, heads, N_query, N_key)


def _additive_weights(heads: int, d: int, keys: int) -> dict[str, Tensor]:
    return {"weight": torch.randn(heads, d, 2 * d) * (2 * d) ** -0.5, "v": torch.randn(heads, d) * d**-0.5}


class Score(NamedTuple):
    """A score function, and the initial values of its weights from heads, head width and number of keys."""

    function: Callable[[Tensor, Tensor, Weights], Dot | Tensor]
    weights: Callable[[int, int, int], dict[str, Tensor]] = lambda heads, d, keys: {}
    dot: bool = True
    """Whether it is a dot product."""


SCORES: dict[str, Score] = {
    "scaled_dot": Score(scaled_dot),
    "dot": Score(dot),
    "cosine": Score(cosine),
    "general": Score(general, lambda heads, d, keys: {"weight": torch.eye(d).repeat(heads, 1, 1)}),
    "additive": Score(additive, _additive_weights, dot=False),
    "location": Score(location, lambda heads, d, keys: {"weight": torch.randn(heads, keys, d) * d**-0.5}, dot=False),
}


def logits(scored: Dot | Tensor) -> Tensor:
    """The logits `(B, heads, N_query, N_key)` from the result of a score function."""
    return scored if isinstance(scored, Tensor) else scored.q @ scored.k.mT * scored.scale


def additive_mask(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """Mask and bias as the single tensor that fused attention takes."""
    if bias is None or mask is None:
        return mask if bias is None else bias
    return bias.masked_fill(~mask, float("-inf"))


def weigh(scores: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """Softmax over the keys; the weights of a query without any allowed key are 0, as in fused attention."""
    if mask is None and bias is None:
        return scores.softmax(dim=-1)
    return masked_softmax(restrict(scores, mask, bias))


def restrict(scores: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """Scores plus bias, minus infinity where the mask is False."""
    extra = additive_mask(mask, bias)
    if extra is None:
        return scores
    return scores.masked_fill(~extra, float("-inf")) if extra.dtype == torch.bool else scores + extra


def masked_softmax(scores: Tensor, dim: int = -1) -> Tensor:
    """Softmax; weights and gradients are 0 where all scores are minus infinity."""
    empty = scores.isneginf().all(dim, keepdim=True)
    return scores.masked_fill(empty, 0.0).softmax(dim).masked_fill(empty, 0.0)


def sample_weights(scored: Dot | Tensor, mask: Tensor | None, bias: Tensor | None, samples: slice) -> Tensor:
    """The weights of some samples; the batch axis of mask and bias may have length 1."""
    mask, bias = (part if part is None or len(part) == 1 else part[samples] for part in (mask, bias))
    return weigh(logits(scored[samples]), mask, bias)


def partial_attention(scores: Tensor, v: Tensor, dropout: float) -> tuple[Tensor, Tensor]:
    """Attention over some of the keys: mixed values, and the log of the softmax denominator, for `join_partial`."""
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    argmax = scores.argmax(-1, keepdim=True)
    highest = scores.gather(-1, argmax)
    empty = highest.isneginf()  # no allowed key in this part
    weights = scores.masked_fill(empty, 0.0).softmax(-1)
    log_total = highest.masked_fill(empty, 0.0) - weights.gather(-1, argmax).log()
    mixed = F.dropout(weights, dropout).to(v.dtype) @ v
    return mixed, log_total.masked_fill(empty, float("-inf")).squeeze(-1)


def join_partial(mixed: Tensor, log_total: Tensor) -> Tensor:
    """Attention over all keys, from the results of `partial_attention`, stacked as `(parts, …)`."""
    return (masked_softmax(log_total, 0).unsqueeze(-1) * mixed).sum(0).to(mixed.dtype)
