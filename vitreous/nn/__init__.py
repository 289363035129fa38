"""The model, one idea in each module.

- `vit`, `config`: the Vision Transformer and its settings; `cnn`: the convolutional rival
- `tokens/`: from the input to tokens; `attention/`: scores, biases, and which tokens attend to which
- `position`, `block`, `pooling`: the other parts of the model
- `reduction/`: fewer tokens, by merging and learned thresholds
- `pretraining`, `decoder`, `masking`: learning without labels
- `execution`, `record`: how a model runs, and what it records
- `kernels/`: fast linear layers, GELU and attention on GPUs
"""

from vitreous.nn.attention import (
    ATTENTIONS,
    SCORES,
    Attention,
    FullAttention,
    LatentAttention,
    LshAttention,
    NoAttention,
    RelativeBias,
    StridedAttention,
    WindowAttention,
)
from vitreous.nn.block import MLP, NORMS, Block
from vitreous.nn.cnn import CNN, CNNConfig
from vitreous.nn.config import ViTConfig
from vitreous.nn.execution import Execution, Network, executing
from vitreous.nn.models import build
from vitreous.nn.pooling import POOLS
from vitreous.nn.position import GridPosition, SetPosition, sinusoidal
from vitreous.nn.record import Record, record
from vitreous.nn.reduction.merge import merged
from vitreous.nn.resample import resample
from vitreous.nn.tokens import (
    TOKENIZERS,
    LineTokens,
    PackedTokens,
    PatchTokenizer,
    PatchTokens,
    PeakTokens,
    SetTokenizer,
    SetTokens,
    Tokens,
)
from vitreous.nn.vit import ViT

__all__ = [
    "ATTENTIONS",
    "CNN",
    "MLP",
    "NORMS",
    "POOLS",
    "SCORES",
    "TOKENIZERS",
    "Attention",
    "Block",
    "CNNConfig",
    "Execution",
    "FullAttention",
    "GridPosition",
    "LatentAttention",
    "LineTokens",
    "LshAttention",
    "Network",
    "NoAttention",
    "PackedTokens",
    "PatchTokenizer",
    "PatchTokens",
    "PeakTokens",
    "Record",
    "RelativeBias",
    "SetPosition",
    "SetTokenizer",
    "SetTokens",
    "StridedAttention",
    "Tokens",
    "ViT",
    "ViTConfig",
    "WindowAttention",
    "build",
    "executing",
    "merged",
    "record",
    "resample",
    "sinusoidal",
]
