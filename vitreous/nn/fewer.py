"""Blocks that hand on fewer tokens than they were given: between attention and MLP a reducer merges or drops some."""

from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

from vitreous.nn.groups import Groups, expand, expand_weights
from vitreous.nn.record import Reduce, Reduced, Sink, keep

_OPEN = 2**22  # weights of a head that may lie in memory


class Reducer(Protocol):
    """Merges or drops tokens between attention and MLP."""

    def wanted(self, groups: Groups) -> Reduce | None:
        """What it wants to know of the attention weights; None for nothing."""

    def __call__(self, x: Tensor, layer: int, groups: Groups, keys: Tensor, known: Tensor | None) -> Tensor:
        """From tokens `(B, n, D)` to fewer; brings `groups` up to date.

        `keys` `(B, heads, n, d)` are the attention's, and `known` is what was wanted of its weights.
        """


class Fewer:
    """One forward through blocks whose tokens become fewer.

    Attributes:
        groups: which tokens of the input each token stands for.
        left: tokens `(B,)` that there were before the first block and after each.
    """

    groups: Groups
    left: list[Tensor]

    def __init__(self, reducer: Reducer) -> None:
        self.reducer = reducer

    def begin(self, z: Tensor, mask: Tensor | None, prefix: int) -> Tensor:
        """Tokens `(B, prefix + N, D)` as the first block takes them: those without data, by the mask `(B, N)`, last."""
        self.groups = Groups(z, mask, prefix)
        self.left = [self.groups.left]
        return self.groups.compact(z, z.shape[1])

    def block(self, block: nn.Module, layer: int, z: Tensor, bias: Tensor | None, seen: Sink) -> Tensor:
        """Through one block; `bias` is between the input's tokens."""
        groups, source = self.groups, self.groups.source
        wanted = self.reducer.wanted(groups)
        few = z.shape[0] * z.shape[1] ** 2 <= _OPEN  # weights that may as well mix the values, in the open
        told: dict[str, Tensor] = Reduced(wanted) if seen is None and (wanted is None or not few) else {}
        between = partial(self._between, wanted=wanted, layer=layer, told=told)
        z = block(z, bias=groups.bias(bias), seen=told, between=between)
        self.left.append(groups.left)
        if seen is not None:
            _tell(seen, told, source)
        return z

    def _between(self, x: Tensor, wanted: Reduce | None, layer: int, told: dict[str, Tensor]) -> Tensor:
        known = told.get("weights")
        if wanted is not None and known is not None and not isinstance(told, Reduced):
            known = wanted(known)
        return self.reducer(x, layer, self.groups, told["keys"], known)

    def end(self, z: Tensor, seen: Sink) -> tuple[Tensor, Tensor]:
        """The last tokens for every token of the input, `(B, prefix + N, D)`, and which of these there still are."""
        mask = self.groups.mask()
        keep(seen, "source", self.groups.source)
        keep(seen, "mask", mask)
        return expand(z, self.groups.source), mask


def _tell(seen: dict[str, Tensor], told: dict[str, Tensor], source: Tensor) -> None:
    """Hand on what a block was asked to keep, with the map by which weights are expanded, or expand and reduce them."""
    seen.update(told, source=source)
    if isinstance(seen, Reduced):
        del seen["weights"], seen["source"]
        if seen.reduce is not None:
            each = zip(told["weights"].split(1), source.split(1), strict=True)  # N × N weights of one sample at a time
            seen["weights"] = torch.cat([seen.reduce(expand_weights(*one)) for one in each])
