"""Which tokens of the input each token stands for, while tokens are merged and dropped from layer to layer.

Prefix tokens (class token, registers) are counted like all others; they come first and stand for themselves alone.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

_TINY = 1e-30  # the size of an empty place whose gradient is wanted: e⁻⁶⁹ of a token's attention is none


class Groups:
    """Sizes of the tokens, and the map from the input's tokens to them.

    Args:
        tokens: `(B, N, D)`, prefix tokens first.
        mask: `(B, N - prefix)`, False where there is no token; None if all are there.
        prefix: class token and registers.

    Attributes:
        size: `(B, n)`, tokens of the input that each token stands for; 0 where a place is empty. None while every
            token stands for itself.
        source: `(B, N)`, the token that stands for each token of the input; n if none does.
        left: `(B,)`, tokens that are not empty places, with a gradient where thresholds are trained.
    """

    def __init__(self, tokens: Tensor, mask: Tensor | None, prefix: int) -> None:
        batch, count = tokens.shape[:2]
        self.prefix = prefix
        self.size: Tensor | None = None if mask is None else F.pad(mask, (prefix, 0), value=True).float()
        self.source = torch.arange(count, device=tokens.device).expand(batch, -1)
        self.left = tokens.new_full((batch,), count, dtype=torch.float32) if self.size is None else self.size.sum(1)

    def merge(self, x: Tensor, a: Tensor, b: Tensor, share: Tensor | None = None) -> Tensor:
        """Merge tokens `a` `(B, k)` into tokens `b` `(B, k)`, each in proportion to its size; `a` become empty places.

        `share` `(B, k)` is 1 for the pairs to merge and 0 for the others, with a gradient if it has one; None for all.
        """
        size = torch.ones_like(x[..., 0], dtype=torch.float32) if self.size is None else self.size
        moved = size.gather(1, a) if share is None else size.gather(1, a) * share
        total = size.scatter_add(1, b, moved)
        weight = moved / total.gather(1, b).clamp(min=_TINY)
        change = weight.unsqueeze(-1) * (rows(x, a) - rows(x, b))  # nothing, where both are alike
        self.size = total.scatter_add(1, a, -moved)
        self.left = self.left - ((moved > 0).float() if share is None else share).sum(1)
        places = torch.arange(x.shape[1] + 1, device=x.device).expand(x.shape[0], -1)
        self.source = places.scatter(1, a, torch.where(moved > 0, b, a)).gather(1, self.source)
        flat = x.flatten(0, 1).index_add(0, _flat(b, x.shape[1]), change.flatten(0, 1).to(x.dtype))
        return flat.reshape(x.shape)

    def drop(self, stays: Tensor) -> None:
        """Empty the places where `stays` `(B, n - prefix)` is 0; 1 elsewhere, with a gradient if it has one."""
        size = F.pad(torch.ones_like(stays), (self.prefix, 0), value=1.0) if self.size is None else self.size
        there = (size[:, self.prefix :] > 0).float()
        self.left = self.left - (there * (1 - stays)).sum(1)
        self.size = size * F.pad(stays, (self.prefix, 0), value=1.0)

    def compact(self, x: Tensor, count: int) -> Tensor:
        """Bring the empty places behind the others, whose order stays, and keep the first `count` places."""
        if self.size is None:
            return x
        there = self.size > 0
        place = torch.where(there, there.cumsum(1), there.sum(1, keepdim=True) + (~there).cumsum(1)) - 1  # (B, n)
        places = torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1)
        order = torch.empty_like(place).scatter(1, place, places)[:, :count]
        moved = F.pad(place.masked_fill(~there, count), (0, 1), value=count)
        self.source = moved.gather(1, self.source)
        self.size = self.size.gather(1, order)
        return rows(x, order)

    def bias(self, bias: Tensor | None) -> Tensor | None:
        """What is added to the attention logits: the logarithm of the sizes, and the mean bias of each pair's members.

        A token that stands for s others is attended to like s tokens (Bolya et al. 2023, eq. 1).
        """
        if self.size is None:
            return bias
        size = self.size + _TINY if self.size.requires_grad else self.size
        log = size.log()[:, None, None, :]  # (B, 1, 1, n)
        if bias is None:
            return log
        member = F.one_hot(self.source, size.shape[1] + 1)[..., :-1].mT.to(bias.dtype)  # (B, n, N)
        mean = (member / member.sum(-1, keepdim=True).clamp(min=1)).unsqueeze(1)
        return log + mean @ bias.clamp(min=-1e9) @ mean.mT  # minus infinity times no member is no number

    def mask(self) -> Tensor:
        """Tokens of the input that are still stood for, `(B, N - prefix)`."""
        count = self.source.shape[1] if self.size is None else self.size.shape[1]
        return self.source[:, self.prefix :] < count


def expand(x: Tensor, source: Tensor) -> Tensor:
    """Tokens `(B, n, D)` for every token of the input, `(B, N, D)`; zero for those that nothing stands for."""
    return rows(F.pad(x, (0, 0, 0, 1)), source)


def expand_weights(weights: Tensor, source: Tensor) -> Tensor:
    """Attention weights `(B, heads, n, n)` between the input's tokens, `(B, heads, N, N)`; rows sum to one as before.

    A token's members attend as it does, and share alike in what it is given. A token that nothing stands for attends
    to itself alone.
    """
    heads, count, total = weights.shape[1], weights.shape[2], source.shape[1]
    members = torch.zeros_like(weights[:, 0, 0]).scatter_add(1, source.clamp(max=count - 1), (source < count) * 1.0)
    shared = F.pad(weights / members.clamp(min=1)[:, None, None, :], (0, 1, 0, 1))
    query = source[:, None, :, None].expand(-1, heads, -1, count + 1)
    key = source[:, None, None, :].expand(-1, heads, total, -1)
    alone = torch.diag_embed((source == count).to(weights.dtype))
    return shared.gather(2, query).gather(3, key) + alone.unsqueeze(1)


def rows(x: Tensor, index: Tensor) -> Tensor:
    """Rows `(B, k)` of `(B, n, D)`: `(B, k, D)`."""
    return x.flatten(0, 1).index_select(0, _flat(index, x.shape[1])).reshape(*index.shape, x.shape[2])


def _flat(index: Tensor, count: int) -> Tensor:
    """Places within each sample `(B, k)` as places in the flattened batch `(B * k)`."""
    return (index + count * torch.arange(index.shape[0], device=index.device).unsqueeze(1)).flatten()
