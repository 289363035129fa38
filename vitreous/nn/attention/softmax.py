"""Softmax over keys, with masks and biases, whole or in parts."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.nn.record import Reduce


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


def partial_attention(scores: Tensor, v: Tensor, dropout: float) -> tuple[Tensor, Tensor]:
    """Attention over some of the keys: mixed values, and the log of the softmax denominator.

    `join_partial` combines the results of several sets of keys.
    """
    dtype = torch.promote_types(scores.dtype, torch.float32)
    scores = scores.to(dtype)
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


def reduce_weights(weights: Callable[[slice], Tensor], batch: int, size: int, reduce: Reduce, at_once: int) -> Tensor:
    """Reduce attention weights, computed for a few samples at a time.

    Args:
        weights: computes the weights of some samples of the batch.
        batch: number of samples.
        size: number of weights of one sample.
        reduce: maps the weights of some samples to the result that is recorded.
        at_once: weights that may be in memory at the same time.
    """
    step = max(1, at_once // size)
    return torch.cat([reduce(weights(slice(start, start + step))) for start in range(0, max(1, batch), step)])


def select_samples(x: Tensor | None, rows: slice) -> Tensor | None:
    """Some samples of a tensor whose batch axis may have length 1."""
    return x if x is None or len(x) == 1 else x[rows]
