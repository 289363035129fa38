"""Which tokens of the input each token represents, while tokens are merged and dropped from layer to layer.

Prefix tokens (class token, registers) are included; they come first and represent themselves only. `match` finds the
tokens to merge by bipartite soft matching (Bolya et al. 2023, section 3), without clustering: tokens are assigned
alternately to two sets, so that neighbours are in different sets, and each token of the second set is matched with the
token of the first set whose key is most similar.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor

_TINY = 1e-30  # size of an empty place where a gradient is needed: its share of the attention is e⁻⁶⁹


class Groups:
    """Sizes of the tokens, and the map from the input's tokens to them.

    Args:
        tokens: `(B, N, D)`, prefix tokens first.
        mask: `(B, N - prefix)`, False for missing tokens; None if none is missing.

    Attributes:
        size: `(B, n)`, number of input tokens that each token represents; 0 for empty places. None while every token
            represents itself.
        source: `(B, N)`, the token that represents each token of the input; n if none does.
        left: `(B,)`, number of places that are not empty, with a gradient while thresholds are trained.
    """

    def __init__(self, tokens: Tensor, mask: Tensor | None, prefix: int) -> None:
        batch, count = tokens.shape[:2]
        self.prefix = prefix
        self.size: Tensor | None = None if mask is None else F.pad(mask, (prefix, 0), value=True).float()
        self.source = torch.arange(count, device=tokens.device).expand(batch, -1)
        self.left = tokens.new_full((batch,), count, dtype=torch.float32) if self.size is None else self.size.sum(1)

    def merge(self, x: Tensor, a: Tensor, b: Tensor, share: Tensor | None = None) -> Tensor:
        """Merge tokens `a` `(B, k)` into tokens `b` `(B, k)`, weighted by size; `a` become empty places.

        `share` `(B, k)` is 1 for the pairs to merge and 0 for the others; None merges all. It may have a gradient.
        """
        size = torch.ones_like(x[..., 0], dtype=torch.float32) if self.size is None else self.size
        moved = size.gather(1, a) if share is None else size.gather(1, a) * share
        total = size.scatter_add(1, b, moved)
        weight = moved / total.gather(1, b).clamp(min=_TINY)
        change = weight.unsqueeze(-1) * (rows(x, a) - rows(x, b))  # 0 if both are equal
        self.size = total.scatter_add(1, a, -moved)
        self.left = self.left - ((moved > 0).float() if share is None else share).sum(1)
        places = torch.arange(x.shape[1] + 1, device=x.device).expand(x.shape[0], -1)
        self.source = places.scatter(1, a, torch.where(moved > 0, b, a)).gather(1, self.source)
        flat = x.flatten(0, 1).index_add(0, _flat(b, x.shape[1]), change.flatten(0, 1).to(x.dtype))
        return flat.reshape(x.shape)

    def drop(self, keep: Tensor) -> None:
        """Empty the places where `keep` `(B, n - prefix)` is 0; it is 1 elsewhere and may have a gradient."""
        size = F.pad(torch.ones_like(keep), (self.prefix, 0), value=1.0) if self.size is None else self.size
        present = (size[:, self.prefix :] > 0).float()
        self.left = self.left - (present * (1 - keep)).sum(1)
        self.size = size * F.pad(keep, (self.prefix, 0), value=1.0)

    def compact(self, x: Tensor, count: int) -> Tensor:
        """Move empty places behind the others, which keep their order, and cut to the first `count` places."""
        if self.size is None:
            return x
        used = self.size > 0
        place = torch.where(used, used.cumsum(1), used.sum(1, keepdim=True) + (~used).cumsum(1)) - 1  # (B, n)
        places = torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1)
        order = torch.empty_like(place).scatter(1, place, places)[:, :count]
        moved = F.pad(place.masked_fill(~used, count), (0, 1), value=count)
        self.source = moved.gather(1, self.source)
        self.size = self.size.gather(1, order)
        return rows(x, order)

    def bias(self, bias: Tensor | None) -> Tensor | None:
        """The bias of the attention logits: the logarithm of the sizes, plus the mean bias over the members of a pair.

        A token that represents s tokens receives the attention of s tokens (Bolya et al. 2023, eq. 1).
        """
        if self.size is None:
            return bias
        size = self.size + _TINY if self.size.requires_grad else self.size
        log = size.log()[:, None, None, :]  # (B, 1, 1, n)
        if bias is None:
            return log
        member = F.one_hot(self.source, size.shape[1] + 1)[..., :-1].mT.to(bias.dtype)  # (B, n, N)
        mean = (member / member.sum(-1, keepdim=True).clamp(min=1)).unsqueeze(1)
        return log + mean @ bias.clamp(min=-1e9) @ mean.mT  # -inf * 0 would be NaN

    def mask(self) -> Tensor:
        """Tokens of the input that are still represented, `(B, N - prefix)`."""
        count = self.source.shape[1] if self.size is None else self.size.shape[1]
        return self.source[:, self.prefix :] < count


def expand(x: Tensor, source: Tensor) -> Tensor:
    """Tokens `(B, n, D)` for every token of the input, `(B, N, D)`; zero for dropped tokens."""
    return rows(F.pad(x, (0, 0, 0, 1)), source)


def expand_weights(weights: Tensor, source: Tensor) -> Tensor:
    """Attention weights `(B, heads, n, n)` between the input's tokens, `(B, heads, N, N)`; rows sum to one as before.

    The members of a token attend as it does, and share equally in the attention that it receives. A dropped token
    attends to itself only.
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
    """Indices within each sample `(B, k)` as indices of the flattened batch `(B * k)`."""
    return (index + count * torch.arange(index.shape[0], device=index.device).unsqueeze(1)).flatten()


