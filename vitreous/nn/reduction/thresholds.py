"""Learned thresholds for merging and pruning (LTMP; Bonnaerens and Dambre 2023, arXiv 2307.10780).

A block merges pairs of tokens whose keys are closer than its first threshold, then drops tokens whose importance, the
attention that they receive, is below its second threshold. In training these tokens are masked instead, with the
gradient of a sigmoid, so that the thresholds learn from the loss. In evaluation they are removed.
"""

import torch
from torch import Tensor, nn

from vitreous.nn.reduction.groups import Groups, full_precision, match

_TEMPERATURE = 0.1  # width of the sigmoid that provides the gradient of a threshold, in units of the threshold
_LEAST = 1e-6  # the smallest unit


class Threshold(nn.Module):
    """One threshold for each block, in units that the first training batch sets: 0 is its lowest score, 1 its median.

    Angles and importance differ between models and blocks; in these units a training step has the same effect
    everywhere. All thresholds start at 0, below all scores.
    """

    zero: Tensor
    unit: Tensor

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(depth))
        self.register_buffer("zero", torch.zeros(depth))
        self.register_buffer("unit", torch.zeros(depth))

    def forward(self, scores: Tensor, present: Tensor, layer: int) -> Tensor:
        """Scores minus the threshold of a layer; `present` marks the scores of tokens.

        Only the threshold gets a gradient: through the scores, every threshold would affect all later ones.
        """
        scores = scores.detach()
        if self.training and present.any() and not self.unit[layer]:
            scores_of_tokens = scores[present]
            self.zero[layer] = scores_of_tokens.min()
            self.unit[layer] = (scores_of_tokens.median() - scores_of_tokens.min()).clamp(min=_LEAST)
        return (scores - self.zero[layer]) / self.unit[layer].clamp(min=_LEAST) - self.value[layer]


class Thresholds(nn.Module):
    """Two thresholds for each block: the angle between keys below which tokens merge, and the importance below which
    tokens are dropped.

    The importance of a token is 1 if it receives the average attention; that of a merged token is the mean of its
    members.
    """

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.merge = Threshold(depth)
        self.prune = Threshold(depth)

    def reduce_weights(self, groups: Groups) -> "Received":
        """The attention that each token receives."""
        return Received(groups.size)

    def forward(self, x: Tensor, layer: int, groups: Groups, keys: Tensor, importance: Tensor) -> Tensor:
        """Reduce tokens `(B, n, D)` to the largest number that a sample keeps; in training their number stays."""
        prefix = groups.prefix
        if x.shape[1] - prefix > 1:
            similarity, a, b = match(keys, groups.size, prefix)
            present = similarity.isfinite()
            angle = similarity.float().clamp(-1, 1).acos()
            share = self._above(-self.merge(angle, present, layer)) * present
            importance = importance.scatter_add(1, b, importance.gather(1, a) * share)
            x = groups.merge(x, a, b, share)
        if x.shape[1] > prefix:
            groups.drop(self._important(importance, layer, groups))
        count = x.shape[1]
        if not self.training and groups.size is not None:
            count = int((groups.size > 0).sum(1).max())
        return groups.compact(x, count)

    def _important(self, importance: Tensor, layer: int, groups: Groups) -> Tensor:
        """1 for tokens to keep, 0 for tokens to drop; the most important token is always kept."""
        size = torch.ones_like(importance) if groups.size is None else groups.size
        present = (size > 0)[:, groups.prefix :]
        mean = (importance / size.clamp(min=1))[:, groups.prefix :].masked_fill(~present, 0.0)
        return self._above(self.prune(mean, present, layer), always=mean == mean.amax(1, keepdim=True))

    def _above(self, margin: Tensor, always: Tensor | bool = False) -> Tensor:
        """1 where a margin is above 0 or `always` is True, else 0; in training with the gradient of a sigmoid."""
        hard = ((margin > 0) | always).float()
        if not self.training:
            return hard
        soft = torch.sigmoid(margin / _TEMPERATURE)
        return hard + (soft - soft.detach())


class Received:
    """Attention that each token receives, relative to the average: `(B, heads, n, n) -> (B, n)`.

    It can be called for a few samples at a time, in their order.

    Args:
        size: `(B, n)`, number of members of each token, which count as one query each; None if all are 1.
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
