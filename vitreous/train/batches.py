"""Sentences in batches by length: few shapes, of as many tokens each, and what a step sees follows from its number."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.nn.seq2seq import END, START
from vitreous.train.stream import Batch

Coded = Sequence[tuple[Sequence[int], Sequence[int]]]
"""Pairs of sentences as tokens, without start and end."""
_LENGTHS = (8, 12, 16, 24, 32, 48, 64, 96)  # tokens, ends included, that rows are padded to


def lengths(most: int) -> tuple[int, ...]:
    """What rows of up to so many tokens are padded to."""
    return (*(length for length in _LENGTHS if length < most), most)


def padded(rows: Sequence[Sequence[int]], length: int) -> Tensor:
    """Rows of tokens as one tensor `(n, length)`."""
    out = torch.zeros(len(rows), length, dtype=torch.long)  # PAD
    for i, row in enumerate(rows):
        out[i, : len(row)] = torch.tensor(row, dtype=torch.long)
    return out


class Buckets:
    """Pairs in batches of one length each; every pair once an epoch, but for those that fill a bucket's last batch.

    Args:
        pairs: as tokens.
        tokens: of a batch, padding included, in the target and over all processes.
        most: tokens of the longest row, its end included.
        rank, world: this process and how many there are.
    """

    def __init__(
        self, pairs: Coded, tokens: int, most: int, seed: int, device: torch.device, rank: int = 0, world: int = 1
    ) -> None:
        self.seed, self.device, self.rank, self.world = seed, device, rank, world
        sizes = np.array([max(len(source), len(target)) + 1 for source, target in pairs])
        place = np.searchsorted(lengths(most), sizes)
        self.samples: list[Batch] = []
        self.rows: list[int] = []
        for bucket, length in enumerate(lengths(most)):
            chosen = [pair for pair, here in zip(pairs, place == bucket, strict=True) if here]
            if not chosen:
                continue
            source = padded([[*s, END] for s, _ in chosen], length)
            target = padded([[START, *t, END] for _, t in chosen], length + 1)
            x = torch.stack([source, target[:, :-1]], dim=1)  # (n, 2, length)
            self.samples.append((x.to(device), target[:, 1:].to(device)))
            self.rows.append(max(1, tokens // length // world) * world)
        self.batches = [-(-len(x) // rows) for (x, _), rows in zip(self.samples, self.rows, strict=True)]
        self._plan: tuple[int, list[tuple[int, Tensor]]] | None = None

    def __len__(self) -> int:
        """Batches of an epoch."""
        return sum(self.batches)

    def __call__(self, step: int) -> Batch:
        """Sources and targets up to each token `(B, 2, L)`, and the tokens that follow `(B, L)`."""
        epoch, place = divmod(step, len(self))
        if self._plan is None or self._plan[0] != epoch:
            self._plan = epoch, self._planned(epoch)
        bucket, rows = self._plan[1][place]
        x, y = self.samples[bucket]
        mine = rows[self.rank :: self.world]
        return x[mine], y[mine]

    def _planned(self, epoch: int) -> list[tuple[int, Tensor]]:
        """Bucket and rows of every batch of an epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        found = []
        for bucket, (rows, batches) in enumerate(zip(self.rows, self.batches, strict=True)):
            order = np.resize(rng.permutation(len(self.samples[bucket][0])), rows * batches)
            drawn = torch.as_tensor(order, device=self.device).split(rows)
            found += [(bucket, part) for part in drawn]
        return [found[i] for i in rng.permutation(len(found))]


def in_order(pairs: Coded, tokens: int, most: int) -> list[Batch]:
    """The same batches once, each pair once, on the CPU."""
    buckets = Buckets(pairs, tokens, most, 0, torch.device("cpu"))
    return [
        batch
        for (x, y), rows in zip(buckets.samples, buckets.rows, strict=True)
        for batch in zip(x.split(rows), y.split(rows), strict=True)
    ]


def trimmed(tokens: Tensor) -> list[list[int]]:
    """Rows `(B, T)` as numbers, up to their end."""
    ended = F.pad(tokens == END, (0, 1), value=True).int().argmax(1).tolist()
    return [row[:end] for row, end in zip(tokens.tolist(), ended, strict=True)]
