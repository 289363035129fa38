"""The model: one idea a file."""

from vitreous.nn.attention import Attention
from vitreous.nn.block import MLP, NORMS, Block
from vitreous.nn.cnn import CNN, CNNConfig
from vitreous.nn.config import ViTConfig
from vitreous.nn.head import POOLS
from vitreous.nn.merge import merged
from vitreous.nn.models import build
from vitreous.nn.position import GridPosition, SetPosition, sinusoidal
from vitreous.nn.record import Record, record
from vitreous.nn.recurrent import Recurrent, RecurrentConfig
from vitreous.nn.relative import RelativeBias
from vitreous.nn.resample import resample
from vitreous.nn.score import SCORES
from vitreous.nn.seq2seq import Transformer, TransformerConfig
from vitreous.nn.tokens import PatchTokenizer, SetTokenizer, Tokens
from vitreous.nn.vit import ViT

__all__ = [
    "CNN",
    "MLP",
    "NORMS",
    "POOLS",
    "SCORES",
    "Attention",
    "Block",
    "CNNConfig",
    "GridPosition",
    "PatchTokenizer",
    "Record",
    "Recurrent",
    "RecurrentConfig",
    "RelativeBias",
    "SetPosition",
    "SetTokenizer",
    "Tokens",
    "Transformer",
    "TransformerConfig",
    "ViT",
    "ViTConfig",
    "build",
    "merged",
    "record",
    "resample",
    "sinusoidal",
]
