"""Forward passes in which blocks reduce the number of tokens: a reducer works between attention and MLP."""

from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

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
    """One forward pass through blocks that reduce the number of tokens.

    Attributes:
        groups: which tokens of the input each token represents.
        counts: number of tokens `(B,)` before the first block and after each block.
    """

    recorded_weights = 2**22
    """Attention weights of a head up to which they are computed in full; above, they are reduced in chunks."""
    groups: Groups
    counts: list[Tensor]

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
        between = partial(self._between, reduce=reduce, layer=layer, values=values)
        z = block(z, bias=groups.bias(bias), sink=values, between=between)
        self.counts.append(groups.left)
        if sink is not None:
            _store(sink, values, source)
        return z

    def _between(self, x: Tensor, reduce: Reduce | None, layer: int, values: dict[str, Tensor]) -> Tensor:
        reduced = values.get("weights")
        if reduce is not None and reduced is not None and not isinstance(values, Reduced):
            reduced = reduce(reduced)
        return self.reducer(x, layer, self.groups, values["keys"], reduced)

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
