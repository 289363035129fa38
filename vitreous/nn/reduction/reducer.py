"""Forward passes in which blocks reduce the number of tokens, and the floating-point operations that this saves."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.nn.config import ViTConfig
from vitreous.nn.execution import Network, executing, unwrap
from vitreous.nn.record import Reduce, Reduced, Sink, keep
from vitreous.nn.reduction.groups import Groups, expand, expand_weights


class Reducer(Protocol):
    """Merges or drops tokens between attention and MLP."""

    def reduce_weights(self, groups: Groups) -> Reduce | None:
        """The function of the attention weights that the reducer needs; None for none."""

    def __call__(self, x: Tensor, layer: int, groups: Groups, keys: Tensor, reduced: Tensor | None) -> Tensor:
        """Reduce tokens `(B, n, D)` and update `groups`.

        `keys` `(B, heads, n, d)` are those of the attention, `reduced` is the result of `reduce_weights`.
        """


class Reduction:
    """One forward pass through blocks that reduce the number of tokens."""

    recorded_weights = 2**22
    """Attention weights of a head up to which they are computed in full; above, they are reduced in chunks."""
    groups: Groups
    """Which tokens of the input each token represents."""
    counts: list[Tensor]
    """Number of tokens `(B,)` before the first block and after each block."""

    def __init__(self, reducer: Reducer) -> None:
        self.reducer = reducer

    def start(self, z: Tensor, mask: Tensor | None, prefix: int) -> Tensor:
        """Sort tokens `(B, prefix + N, D)` for the first block: masked ones, by the mask `(B, N)`, last."""
        self.groups = Groups(z, mask, prefix)
        self.counts = [self.groups.left]
        return self.groups.compact(z, z.shape[1])

    def run_block(self, block: nn.Module, layer: int, z: Tensor, bias: Tensor | None, sink: Sink) -> Tensor:
        """Pass tokens through one block; `bias` is between the tokens of the input."""
        groups, source = self.groups, self.groups.source
        reduce = self.reducer.reduce_weights(groups)
        small = z.shape[0] * z.shape[1] ** 2 <= self.recorded_weights
        values: dict[str, Tensor] = Reduced(reduce) if sink is None and (reduce is None or not small) else {}

        def between(x: Tensor) -> Tensor:
            reduced = values.get("weights")
            if reduce is not None and reduced is not None and not isinstance(values, Reduced):
                reduced = reduce(reduced)
            return self.reducer(x, layer, groups, values["keys"], reduced)

        z = block(z, bias=groups.bias(bias), sink=values, between=between)
        self.counts.append(groups.left)
        if sink is not None:
            _store(sink, values, source)
        return z

    def finish(self, z: Tensor, sink: Sink) -> tuple[Tensor, Tensor]:
        """One token for every token of the input, `(B, prefix + N, D)`, and the mask of those not dropped `(B, N)`."""
        mask = self.groups.mask()
        keep(sink, "source", self.groups.source)
        keep(sink, "mask", mask)
        return expand(z, self.groups.source), mask


def _store(sink: dict[str, Tensor], values: dict[str, Tensor], source: Tensor) -> None:
    """Store the values of a block with the map that expands its weights, or expand and reduce the weights."""
    sink.update(values, source=source)
    if isinstance(sink, Reduced):
        del sink["weights"], sink["source"]
        if sink.reduce is not None:
            samples = zip(values["weights"].split(1), source.split(1), strict=True)  # N × N weights of one at a time
            sink["weights"] = torch.cat([sink.reduce(expand_weights(*sample)) for sample in samples])


def flops(c: ViTConfig, tokens: Sequence[Tensor]) -> Tensor:
    """Operations of the blocks for each sample, `(B,)`; a multiply-add counts as two.

    `tokens` are the numbers of tokens before the first block and after the attention of each block, `(B,)` each.
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
    passes: list[list[Tensor]] = []
    inner = unwrap(model)
    with executing(inner, token_counts=passes) if isinstance(inner, Network) and inner.reduces else nullcontext():
        yield result
    if passes:
        config: ViTConfig = inner.config  # type: ignore[assignment]
        result["flops_share"] = float(torch.cat([flops_share(config, tokens) for tokens in passes]).mean())
