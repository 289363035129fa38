"""Bipartite soft matching (Bolya et al. 2023, section 3): finds similar tokens without clustering.

Tokens are assigned alternately to two sets, so that neighbours are in different sets; each token of the second set is
matched with the token of the first set whose key is most similar.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor

AT_ONCE = 2**22
"""Similarities of a sample that are in memory at the same time."""


def match(keys: Tensor, size: Tensor | None, prefix: int, at_once: int = AT_ONCE) -> tuple[Tensor, Tensor, Tensor]:
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
    similarity, partner = cosines.max(-1)
    return similarity, partner
