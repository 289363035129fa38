"""Which tokens an encoder sees in masked pre-training (He et al. 2022)."""

from typing import NamedTuple

import torch
from torch import Tensor


class Visible(NamedTuple):
    """A choice of visible tokens among N, the same number for every sample."""

    tokens: Tensor
    """`(B, K)`: indices of the visible tokens."""
    mask: Tensor | None
    """`(B, K)`: True for visible tokens with data, if samples differ in their number of tokens; None for all."""
    hidden: Tensor
    """`(B, N)`: True for tokens with data that are hidden."""

    def with_prefix(self, prefix: int) -> Tensor:
        """Indices behind the prefix tokens, which are always visible: `(B, prefix + K)`."""
        first = torch.arange(prefix, device=self.tokens.device).expand(len(self.tokens), -1)
        return torch.cat([first, self.tokens + prefix], dim=1)


def draw(batch: int, units: Tensor, mask: Tensor | None, ratio: float) -> Visible:
    """Hide a share of the tokens of each sample at random.

    Args:
        units: `(N,)`, equal for tokens that are hidden together; one unit of a sample may be split.
        mask: `(B, N)`, True for tokens with data, of which the share is taken; None for all.
        ratio: share of hidden tokens; at least one token is visible.
    """
    count = len(units)
    noise = torch.rand(batch, count, device=units.device)[:, units]  # (B, N)
    if mask is not None:
        noise = noise + (~mask)  # behind all others
    order = noise.argsort(dim=1, stable=True)
    most = max(1, round((1 - ratio) * count))
    tokens = order[:, :most]
    if mask is None:
        return Visible(tokens, None, torch.ones_like(order, dtype=torch.bool).scatter(1, tokens, False))
    number = ((1 - ratio) * mask.sum(1, keepdim=True)).round().clamp(min=1, max=most)  # (B, 1)
    visible = (torch.arange(most, device=units.device) < number) & mask.gather(1, tokens)
    return Visible(tokens, visible, mask & ~torch.zeros_like(mask).scatter(1, tokens, visible))


def pick(x: Tensor, places: Tensor) -> Tensor:
    """Some tokens of each sample: `(B, N, D)` at indices `(B, n)` is `(B, n, D)`."""
    return x.gather(1, places.unsqueeze(-1).expand(-1, -1, x.shape[-1]))


def pick_pairs(bias: Tensor, places: Tensor) -> Tensor:
    """A bias `(1 or B, heads, N, N)` between some tokens of each sample: `(B, heads, n, n)`."""
    if len(bias) == 1:
        return bias[0][:, places[:, :, None], places[:, None, :]].movedim(0, 1)  # (heads, B, n, n) -> (B, heads, n, n)
    _, heads, count, _ = bias.shape
    rows = bias.gather(2, places[:, None, :, None].expand(-1, heads, -1, count))
    return rows.gather(3, places[:, None, None, :].expand(-1, heads, places.shape[1], -1))


def restore(x: Tensor, visible: Visible, placeholder: Tensor) -> Tensor:
    """All tokens `(B, N, D)`: visible ones `x` `(B, K, D)` in their places, `placeholder` `(D,)` in the others."""
    whole = placeholder.to(x.dtype).expand(len(x), visible.hidden.shape[1], -1)
    if visible.mask is not None:
        x = torch.where(visible.mask.unsqueeze(-1), x, placeholder.to(x.dtype))
    return whole.scatter(1, visible.tokens.unsqueeze(-1).expand_as(x), x)
