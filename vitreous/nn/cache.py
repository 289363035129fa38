"""What a decoder keeps between the tokens that it writes, so that each costs one step and not the whole sentence."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]


class State(Protocol):
    """All that a decoder keeps for the sentences of a batch."""

    def pick(self, rows: Tensor) -> None:
        """Go on with these rows, in this order, which may repeat: the beams that live on."""


class Past:
    """Keys and values of one attention, `(B, heads, N, d)` each."""

    def __init__(self) -> None:
        self.pair: Pair | None = None

    def extended(self, k: Tensor, v: Tensor) -> Pair:
        """Those of all tokens so far, given those of the new ones."""
        if self.pair is not None:
            k, v = (torch.cat([old, new], dim=2) for old, new in zip(self.pair, (k, v), strict=True))
        self.pair = k, v
        return self.pair

    def once(self, make: Callable[[], Pair]) -> Pair:
        """Those of a context that stays the same, made the first time."""
        if self.pair is None:
            self.pair = make()
        return self.pair

    def pick(self, rows: Tensor) -> None:
        """Keep these rows."""
        if self.pair is not None:
            self.pair = self.pair[0][rows], self.pair[1][rows]


class Pasts:
    """The state of a stack of decoder blocks: each one's own tokens and its view of the source."""

    def __init__(self, depth: int) -> None:
        self.own, self.cross = ([Past() for _ in range(depth)] for _ in range(2))

    @property
    def length(self) -> int:
        """Tokens that were seen."""
        pair = self.own[0].pair
        return 0 if pair is None else pair[0].shape[2]

    def pick(self, rows: Tensor) -> None:
        """Keep these rows."""
        for past in (*self.own, *self.cross):
            past.pick(rows)


class Hidden:
    """The state of recurrent layers: `(layers, B, D)` for each of them in turn, none before the first token."""

    def __init__(self, layers: int) -> None:
        self.values: list[Tensor | None] = [None] * layers

    def pick(self, rows: Tensor) -> None:
        """Keep these rows."""
        self.values = [None if value is None else value[:, rows].contiguous() for value in self.values]
