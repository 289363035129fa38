"""Multi-head attention (S2.3): self or cross, any score of S2.2, masks and additive biases (S4.1, S2.10).

The fast path passes scores that are dot products, with their bias, to `scaled_dot_product_attention`; the recorded path
computes the N × N weights explicitly and agrees with it. Weights that are recorded in reduced form are computed in
addition to the fast path, a few samples at a time. A trainable bias has a gradient for every pair, so that training on
a CPU needs memory for all pairs even with the fused kernel.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.core.errors import InputError, check_choice
from vitreous.core.settings import Settings
from vitreous.nn.attention.bias import BiasTable, Layout
from vitreous.nn.attention.cache import Past
from vitreous.nn.attention.scores import SCORES, Dot, dot, logits, sample_weights, scaled_dot, weigh
from vitreous.nn.kernels import kernels, multiplies_in_bfloat16
from vitreous.nn.kernels.linear import Linear
from vitreous.nn.record import Reduce, Reduced, Sink, keep, wants_keys

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig

Bias = Tensor | BiasTable | None
"""Added to the logits: the bias of all pairs, or a table to look it up."""

_PACKED = kernels("nn.kernels.packed")


class Attention(nn.Module):
    """`concat(head_1 … head_h) W_O` with `head_i = softmax(score(Q_i, K_i) + bias) V_i`.

    Args:
        dim: width of the tokens, split equally over the heads.
        heads: number of heads.
        score: one of `SCORES`.
        keys: largest number of keys; needed by the score `location` only.
        qk_norm: layer norm on each head's queries and keys before they are scored.
        dropout: on the attention weights.
    """

    weights_at_once = 2**22
    """Attention weights that are in memory at the same time while they are reduced."""

    def __init__(
        self,
        dim: int,
        heads: int,
        score: str = "scaled_dot",
        keys: int = 0,
        qk_norm: bool = False,
        dropout: float = 0.0,
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        check_choice("score", score, SCORES)
        if dim % heads:
            raise InputError(f"heads: {heads} heads do not divide the width {dim}")
        if score == "location" and not keys:
            raise InputError("keys: the score 'location' needs the largest number of keys")
        d = dim // heads
        self.heads, self.dropout, self.qk_norm = heads, dropout, qk_norm
        self.qkv = Linear(dim, 3 * dim)
        self.project = Linear(dim, dim)
        self.query_norm = nn.LayerNorm(d, eps) if qk_norm else nn.Identity()
        self.key_norm = nn.LayerNorm(d, eps) if qk_norm else nn.Identity()
        self._score = SCORES[score].function
        self.score = nn.ParameterDict(SCORES[score].weights(heads, d, keys))

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Bias = None,
        sink: Sink = None,
        past: Past | None = None,
    ) -> Tensor:
        """Attend from `x` `(B, N, D)` to `context` `(B, M, D)`, or to `x` itself.

        Args:
            mask: True where a key may be attended to, broadcastable to `(B, heads, N, M)`.
            bias: added to the logits, broadcastable to `(B, heads, N, M)`.
            sink: receives the keys and the attention weights; None for the fast path.
            past: cache of keys and values of the tokens before `x`, or of a fixed context; new ones are added.
        """
        if context is None and past is None:
            out = self._self_attention(x, mask, bias, sink)
            if out is not None:
                return out
        q, k, v = self._split(x, context, past)
        scored = self._score(self.query_norm(q), keep(sink, "keys", self.key_norm(k)), self.score)
        if isinstance(sink, Reduced):
            if sink.reduce is not None:  # else only the keys
                weights_of = partial(sample_weights, scored, *self.pairs(scored, mask, bias))
                keep(sink, "weights", self._reduced(weights_of, scored.shape, sink.reduce))
            sink = None  # from here on the fast path
        if isinstance(scored, Dot) and sink is None:
            mixed = self.mix(scored, v, mask, bias)
        else:
            weights = keep(sink, "weights", weigh(logits(scored), *self.pairs(scored, mask, bias)))
            mixed = F.dropout(weights.to(v.dtype), self.dropout, self.training) @ v
        return self._project(mixed)

    @property
    def active_dropout(self) -> float:
        """Dropout on the attention weights: 0 unless the model is trained."""
        return self.dropout if self.training else 0.0

    def _project(self, mixed: Tensor) -> Tensor:
        out: Tensor = self.project(mixed.transpose(1, 2).flatten(2))  # (B, heads, N, d) -> (B, N, D)
        return out

    def _self_attention(self, x: Tensor, mask: Tensor | None, bias: Bias, sink: Sink) -> Tensor | None:
        """Self-attention by our own GPU kernel for short sequences; None where it does not apply.

        It takes a bias without gradients that is the same for all queries and heads, and can store the keys.
        """
        dim, d = x.shape[2], x.shape[2] // self.heads
        plain = type(self) is Attention and self._score in (dot, scaled_dot) and not self.qk_norm and mask is None
        if _PACKED is None or not plain or self.active_dropout or not multiplies_in_bfloat16(x):
            return None
        if x.shape[1] > _PACKED.LONGEST.get(d, 0) or not (sink is None or wants_keys(sink)):
            return None
        weights = None
        if bias is not None:
            if torch.is_grad_enabled() or not isinstance(bias, Tensor) or bias.shape[1:3] != (1, 1):
                return None
            weights = (bias.flatten(1) * math.log2(math.e)).float().expand(len(x), -1).contiguous()
        qkv, scale = self.qkv(x, learns=False), d**-0.5 if self._score is scaled_dot else 1.0
        if sink is not None:
            keep(sink, "keys", qkv[..., dim : 2 * dim].unflatten(-1, (self.heads, -1)).transpose(1, 2))
        out: Tensor = self.project(_PACKED.packed_attention(qkv, self.qkv.bias, self.heads, scale, weights)[0])
        return out

    def mix(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: Bias) -> Tensor:
        """The fast path: mixed values `(B, heads, N, d)`."""
        return scored.attend(v, *self.pairs(scored, mask, bias), self.active_dropout)

    def pairs(self, scored: Dot | Tensor, mask: Tensor | None, bias: Bias) -> tuple[Tensor | None, Tensor | None]:
        """Mask and bias of all pairs, broadcastable to `(B, heads, N, M)`, the bias in the data type of the scores."""
        assert bias is None or isinstance(bias, Tensor)
        return mask, None if bias is None else bias.to(scored.dtype)

    def _reduced(self, weights_of: Callable[[slice], Tensor], shape: Sequence[int], reduce: Reduce) -> Tensor:
        """Attention weights `(B, heads, N, M)`, computed for a few samples at a time, and reduced for a sink."""
        step = max(1, self.weights_at_once // math.prod(shape[1:]))
        return torch.cat([reduce(weights_of(slice(i, i + step))) for i in range(0, max(1, shape[0]), step)])

    def _split(self, x: Tensor, context: Tensor | None, past: Past | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of `x`, keys and values of the context: `(B, N, D) -> (B, heads, N, D / heads)` each."""
        if context is None:
            q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
            return (q, k, v) if past is None else (q, *past.extended(k, v))
        keys = self._keys_of(context) if past is None else past.once(lambda: self._keys_of(context))
        return self._queries_of(x), *keys

    def _queries_of(self, x: Tensor) -> Tensor:
        dim = x.shape[-1]
        q = F.linear(x, self.qkv.weight[:dim], self.qkv.bias[:dim])
        return torch.unflatten(q, -1, (self.heads, -1)).transpose(1, 2)

    def _keys_of(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values."""
        dim = x.shape[-1]
        kv = F.linear(x, self.qkv.weight[dim:], self.qkv.bias[dim:])
        k, v = kv.unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        return k, v


@dataclass(frozen=True)
class AttentionConfig(Settings):
    """Base class of the settings of one kind of attention; 0 stands for the default of a setting."""

    kind: ClassVar[str]
    """The word for it in `ViTConfig(attention=…)`."""
    needs_grid: ClassVar[bool] = False
    """Whether tokens must be a regular grid."""
    least: ClassVar[int] = 0
    """Smallest value of its settings."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in fields(self):
            self._at_least(self.least, field.name)
            self._set(field.name, getattr(self, field.name) or field.default)

    def complete(self, c: "ViTConfig") -> Self:
        """A copy that fits the rest of the model's settings; `InputError` if there is none."""
        if not SCORES[c.score].dot:
            raise InputError(f"score: {c.score!r} needs attention = 'full'; {self.kind!r} takes dot products only")
        if self.needs_grid and not c.tokenizer.is_grid:
            raise InputError(f"attention: {self.kind!r} needs a grid; for {c.tokens} use full, lsh or latent")
        return self

    def build(self, c: "ViTConfig", layer: int, layout: Layout) -> Attention | None:
        """The attention of one block."""
        raise NotImplementedError


def common_arguments(c: "ViTConfig", layout: Layout) -> tuple[Any, ...]:
    """The arguments of `Attention`, which all kinds share."""
    return c.dim, c.heads, c.score, layout.prefix + len(layout.places), c.qk_norm, c.attention_dropout, c.eps


@dataclass(frozen=True)
class FullAttention(AttentionConfig):
    """Every token attends to all tokens."""

    kind: ClassVar[str] = "full"

    def complete(self, c: "ViTConfig") -> Self:
        return self

    def build(self, c: "ViTConfig", layer: int, layout: Layout) -> Attention | None:
        return Attention(*common_arguments(c, layout))


_WITHOUT = "with attention = 'none'"  # settings that only attention reads must then have these values
_OFF = {"cls": False, "registers": 0, "bias": "none", "score": "scaled_dot", "qk_norm": False, "attention_dropout": 0.0}


@dataclass(frozen=True)
class NoAttention(AttentionConfig):
    """No attention: blocks are MLPs of each token alone. With `pool="mean"` the model is Deep Sets (Zaheer 2017)."""

    kind: ClassVar[str] = "none"

    def complete(self, c: "ViTConfig") -> Self:
        if c.pool == "cls":
            raise InputError(f"pool: {_WITHOUT} the class token sees nothing; expected 'mean' or 'attention'")
        for name, expected in _OFF.items():
            if (value := getattr(c, name)) != expected:
                raise InputError(f"{name}: found {value!r}, but {_WITHOUT} it has no use; expected {expected!r}")
        return self

    def build(self, c: "ViTConfig", layer: int, layout: Layout) -> Attention | None:
        return None
