"""The six alignment scores of S2.2 as one table of small functions.

`q` and `k` are `(B, heads, N, d)`; a score gives logits `(B, heads, N_query, N_key)`; the caller applies the
softmax. Four scores are dot products of transformed queries and keys, which fused attention kernels can compute; the
other two return their logits.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.core.errors import InputError

Weights = Mapping[str, Tensor] | nn.ParameterDict


class Dot(NamedTuple):
    """A score written as `scale * q @ k^T`."""

    q: Tensor
    k: Tensor
    scale: float


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


def _no_weights(heads: int, d: int, keys: int) -> dict[str, Tensor]:
    return {}


def _general_weights(heads: int, d: int, keys: int) -> dict[str, Tensor]:
    return {"weight": torch.eye(d).repeat(heads, 1, 1)}  # starts as the scaled dot product


def _additive_weights(heads: int, d: int, keys: int) -> dict[str, Tensor]:
    return {"weight": torch.randn(heads, d, 2 * d) * (2 * d) ** -0.5, "v": torch.randn(heads, d) * d**-0.5}


def _location_weights(heads: int, d: int, keys: int) -> dict[str, Tensor]:
    return {"weight": torch.randn(heads, keys, d) * d**-0.5}


class Score(NamedTuple):
    """A score function, and the initial values of its weights from heads, head width and number of keys."""

    function: Callable[[Tensor, Tensor, Weights], Dot | Tensor]
    weights: Callable[[int, int, int], dict[str, Tensor]] = _no_weights
    dot: bool = True
    """Whether it is a dot product."""


SCORES: dict[str, Score] = {
    "scaled_dot": Score(scaled_dot),
    "dot": Score(dot),
    "cosine": Score(cosine),
    "general": Score(general, _general_weights),
    "additive": Score(additive, _additive_weights, dot=False),
    "location": Score(location, _location_weights, dot=False),
}


def logits(scored: Dot | Tensor) -> Tensor:
    """The logits `(B, heads, N_query, N_key)` from the result of a score function."""
    return scored if isinstance(scored, Tensor) else scored.q @ scored.k.mT * scored.scale
