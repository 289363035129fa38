"""Floating-point operations of the blocks when tokens are merged or dropped, relative to those with all tokens."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.nn.config import ViTConfig
from vitreous.nn.execution import Network, executing, unwrap


def flops(c: ViTConfig, tokens: Sequence[Tensor]) -> Tensor:
    """Operations of the blocks for each sample, `(B,)`; a multiply-add counts as two.

    Args:
        c: settings of the model.
        tokens: number of tokens before the first block and after the attention of each block, `(B,)` each.
    """
    widths = [c.dim, *(round(ratio * c.dim) for ratio in c.mlp), c.dim]
    mlp = 2 * sum(a * b for a, b in pairwise(widths))
    total = torch.zeros_like(tokens[0])
    for before, after in pairwise(tokens):
        total = total + 8 * c.dim**2 * before + 4 * c.dim * before.square() + mlp * after
    return total


def flops_share(c: ViTConfig, tokens: Sequence[Tensor]) -> Tensor:
    """Operations of the blocks, as a share of those with all tokens, `(B,)`."""
    return flops(c, tokens) / flops(c, [tokens[0]] * len(tokens))


@contextmanager
def count_tokens(model: nn.Module) -> Iterator[list[list[Tensor]]]:
    """Count the tokens of every forward pass that reduces them: a list for `flops_share` of each pass."""
    inner = unwrap(model)
    if not isinstance(inner, Network) or not inner.records:
        raise InputError(f"count: a {type(inner).__name__} has no tokens to count")
    counts: list[list[Tensor]] = []
    with executing(inner, token_counts=counts):
        yield counts


@contextmanager
def measure_flops(model: nn.Module) -> Iterator[dict[str, float]]:
    """Measure the `flops_share` of the forward passes within the `with` block, as the mean over all samples.

    The result is filled in at the end of the block, and stays empty if no tokens are merged or dropped.
    """
    result: dict[str, float] = {}
    inner = unwrap(model)
    if not isinstance(inner, Network) or not inner.reduces:
        yield result
        return
    with count_tokens(inner) as passes:
        yield result
    if passes:
        config: ViTConfig = inner.config  # type: ignore[assignment]
        result["flops_share"] = float(torch.cat([flops_share(config, tokens) for tokens in passes]).mean())