def match(keys: Tensor, size: Tensor | None, prefix: int, at_once: int = 2**22) -> tuple[Tensor, Tensor, Tensor]:
    """For every second token: its similarity to the most similar token, its index, and the index of that token.

    Args:
        keys: `(B, heads, n, d)` of the attention.
        size: `(B, n)`, 0 for empty places, which are behind all others and are matched last.
        prefix: tokens at the front that are not matched.
        at_once: similarities of a sample that are in memory at the same time.

    Returns:
        Cosines `(B, k)`, tokens `a` `(B, k)` and partners `b` `(B, k)` among the n; k is half of n - prefix.
    """
    unit = F.normalize(keys[:, :, prefix:].float().mean(1), dim=-1)
    second, first = unit[:, 1::2], unit[:, ::2]
    step = max(1, at_once // max(1, first.shape[1]))
    with full_precision(keys):  # half precision cannot distinguish angles below 7°
        parts = [_most_similar(part, first, size, prefix) for part in second.split(step, dim=1)]
    similarity, partner = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
    if size is not None:
        similarity = similarity.masked_fill(size[:, prefix + 1 :: 2] <= 0, float("-inf"))
    a = torch.arange(prefix + 1, keys.shape[2], 2, device=keys.device).expand(keys.shape[0], -1)
    return similarity, a, prefix + 2 * partner


def full_precision(x: Tensor) -> AbstractContextManager[None]:
    """Matrix multiplication in the data type of its factors, also under autocast."""
    mixed = x.device.type != "meta" and torch.is_autocast_enabled(x.device.type)
    return torch.autocast(x.device.type, enabled=False) if mixed else nullcontext()


def _most_similar(second: Tensor, first: Tensor, size: Tensor | None, prefix: int) -> tuple[Tensor, Tensor]:
    cosines = second @ first.mT  # (B, k, k')
    if size is not None:
        cosines = cosines.masked_fill((size[:, None, prefix::2] <= 0), float("-inf"))
    return cosines.max(-1)
