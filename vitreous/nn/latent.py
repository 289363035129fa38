"""Attention through a few learned latents (S2.7; Perceiver, Jaegle et al. 2021): time and memory grow as k N.

`softmax(Q Lᵀ) softmax(L Kᵀ) V`: the latents L gather from all tokens, and every token takes from the latents what it
asks for. The product of the two softmaxes is an attention matrix of rank k; it is what recording shows.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.nn.attention import (
    Attention,
    Bias,
    additive_mask,
    joined,
    reduced,
    restricted,
    rows_of,
    share,
    weigh,
)
from vitreous.nn.cache import Past
from vitreous.nn.parts import in_parts
from vitreous.nn.record import Reduced, Sink, keep
from vitreous.nn.relative import Displaced, Layout
from vitreous.nn.score import Dot, logits

_LARGE = 2**20  # numbers of the tokens above which they are taken in parts on a CPU, where memory is short


class Latent(Attention):
    """Attention in which tokens meet through latents; dot products only.

    Args:
        latents: how many.
        layout: where the tokens stand; with a relative bias, latents stand among them, spread evenly in their order.
        others: those of `Attention`.
    """

    places: Tensor
    stand: Tensor

    def __init__(self, latents: int, layout: Layout, *others: Any, **named: Any) -> None:
        super().__init__(*others, **named)
        self.prefix = layout.prefix
        self.latents = nn.Parameter(torch.randn(self.heads, latents, self.project.in_features // self.heads))
        self.register_buffer("places", layout.places, persistent=False)
        spread = torch.linspace(0, len(layout.places) - 1, latents).round().long()
        self.register_buffer("stand", layout.places[spread], persistent=False)

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Bias = None,
        seen: Sink = None,
        past: Past | None = None,
    ) -> Tensor:
        """As `Attention`, of the tokens to themselves."""
        assert context is None
        assert past is None
        assert not isinstance(bias, Tensor)
        gather, spread = self._biases(bias, x.dtype)
        dropout = self.dropout if self.training else 0.0
        large = x.device.type == "cpu" and torch.is_grad_enabled() and not dropout and x.numel() > _LARGE
        if seen is None and large:
            return self._in_parts(x, mask, gather, spread)
        q, k, v = self._split(x, None)
        taking, asking = self._taking(k), self._asking(q)
        if seen is not None:
            self._keep(taking, asking, mask, gather, spread, seen)
        held = F.scaled_dot_product_attention(
            taking.q, taking.k, v, additive_mask(mask, gather), dropout, scale=taking.scale
        )
        mixed = F.scaled_dot_product_attention(asking.q, asking.k, held, spread, dropout, scale=asking.scale)
        return self._project(mixed.transpose(1, 2).flatten(2))

    def _taking(self, k: Tensor) -> Dot:
        """Latents that look at the tokens."""
        latents = self.latents.to(k.dtype).expand(len(k), -1, -1, -1)
        scored = self._score(latents, self.key_norm(k), self.score)
        assert isinstance(scored, Dot)
        return scored

    def _asking(self, q: Tensor) -> Dot:
        """Tokens that look at the latents."""
        latents = self.latents.to(q.dtype).expand(len(q), -1, -1, -1)
        scored = self._score(self.query_norm(q), latents, self.score)
        assert isinstance(scored, Dot)
        return scored

    def _biases(self, bias: Displaced | None, kind: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
        """From latents to tokens `(1, heads, k, N)` and from tokens to latents `(1, heads, N, k)`."""
        if bias is None:
            return None, None
        p, moved = self.prefix, self.stand[:, None] - self.places[None]  # (k, N, axes)
        count = len(self.stand)
        first = bias.to_prefix(p)[:, None].expand(-1, count, -1)
        last = bias.from_prefix(p, count)[0, :, :, p:]
        gather = torch.cat([first, bias.at(moved)], dim=2)
        spread = torch.cat([last, bias.at(-moved.transpose(0, 1))], dim=1)
        return gather.unsqueeze(0).to(kind), spread.unsqueeze(0).to(kind)

    def _in_parts(self, x: Tensor, mask: Tensor | None, gather: Tensor | None, spread: Tensor | None) -> Tensor:
        """The same, without dropout, for a few tokens at a time, each computed again for its gradient."""
        step = max(1, _LARGE // 16 // (len(x) * x.shape[-1]))
        weights = [w for w in (*self.parameters(), gather, spread) if w is not None and w.requires_grad]

        def take(some: Tensor, place: slice, _: Tensor | None) -> tuple[Tensor, Tensor]:
            """What the latents take from some tokens, `(B, heads, k, d)`, and the logarithm of their weight."""
            k, v = self._keys_of(some)
            here = None if mask is None else mask[..., place], None if gather is None else gather[..., place]
            return share(restricted(logits(self._taking(k)), *here), v, 0.0)

        def give(some: Tensor, place: slice, held: Tensor | None) -> tuple[Tensor]:
            """What some tokens get from the latents."""
            assert held is not None
            asking, here = self._asking(self._queries_of(some)), None if spread is None else spread[:, :, place]
            mixed = F.scaled_dot_product_attention(asking.q, asking.k, held, here, scale=asking.scale)
            return (self._project(mixed.transpose(1, 2).flatten(2)),)

        passed: list[Tensor] = []
        out, total = in_parts(take, x, None, step, False, weights, passed)
        return in_parts(give, x, joined(out, total), step, True, weights, passed)[0]

    def _keep(
        self, taking: Dot, asking: Dot, mask: Tensor | None, gather: Tensor | None, spread: Tensor | None, seen: Sink
    ) -> None:
        """Keep the product of both attentions, or what the sink wants to know of it."""

        def weights(rows: slice) -> Tensor:
            taken = Dot(taking.q[rows], taking.k[rows], taking.scale)
            asked = Dot(asking.q[rows], asking.k[rows], asking.scale)
            return weigh(logits(asked), None, spread) @ weigh(logits(taken), rows_of(mask, rows), gather)

        batch, heads, count = asking.q.shape[:3]
        size = heads * count**2
        reduce = seen.reduce if isinstance(seen, Reduced) else None
        keep(seen, "weights", weights(slice(None)) if reduce is None else reduced(weights, batch, size, reduce))
