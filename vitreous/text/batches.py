"""Batches of sentence pairs, sorted by length into a few shapes; a batch depends on the seed and the step alone."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.text.transformer import END, PAD, START
from vitreous.train.batches import Batch

TokenPairs = Sequence[tuple[Sequence[int], Sequence[int]]]
"""Pairs of sentences as tokens, without start and end."""
_LENGTHS = (8, 12, 16, 24, 32, 48, 64, 96)  # tokens, ends included, that rows are padded to


def pad_rows(rows: Sequence[Sequence[int]], length: int) -> Tensor:
    """Rows of tokens as one tensor `(n, length)`."""
    return torch.tensor([[*row, *[PAD] * (length - len(row))] for row in rows], dtype=torch.long).view(-1, length)


class BucketBatches:
    """Batches of one length each. An epoch has every pair once; a few are repeated to fill the last batch of a length.

    Args:
        pairs: as tokens.
        tokens: of a batch, padding included, in the target and over all processes.
        most: tokens of the longest row, its end included.
        rank, world: this process and how many there are.
    """

    def __init__(
        self, pairs: TokenPairs, tokens: int, most: int, seed: int, device: torch.device, rank: int = 0, world: int = 1
    ) -> None:
        self.seed, self.device, self.rank, self.world = seed, device, rank, world
        lengths = (*(length for length in _LENGTHS if length < most), most)
        place = np.searchsorted(lengths, [max(len(source), len(target)) + 1 for source, target in pairs])
        self.samples: list[Batch] = []
        self.rows: list[int] = []
        for bucket, length in enumerate(lengths):
            chosen = [pair for pair, number in zip(pairs, place, strict=True) if number == bucket]
            if not chosen:
                continue
            source = pad_rows([[*s, END] for s, _ in chosen], length)
            target = pad_rows([[START, *t, END] for _, t in chosen], length + 1)
            x = torch.stack([source, target[:, :-1]], dim=1)  # (n, 2, length)
            self.samples.append((x.to(device), target[:, 1:].to(device)))
            self.rows.append(max(1, tokens // length // world) * world)
        self.batches = [-(-len(x) // rows) for (x, _), rows in zip(self.samples, self.rows, strict=True)]
        self._plan: tuple[int, list[tuple[int, Tensor]]] | None = None

    def __len__(self) -> int:  # batches of an epoch
        return sum(self.batches)

    def __call__(self, step: int) -> Batch:
        """Sources and targets up to each token `(B, 2, L)`, and the tokens that follow `(B, L)`."""
        epoch, place = divmod(step, len(self))
        if self._plan is None or self._plan[0] != epoch:
            self._plan = epoch, self._make_plan(epoch)
        bucket, rows = self._plan[1][place]
        x, y = self.samples[bucket]
        mine = rows[self.rank :: self.world]
        return x[mine], y[mine]

    def _make_plan(self, epoch: int) -> list[tuple[int, Tensor]]:
        """Bucket and rows of every batch of an epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        plan = []
        for bucket, (rows, batches) in enumerate(zip(self.rows, self.batches, strict=True)):
            order = np.resize(rng.permutation(len(self.samples[bucket][0])), rows * batches)
            plan += [(bucket, part) for part in torch.as_tensor(order, device=self.device).split(rows)]
        return [plan[i] for i in rng.permutation(len(plan))]


def batches_in_order(pairs: TokenPairs, tokens: int, most: int) -> list[Batch]:
    """Batches with every pair once, in order, on the CPU."""
    buckets = BucketBatches(pairs, tokens, most, 0, torch.device("cpu"))
    return [
        batch
        for (x, y), rows in zip(buckets.samples, buckets.rows, strict=True)
        for batch in zip(x.split(rows), y.split(rows), strict=True)
    ]


def tokens_to_lists(tokens: Tensor) -> list[list[int]]:
    """Rows `(B, T)` as lists of tokens, up to the end token."""
    ended = F.pad(tokens == END, (0, 1), value=True).int().argmax(1).tolist()
    return [row[:end] for row, end in zip(tokens.tolist(), ended, strict=True)]
