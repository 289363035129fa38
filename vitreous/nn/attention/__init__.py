"""Attention: scores, biases, and which tokens attend to which.

A new kind of attention is an `Attention` with its `AttentionConfig` in a module here, and a row in `ATTENTIONS`.
"""

from vitreous.nn.attention.base import AttentionConfig, FullAttention, NoAttention
from vitreous.nn.attention.latent import Latent, LatentAttention
from vitreous.nn.attention.lsh import Lsh, LshAttention
from vitreous.nn.attention.multihead import Attention
from vitreous.nn.attention.pairs import PairBias
from vitreous.nn.attention.relative import Layout, RelativeBias
from vitreous.nn.attention.scores import SCORES
from vitreous.nn.attention.softmax import weigh
from vitreous.nn.attention.strided import Strided, StridedAttention
from vitreous.nn.attention.window import Window, WindowAttention

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
    "Latent",
    "LatentAttention",
    "Layout",
    "Lsh",
    "LshAttention",
    "NoAttention",
    "PairBias",
    "RelativeBias",
    "Strided",
    "StridedAttention",
    "Window",
    "WindowAttention",
    "weigh",
]
