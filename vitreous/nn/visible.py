"""Which tokens an encoder sees and which are hidden from it, in masked pre-training (He et al. 2022)."""

from typing import NamedTuple

import torch
from torch import Tensor


class Visible(NamedTuple):
    """A choice among N tokens, as many for every sample."""

    tokens: Tensor
    """`(B, K)`: the places of those that are seen."""
    there: Tensor | None
    """`(B, K)`: which of these there are, where samples have tokens in different numbers; None for all."""
    hidden: Tensor
    """`(B, N)`: the tokens that there are and that are not seen."""

    def with_prefix(self, prefix: int) -> Tensor:
        """Their places behind prefix tokens, which are always seen: `(B, prefix + K)`."""
        first = torch.arange(prefix, device=self.tokens.device).expand(len(self.tokens), -1)
        return torch.cat([first, self.tokens + prefix], dim=1)


def draw(batch: int, cells: Tensor, there: Tensor | None, ratio: float) -> Visible:
    """Hide a share of the tokens of each sample at random.

    Args:
        cells: `(N,)`, equal for tokens that are hidden together, but for one cell of a sample that may be cut.
        there: `(B, N)`, the tokens with data, of which the share is taken; None for all.
        ratio: hidden, of 1; one token at least is seen.
    """
    count = len(cells)
    noise = torch.rand(batch, count, device=cells.device)[:, cells]  # (B, N)
    if there is not None:
        noise = noise + (~there)  # behind all others
    order = noise.argsort(dim=1, stable=True)
    most = max(1, round((1 - ratio) * count))
    tokens = order[:, :most]
    if there is None:
        return Visible(tokens, None, torch.ones_like(order, dtype=torch.bool).scatter(1, tokens, False))
    seen = ((1 - ratio) * there.sum(1, keepdim=True)).round().clamp(min=1, max=most)  # (B, 1)
    known = (torch.arange(most, device=cells.device) < seen) & there.gather(1, tokens)
    return Visible(tokens, known, there & ~torch.zeros_like(there).scatter(1, tokens, known))


def pick(x: Tensor, places: Tensor) -> Tensor:
    """Some tokens of each sample: `(B, N, D)` at `(B, n)` is `(B, n, D)`."""
    return x.gather(1, places.unsqueeze(-1).expand(-1, -1, x.shape[-1]))


def pick_pairs(bias: Tensor, places: Tensor) -> Tensor:
    """A bias `(1 or B, heads, N, N)` between some tokens of each sample: `(B, heads, n, n)`."""
    if len(bias) == 1:
        found = bias[0][:, places[:, :, None], places[:, None, :]]  # (heads, B, n, n)
        return found.movedim(0, 1)
    _, heads, count, _ = bias.shape
    rows = bias.gather(2, places[:, None, :, None].expand(-1, heads, -1, count))
    return rows.gather(3, places[:, None, None, :].expand(-1, heads, places.shape[1], -1))


def put(x: Tensor, visible: Visible, instead: Tensor) -> Tensor:
    """All tokens again, `(B, N, D)`: the seen ones `x` `(B, K, D)` at their places, `instead` `(D,)` at the others."""
    whole = instead.to(x.dtype).expand(len(x), visible.hidden.shape[1], -1)
    if visible.there is not None:
        x = torch.where(visible.there.unsqueeze(-1), x, instead.to(x.dtype))
    return whole.scatter(1, visible.tokens.unsqueeze(-1).expand_as(x), x)
