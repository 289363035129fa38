"""What a model computes when its tokens become fewer: operations of its blocks, as a share of those with all tokens."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn

from vitreous.errors import InputError
from vitreous.nn.config import ViTConfig
from vitreous.nn.record import unwrap
from vitreous.nn.vit import ViT


def flops(c: ViTConfig, tokens: Sequence[Tensor]) -> Tensor:
    """Operations of the blocks for each sample, `(B,)`; a multiply-add counts as two.

    Args:
        c: of the model.
        tokens: how many there are before the first block and after the attention of each, `(B,)` each.
    """
    widths = [c.dim, *(round(ratio * c.dim) for ratio in c.mlp), c.dim]
    feed = 2 * sum(a * b for a, b in pairwise(widths))
    total = torch.zeros_like(tokens[0])
    for before, after in pairwise(tokens):
        total = total + 8 * c.dim**2 * before + 4 * c.dim * before.square() + feed * after
    return total


def share(c: ViTConfig, tokens: Sequence[Tensor]) -> Tensor:
    """The same in relation to blocks that keep all tokens, `(B,)`."""
    return flops(c, tokens) / flops(c, [tokens[0]] * len(tokens))


@contextmanager
def counted(model: nn.Module) -> Iterator[list[list[Tensor]]]:
    """Count the tokens of every forward inside the `with` block that makes them fewer: a list for `share` of each."""
    inner = unwrap(model)
    if not isinstance(inner, ViT):
        raise InputError(f"count: a {type(inner).__name__} has no tokens to count")
    before, inner.counting = inner.counting, []
    try:
        yield inner.counting
    finally:
        inner.counting = before


@contextmanager
def spending(model: nn.Module) -> Iterator[dict[str, float]]:
    """What the forwards inside the `with` block spend: when it ends, `flops_share`, the mean over their samples.

    It stays empty where no tokens are merged or dropped.
    """
    found: dict[str, float] = {}
    inner = unwrap(model)
    if not isinstance(inner, ViT):
        yield found
        return
    with counted(inner) as forwards:
        yield found
    if forwards:
        found["flops_share"] = float(torch.cat([share(inner.config, tokens) for tokens in forwards]).mean())
