"""Attention through a few learned latents (S2.7; Perceiver, Jaegle et al. 2021): time and memory grow as k N.

`softmax(Q Lᵀ) softmax(L Kᵀ) V`: the latents L attend to all tokens, and all tokens attend to the latents. The product
of the two softmaxes is an attention matrix of rank k, which is recorded as the attention weights.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.nn.attention.base import AttentionConfig, common_arguments
from vitreous.nn.attention.cache import Past
from vitreous.nn.attention.chunks import in_chunks
from vitreous.nn.attention.multihead import Attention, Bias
from vitreous.nn.attention.relative import BiasTable, Layout
from vitreous.nn.attention.scores import Dot, logits
from vitreous.nn.attention.softmax import (
    additive_mask,
    join_partial,
    partial_attention,
    reduce_weights,
    restrict,
    select_samples,
    weigh,
)
from vitreous.nn.record import Reduced, Sink, keep

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig


@dataclass(frozen=True)
class LatentAttention(AttentionConfig):
    """Tokens attend to each other through a few learned latents."""

    kind: ClassVar[str] = "latent"
    latents: int = 64
    """Number of latents."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(0, "latents")
        self._set("latents", self.latents or 64)

    def build(self, c: "ViTConfig", layer: int, layout: Layout) -> Attention | None:
        return Latent(self.latents, layout, *common_arguments(c, layout))


class Latent(Attention):
    """Attention through latents; dot products only.

    Args:
        latents: number of latents.
        layout: where the tokens are; for a relative bias, latents get positions that are spread evenly over the tokens.
        others: arguments of `Attention`.
    """

    places: Tensor
    latent_places: Tensor
    chunk_above = 2**20
    """Size of the tokens `(B, N, D)` above which a CPU trains in chunks, to save memory."""

    def __init__(self, latents: int, layout: Layout, *others: Any, **named: Any) -> None:
        super().__init__(*others, **named)
        self.prefix = layout.prefix
        self.latents = nn.Parameter(torch.randn(self.heads, latents, self.project.in_features // self.heads))
        self.register_buffer("places", layout.places, persistent=False)
        spread = torch.linspace(0, len(layout.places) - 1, latents).round().long()
        self.register_buffer("latent_places", layout.places[spread], persistent=False)

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Bias = None,
        sink: Sink = None,
        past: Past | None = None,
    ) -> Tensor:
        """As `Attention`, self-attention only."""
        assert context is None
        assert past is None
        assert not isinstance(bias, Tensor)
        gather, spread = self._biases(bias, x.dtype)
        dropout = self.dropout if self.training else 0.0
        large = x.device.type == "cpu" and torch.is_grad_enabled() and not dropout and x.numel() > self.chunk_above
        if sink is None and large:
            return self._in_chunks(x, mask, gather, spread)
        q, k, v = self._split(x, None)
        collecting, distributing = self._latents_to_tokens(k), self._tokens_to_latents(q)
        if sink is not None:
            self._store(collecting, distributing, mask, gather, spread, sink)
        latents = F.scaled_dot_product_attention(
            collecting.q, collecting.k, v, additive_mask(mask, gather), dropout, scale=collecting.scale
        )
        mixed = F.scaled_dot_product_attention(
            distributing.q, distributing.k, latents, spread, dropout, scale=distributing.scale
        )
        return self._project(mixed.transpose(1, 2).flatten(2))

    def _latents_to_tokens(self, k: Tensor) -> Dot:
        """Scores of latents as queries and tokens as keys."""
        latents = self.latents.to(k.dtype).expand(len(k), -1, -1, -1)
        scored = self._score(latents, self.key_norm(k), self.score)
        assert isinstance(scored, Dot)
        return scored

    def _tokens_to_latents(self, q: Tensor) -> Dot:
        """Scores of tokens as queries and latents as keys."""
        latents = self.latents.to(q.dtype).expand(len(q), -1, -1, -1)
        scored = self._score(self.query_norm(q), latents, self.score)
        assert isinstance(scored, Dot)
        return scored

    def _biases(self, bias: BiasTable | None, kind: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
        """From latents to tokens `(1, heads, k, N)` and from tokens to latents `(1, heads, N, k)`."""
        if bias is None:
            return None, None
        p, moved = self.prefix, self.latent_places[:, None] - self.places[None]  # (k, N, axes)
        count = len(self.latent_places)
        first = bias.to_prefix(p)[:, None].expand(-1, count, -1)
        last = bias.from_prefix(p, count)[0, :, :, p:]
        gather = torch.cat([first, bias.at(moved)], dim=2)
        spread = torch.cat([last, bias.at(-moved.transpose(0, 1))], dim=1)
        return gather.unsqueeze(0).to(kind), spread.unsqueeze(0).to(kind)

    def _in_chunks(self, x: Tensor, mask: Tensor | None, gather: Tensor | None, spread: Tensor | None) -> Tensor:
        """The same without dropout, for a few tokens at a time, which are recomputed for the backward pass."""
        step = max(1, self.chunk_above // 16 // (len(x) * x.shape[-1]))
        weights = [w for w in (*self.parameters(), gather, spread) if w is not None and w.requires_grad]

        def collect(some: Tensor, place: slice, _: Tensor | None) -> tuple[Tensor, Tensor]:
            """Attention of the latents to some tokens, `(B, heads, k, d)`, and the log of its denominator."""
            k, v = self._keys_of(some)
            here = None if mask is None else mask[..., place], None if gather is None else gather[..., place]
            return partial_attention(restrict(logits(self._latents_to_tokens(k)), *here), v, 0.0)

        def distribute(some: Tensor, place: slice, latents: Tensor | None) -> tuple[Tensor]:
            """Attention of some tokens to the latents."""
            assert latents is not None
            distributing, here = (
                self._tokens_to_latents(self._queries_of(some)),
                None if spread is None else spread[:, :, place],
            )
            mixed = F.scaled_dot_product_attention(
                distributing.q, distributing.k, latents, here, scale=distributing.scale
            )
            return (self._project(mixed.transpose(1, 2).flatten(2)),)

        handover: list[Tensor] = []
        out, total = in_chunks(collect, x, None, step, False, weights, handover)
        return in_chunks(distribute, x, join_partial(out, total), step, True, weights, handover)[0]

    def _store(
        self,
        collecting: Dot,
        distributing: Dot,
        mask: Tensor | None,
        gather: Tensor | None,
        spread: Tensor | None,
        sink: Sink,
    ) -> None:
        """Store the product of both attentions, reduced if the sink asks for it."""

        def weights(rows: slice) -> Tensor:
            collected = Dot(collecting.q[rows], collecting.k[rows], collecting.scale)
            distributed = Dot(distributing.q[rows], distributing.k[rows], distributing.scale)
            return weigh(logits(distributed), None, spread) @ weigh(
                logits(collected), select_samples(mask, rows), gather
            )

        batch, heads, count = distributing.q.shape[:3]
        size = heads * count**2
        reduce = sink.reduce if isinstance(sink, Reduced) else None
        keep(
            sink,
            "weights",
            weights(slice(None))
            if reduce is None
            else reduce_weights(weights, batch, size, reduce, self.weights_at_once),
        )
