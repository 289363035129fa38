"""Caches of a decoder: each new token costs one step instead of a pass over the whole sequence."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]


class State(Protocol):
    """The cache of a decoder for a batch of sequences."""

    def pick(self, rows: Tensor) -> None:
        """Keep these rows in this order, with repeats: the surviving beams of a search."""


class Past:
    """Keys and values of one attention, `(B, heads, N, d)` each."""

    def __init__(self) -> None:
        self.pair: Pair | None = None

    def extended(self, k: Tensor, v: Tensor) -> Pair:
        """Append keys and values of new tokens; returns those of all tokens so far."""
        if self.pair is not None:
            k, v = (torch.cat([old, new], dim=2) for old, new in zip(self.pair, (k, v), strict=True))
        self.pair = k, v
        return self.pair

    def once(self, compute: Callable[[], Pair]) -> Pair:
        """Keys and values of a fixed context, computed at the first call."""
        if self.pair is None:
            self.pair = compute()
        return self.pair

    def pick(self, rows: Tensor) -> None:
        if self.pair is not None:
            self.pair = self.pair[0][rows], self.pair[1][rows]


class Pasts:
    """The cache of a stack of decoder blocks: keys and values of the target and of the source, for each block."""

    def __init__(self, depth: int) -> None:
        self.own, self.cross = ([Past() for _ in range(depth)] for _ in range(2))

    @property
    def length(self) -> int:
        """Number of cached tokens."""
        pair = self.own[0].pair
        return 0 if pair is None else pair[0].shape[2]

    def pick(self, rows: Tensor) -> None:
        for past in (*self.own, *self.cross):
            past.pick(rows)


class Hidden:
    """The state of recurrent layers, `(layers, B, D)` each; None before the first token."""

    def __init__(self, layers: int) -> None:
        self.values: list[Tensor | None] = [None] * layers

    def pick(self, rows: Tensor) -> None:
        self.values = [None if value is None else value[:, rows].contiguous() for value in self.values]
