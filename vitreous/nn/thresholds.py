"""Learned thresholds for merging and pruning (LTMP; Bonnaerens and Dambre 2023, arXiv 2307.10780).

A block merges the pairs of tokens whose keys are closer than its first threshold, then drops the tokens whose
importance, the attention that they receive, is below its second. In training nothing is cut: what would go is masked,
with the gradient of a sigmoid, so that the thresholds learn from the loss. Afterwards the tokens really go.
"""

import torch
from torch import Tensor, nn

from vitreous.nn.groups import Groups
from vitreous.nn.match import full_precision, match

TEMPERATURE = 0.1
"""Width of the sigmoid whose gradient stands for that of a threshold, in the threshold's units."""
_LEAST = 1e-6  # the smallest unit


class Threshold(nn.Module):
    """One threshold a block, in units that the first batch of a training sets: 0 its least score, 1 its median.

    Angles and importance differ from model to model and from block to block; in these units a step of the training
    means as much everywhere. All thresholds begin at 0, below every score.
    """

    zero: Tensor
    unit: Tensor

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(depth))
        self.register_buffer("zero", torch.zeros(depth))
        self.register_buffer("unit", torch.zeros(depth))

    def forward(self, scores: Tensor, there: Tensor, layer: int) -> Tensor:
        """How far scores lie above the threshold of a layer; `there` says which of them belong to tokens.

        The gradient is the threshold's alone: through the scores, every threshold would move all later ones.
        """
        scores = scores.detach()
        if self.training and there.any() and not self.unit[layer]:
            known = scores[there]
            self.zero[layer] = known.min()
            self.unit[layer] = (known.median() - known.min()).clamp(min=_LEAST)
        return (scores - self.zero[layer]) / self.unit[layer].clamp(min=_LEAST) - self.value[layer]


class Thresholds(nn.Module):
    """Two thresholds a block: an angle of keys below which tokens merge, an importance below which they are dropped.

    Importance is counted in even shares: 1 if a token receives as much attention as all do on average; of a merged
    token, the mean of its members.
    """

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.merge = Threshold(depth)
        self.prune = Threshold(depth)

    def wanted(self, groups: Groups) -> "Received":
        """The attention that tokens receive."""
        return Received(groups.size)

    def forward(self, x: Tensor, layer: int, groups: Groups, keys: Tensor, known: Tensor) -> Tensor:
        """From tokens `(B, n, D)` to those that the fullest sample keeps; in training, to as many as before."""
        prefix, importance = groups.prefix, known
        if x.shape[1] - prefix > 1:
            alike, a, b = match(keys, groups.size, prefix)
            there = alike.isfinite()
            angle = alike.float().clamp(-1, 1).acos()
            share = self._above(-self.merge(angle, there, layer)) * there
            importance = importance.scatter_add(1, b, importance.gather(1, a) * share)
            x = groups.merge(x, a, b, share)
        if x.shape[1] > prefix:
            groups.drop(self._important(importance, layer, groups))
        count = x.shape[1]
        if not self.training and groups.size is not None:
            count = int((groups.size > 0).sum(1).max())
        return groups.compact(x, count)

    def _important(self, importance: Tensor, layer: int, groups: Groups) -> Tensor:
        """1 for tokens that are important enough to stay, 0 for others; the most important one always stays."""
        size = torch.ones_like(importance) if groups.size is None else groups.size
        there = (size > 0)[:, groups.prefix :]
        mean = (importance / size.clamp(min=1))[:, groups.prefix :].masked_fill(~there, 0.0)
        return self._above(self.prune(mean, there, layer), anyway=mean == mean.amax(1, keepdim=True))

    def _above(self, margin: Tensor, anyway: Tensor | bool = False) -> Tensor:
        """1 where a margin is above 0, or anyway, else 0; in training with the gradient of a sigmoid."""
        hard = ((margin > 0) | anyway).float()
        if not self.training:
            return hard
        soft = torch.sigmoid(margin / TEMPERATURE)
        return hard + (soft - soft.detach())


class Received:
    """Attention that each token receives from all that there are, in even shares: `(B, heads, n, n) -> (B, n)`.

    It may be asked for a few samples at a time, in their order.

    Args:
        size: `(B, n)` of the tokens, a token of size s counting as s that look; None if all are 1.
    """

    def __init__(self, size: Tensor | None) -> None:
        self.size, self._done = size, 0

    def __call__(self, weights: Tensor) -> Tensor:
        weights = weights.detach().float()
        if self.size is None:
            return weights.sum((1, 2)) / weights.shape[1]
        size = self.size.detach()[self._done : self._done + weights.shape[0]]
        self._done += weights.shape[0]
        with full_precision(weights):
            return (size[:, None, None, :] @ weights).mean(1).squeeze(1)
