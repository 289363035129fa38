"""Attention: scores, biases, and which tokens attend to which.

A new kind of attention is an `Attention` with its `AttentionConfig` in a module here, and a row in `ATTENTIONS`.
"""

from vitreous.nn.attention.bias import RelativeBias
from vitreous.nn.attention.latent import LatentAttention
from vitreous.nn.attention.lsh import LshAttention
from vitreous.nn.attention.multihead import Attention, AttentionConfig, FullAttention, NoAttention
from vitreous.nn.attention.scores import SCORES, weigh
from vitreous.nn.attention.sparse import StridedAttention, WindowAttention

ATTENTIONS: dict[str, type[AttentionConfig]] = {
    part.kind: part
    for part in (FullAttention, WindowAttention, StridedAttention, LshAttention, LatentAttention, NoAttention)
}
"""Settings of each kind of attention, which build it, by the word for it in `ViTConfig(attention=…)`."""

__all__ = [
    "ATTENTIONS",
    "SCORES",
    "Attention",
    "AttentionConfig",
    "FullAttention",
    "LatentAttention",
    "LshAttention",
    "NoAttention",
    "RelativeBias",
    "StridedAttention",
    "WindowAttention",
    "weigh",
]
