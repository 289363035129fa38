"""Attention through a few learned latents (S2.7; Perceiver, Jaegle et al. 2021): time and memory grow as k N.

`softmax(Q Lᵀ) softmax(L Kᵀ) V`: the latents L attend to all tokens, and all tokens attend to the latents. The product
of the two softmaxes is an attention matrix of rank k, which is recorded as the attention weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from vitreous.nn.attention.bias import BiasTable, Layout
from vitreous.nn.attention.multihead import Attention, AttentionConfig, Bias, common_arguments
from vitreous.nn.attention.scores import Dot, join_partial, logits, partial_attention, restrict, sample_weights
from vitreous.nn.record import Reduced, Sink

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig


@dataclass(frozen=True)
class LatentAttention(AttentionConfig):
    """Tokens attend to each other through a few learned latents."""

    kind: ClassVar[str] = "latent"
    latents: int = 64
    """Number of latents."""

    def build(self, c: "ViTConfig", layer: int, layout: Layout) -> Attention | None:
        return Latent(self.latents, layout, *common_arguments(c, layout))


class Latent(Attention):
    """Self-attention through latents; dot products only.

    For a relative bias, latents get positions that are spread evenly over the tokens.
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

    def _self_attention(self, x: Tensor, mask: Tensor | None, bias: Bias, sink: Sink) -> Tensor:
        assert not isinstance(bias, Tensor)
        gather, spread = self._biases(bias, x.dtype)
        dropout, on_cpu = self.active_dropout, x.device.type == "cpu"
        if sink is None and on_cpu and torch.is_grad_enabled() and not dropout and x.numel() > self.chunk_above:
            return self._in_chunks(x, mask, gather, spread)
        q, k, v = self._split(x, None)
        collecting, distributing = self._score_latents(k, False), self._score_latents(q, True)
        if sink is not None:

            def weights_of(samples: slice) -> Tensor:
                distributed = sample_weights(distributing, None, spread, samples)
                return distributed @ sample_weights(collecting, mask, gather, samples)

            reduce = sink.reduce if isinstance(sink, Reduced) else None
            shape = *q.shape[:3], q.shape[2]
            sink["weights"] = weights_of(slice(None)) if reduce is None else self._reduced(weights_of, shape, reduce)
        latents = collecting.attend(v, mask, gather, dropout)
        return self._project(distributing.attend(latents, None, spread, dropout))

    def _score_latents(self, tokens: Tensor, as_queries: bool) -> Dot:
        """Scores of tokens as queries and latents as keys, or the other way round."""
        latents = self.latents.to(tokens.dtype).expand(len(tokens), -1, -1, -1)
        q, k = (self.query_norm(tokens), latents) if as_queries else (latents, self.key_norm(tokens))
        scored = self._score(q, k, self.score)
        assert isinstance(scored, Dot)
        return scored

    def _biases(self, bias: BiasTable | None, kind: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
        """From latents to tokens `(1, heads, k, N)` and from tokens to latents `(1, heads, N, k)`."""
        if bias is None:
            return None, None
        p, count = self.prefix, len(self.latent_places)
        moved = self.latent_places[:, None] - self.places[None]  # (k, N, axes)
        gather = bias.after_prefix(bias.at(moved), p)
        spread = torch.cat([bias.from_prefix(p, count)[0, :, :, p:], bias.at(-moved.transpose(0, 1))], dim=1)
        return gather.unsqueeze(0).to(kind), spread.unsqueeze(0).to(kind)

    def _in_chunks(self, x: Tensor, mask: Tensor | None, gather: Tensor | None, spread: Tensor | None) -> Tensor:
        """The same without dropout, for a few tokens at a time, which are recomputed for the backward pass."""
        step = max(1, self.chunk_above // 16 // (len(x) * x.shape[-1]))
        weights = [w for w in (*self.parameters(), gather, spread) if w is not None and w.requires_grad]

        def collect(some: Tensor, place: slice, _: Tensor | None) -> tuple[Tensor, Tensor]:
            """Attention of the latents to some tokens, `(B, heads, k, d)`, and the log of its denominator."""
            k, v = self._keys_of(some)
            here = (None if part is None else part[..., place] for part in (mask, gather))
            return partial_attention(restrict(logits(self._score_latents(k, False)), *here), v, 0.0)

        def distribute(some: Tensor, place: slice, latents: Tensor) -> tuple[Tensor]:
            """Attention of some tokens to the latents."""
            here = None if spread is None else spread[:, :, place]
            return (self._project(self._score_latents(self._queries_of(some), True).attend(latents, None, here)),)

        apply: Callable[..., tuple[Tensor, ...]] = _InChunks.apply
        handover: list[Tensor] = []
        out, total = apply(collect, step, handover, x, None, *weights)
        return apply(distribute, step, handover, x, join_partial(out, total), *weights)[0]


class _InChunks(torch.autograd.Function):
    """Apply a function to tokens `(B, N, D)`, `step` of them at a time; the backward pass recomputes it.

    The function maps some tokens `(B, n, D)`, their slice of all tokens, and a shared tensor to its outputs. With a
    shared tensor they are tokens `(B, n, D)`, which are concatenated; without one they are stacked.

    Args:
        handover: an empty list that two calls on the same tokens share, the later one with the result of the earlier
            one as `shared`. The gradient of the tokens is then accumulated in place instead of added.
        weights: all tensors inside the function that need a gradient.
    """

    @staticmethod
    def forward(
        ctx: Any,
        function: Callable[[Tensor, slice, Tensor | None], Sequence[Tensor]],
        step: int,
        handover: list[Tensor],
        x: Tensor,
        shared: Tensor | None,
        *weights: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.function, ctx.handover, ctx.weights = function, handover, weights
        ctx.chunks = [slice(start, min(start + step, x.shape[1])) for start in range(0, x.shape[1], step)]
        ctx.save_for_backward(x, shared)
        if shared is not None:
            out = torch.empty_like(x)
            for chunk in ctx.chunks:
                (out[:, chunk],) = function(x[:, chunk], chunk, shared)
            return (out,)
        parts = [function(x[:, chunk], chunk, shared) for chunk in ctx.chunks]
        return tuple(torch.stack(part) for part in zip(*parts, strict=True))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        x, shared = ctx.saved_tensors
        joined = shared is not None
        grad_x = torch.zeros_like(x) if joined or not ctx.handover else ctx.handover.pop()
        totals = [torch.zeros_like(w) for w in (shared, *ctx.weights) if w is not None]
        for i, chunk in enumerate(ctx.chunks):
            part = x[:, chunk].detach().requires_grad_()
            common = shared.detach().requires_grad_() if joined else None
            with torch.enable_grad():
                outs = ctx.function(part, chunk, common)
            grad_outs = [g[:, chunk] if joined else g[i] for g in grad_outputs]
            inputs = [w for w in (part, common, *ctx.weights) if w is not None]
            grads = torch.autograd.grad(outs, inputs, grad_outs, allow_unused=True)
            grad_x[:, chunk] += grads[0]
            for total, grad in zip(totals, grads[1:], strict=True):
                if grad is not None:
                    total += grad
        if not joined:
            return None, None, None, grad_x, None, *totals
        ctx.handover.append(grad_x)
        return None, None, None, None, *totals
