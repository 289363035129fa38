"""Bipartite soft matching (Bolya et al. 2023, section 3): which token is most like which, without clustering.

Tokens are dealt alternately into two sets, so that neighbours fall into different ones; each token of the second set is
matched with the one of the first whose key is most like its own.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor

_AT_ONCE = 2**22  # similarities of a sample in memory at a time


def match(keys: Tensor, size: Tensor | None, prefix: int) -> tuple[Tensor, Tensor, Tensor]:
    """For every second token: its likeness to the token that it is most like, itself, and that token.

    Args:
        keys: `(B, heads, n, d)` of the attention.
        size: `(B, n)`, 0 for empty places, which lie behind all others; they are matched last, and nothing with them.
        prefix: tokens at the front that are matched with nothing.

    Returns:
        Cosines `(B, k)`, places `a` `(B, k)` and partners `b` `(B, k)` among the n; k is half of n - prefix.
    """
    unit = F.normalize(keys[:, :, prefix:].float().mean(1), dim=-1)
    second, first = unit[:, 1::2], unit[:, ::2]
    step = max(1, _AT_ONCE // max(1, first.shape[1]))
    with full_precision(keys):  # half of it cannot tell angles below 7°
        found = [_nearest(part, first, size, prefix) for part in second.split(step, dim=1)]
    best, partner = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
    if size is not None:
        best = best.masked_fill(size[:, prefix + 1 :: 2] <= 0, float("-inf"))
    a = torch.arange(prefix + 1, keys.shape[2], 2, device=keys.device).expand(keys.shape[0], -1)
    return best, a, prefix + 2 * partner


def full_precision(x: Tensor) -> AbstractContextManager[None]:
    """Products as precise as their factors, also under autocast."""
    mixed = x.device.type != "meta" and torch.is_autocast_enabled(x.device.type)
    return torch.autocast(x.device.type, enabled=False) if mixed else nullcontext()


def _nearest(second: Tensor, first: Tensor, size: Tensor | None, prefix: int) -> tuple[Tensor, Tensor]:
    alike = second @ first.mT  # (B, k, k')
    if size is not None:
        alike = alike.masked_fill((size[:, None, prefix::2] <= 0), float("-inf"))
    best, partner = alike.max(-1)
    return best, partner
