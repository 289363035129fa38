"""Learned thresholds for merging and pruning (LTMP; Bonnaerens and Dambre 2023, arXiv 2307.10780).

A block merges the pairs of tokens that are more alike than its first threshold, then drops the tokens whose importance,
the attention that they receive, is below its second. In training nothing is cut: what would go is masked, with the
gradient of a sigmoid, so that the thresholds learn from the loss. Afterwards the tokens really go.
"""

import torch
from torch import Tensor, nn

from vitreous.nn.groups import Groups
from vitreous.nn.match import match

TEMPERATURE = 0.1
"""Width of the sigmoid whose gradient stands for that of a threshold."""


class Thresholds(nn.Module):
    """Two thresholds a block: a cosine of keys above which tokens merge, an importance below which they are dropped.

    Importance is counted in even shares: 1 if a token receives as much attention as all do on average, and a merged
    token receives what its members did. At first nothing is merged or dropped.
    """

    weighs = True

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.merge = nn.Parameter(torch.ones(depth))
        self.prune = nn.Parameter(torch.zeros(depth))

    def forward(self, x: Tensor, layer: int, groups: Groups, told: dict[str, Tensor]) -> Tensor:
        """From tokens `(B, n, D)` to those that the fullest sample keeps; in training, to as many as before."""
        prefix, importance = groups.prefix, received(told["weights"], groups.size)
        if x.shape[1] - prefix > 1:
            alike, a, b = match(told["keys"], groups.size, prefix)
            share = self._above(alike, self.merge[layer])
            importance = importance.scatter_add(1, b, importance.gather(1, a) * share)
            x = groups.merge(x, a, b, share)
        if x.shape[1] > prefix:
            groups.drop(self._important(importance, layer, groups))
        count = x.shape[1]
        if not self.training and groups.size is not None:
            count = int((groups.size > 0).sum(1).max())
        return groups.compact(x, count)

    def _important(self, importance: Tensor, layer: int, groups: Groups) -> Tensor:
        """1 for the tokens that are important enough to stay, 0 for the others; the most important one always stays."""
        if groups.size is not None:
            importance = importance.masked_fill(groups.size <= 0, 0.0)
        importance = importance[:, groups.prefix :]
        most = importance.detach().amax(1, keepdim=True)
        return self._above(importance, torch.minimum(self.prune[layer], most * (1 - 1e-6)))

    def _above(self, score: Tensor, threshold: Tensor) -> Tensor:
        """1 where a score is above the threshold, else 0; in training with the gradient of a sigmoid."""
        hard = (score > threshold).float()
        if not self.training:
            return hard
        soft = torch.sigmoid((score.float() - threshold) / TEMPERATURE)
        return hard + (soft - soft.detach())


def received(weights: Tensor, size: Tensor | None) -> Tensor:
    """Attention that each token receives from all that there are, in even shares, `(B, n)`."""
    mean = weights.mean(1).float()  # over the heads: (B, n, n)
    return mean.sum(1) if size is None else (size.detach().unsqueeze(1) @ mean).squeeze(1)
