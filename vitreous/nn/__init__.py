"""The model, one idea in each module.

- `vit`, `config`: the Vision Transformer and its settings; `cnn`: the convolutional rival
- `tokens/`: from the input to tokens; `attention/`: scores, biases, and which tokens attend to which
- `position`, `block`, `pooling`: the other parts of the model
- `reduction/`: fewer tokens, by merging and learned thresholds
- `pretraining`, `masking`: learning without labels
- `execution`, `record`: how a model runs, and what it records
- `kernels/`: fast linear layers, GELU and attention on GPUs
"""

from vitreous.nn.attention import ATTENTIONS as ATTENTIONS
from vitreous.nn.attention import SCORES as SCORES
from vitreous.nn.attention import Attention as Attention
from vitreous.nn.attention import FullAttention as FullAttention
from vitreous.nn.attention import LatentAttention as LatentAttention
from vitreous.nn.attention import LshAttention as LshAttention
from vitreous.nn.attention import NoAttention as NoAttention
from vitreous.nn.attention import RelativeBias as RelativeBias
from vitreous.nn.attention import StridedAttention as StridedAttention
from vitreous.nn.attention import WindowAttention as WindowAttention
from vitreous.nn.block import MLP as MLP
from vitreous.nn.block import NORMS as NORMS
from vitreous.nn.block import Block as Block
from vitreous.nn.cnn import CNN as CNN
from vitreous.nn.cnn import CNNConfig as CNNConfig
from vitreous.nn.config import ViTConfig as ViTConfig
from vitreous.nn.execution import Execution as Execution
from vitreous.nn.execution import Network as Network
from vitreous.nn.execution import executing as executing
from vitreous.nn.models import build as build
from vitreous.nn.pooling import POOLS as POOLS
from vitreous.nn.position import GridPosition as GridPosition
from vitreous.nn.position import SetPosition as SetPosition
from vitreous.nn.position import sinusoidal as sinusoidal
from vitreous.nn.record import Record as Record
from vitreous.nn.record import record as record
from vitreous.nn.reduction.merge import merged as merged
from vitreous.nn.resample import resample as resample
from vitreous.nn.tokens import TOKENIZERS as TOKENIZERS
from vitreous.nn.tokens import LineTokens as LineTokens
from vitreous.nn.tokens import PackedTokens as PackedTokens
from vitreous.nn.tokens import PatchTokenizer as PatchTokenizer
from vitreous.nn.tokens import PatchTokens as PatchTokens
from vitreous.nn.tokens import PeakTokens as PeakTokens
from vitreous.nn.tokens import SetTokenizer as SetTokenizer
from vitreous.nn.tokens import SetTokens as SetTokens
from vitreous.nn.tokens import Tokens as Tokens
from vitreous.nn.vit import ViT as ViT
