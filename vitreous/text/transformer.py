"""The encoder–decoder Transformer (S2.4): the blocks of the ViT, a causal mask, and attention to another sequence.

Tokens are numbers below the size of a vocabulary that both languages share; `PAD` fills the end of a row.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.core.errors import InputError, check_choice
from vitreous.core.settings import Settings
from vitreous.nn.attention import Attention
from vitreous.nn.attention.cache import Past, Pasts, State
from vitreous.nn.attention.scores import SCORES
from vitreous.nn.block import NORMS, Block, Branch, LayerNorm
from vitreous.nn.execution import Network
from vitreous.nn.position import sinusoidal
from vitreous.nn.record import Reduced, Sink, keep

PAD, START, END, UNKNOWN = range(4)
"""Tokens that are no words."""


class Encoded(NamedTuple):
    """A source as the decoder sees it: `(B, S, D)`, and where it is not padding `(B, S)`."""

    values: Tensor
    mask: Tensor

    def pick(self, rows: Tensor) -> "Encoded":
        """These rows, in this order."""
        return Encoded(self.values[rows], self.mask[rows])


@dataclass(frozen=True)
class Seq2SeqConfig(Settings):
    """Settings that all models of texts have.

    Args:
        vocabulary: number of tokens.
        length: tokens of the longest sequence, its end included.
        dim: width of the tokens.
        depth: layers of the encoder, and of the decoder.
        score: scaled_dot | dot | cosine | general | additive | location (S2.2).
        dropout: on the embedded tokens and in the layers.
    """

    vocabulary: int
    length: int = 160
    dim: int = 256
    depth: int = 3
    score: str = "scaled_dot"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("score", self.score, SCORES)
        self._at_least(1, "length", "depth")
        self._at_least(2, "dim")
        self._at_least(UNKNOWN + 2, "vocabulary")
        self._probability("dropout")


class Seq2Seq(Network):
    """A model that writes one sequence of tokens while it reads another.

    One table embeds the tokens of both and, transposed, turns what the decoder finds back into them. Its `blocks` are
    those that attend to the source; they leave their weights `(B, heads, T, S)` in a record as `cross`.
    """

    attends = records = True

    def __init__(self, vocabulary: int, dim: int, length: int, dropout: float) -> None:
        super().__init__()
        self.length, self.dropout = length, dropout
        self.table = nn.Parameter(torch.randn(vocabulary, dim) * dim**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """`(B, 2, L)`, a source and the target up to each token, `-> (B, L, vocabulary)`, logits of the next."""
        return self.decode(x[:, 1], self.encode(x[:, 0]))

    @abstractmethod
    def encode(self, source: Tensor) -> Encoded:
        """Read `(B, S)`."""

    @abstractmethod
    def decode(self, target: Tensor, source: Encoded, state: State | None = None, last: bool = False) -> Tensor:
        """Logits `(B, T, vocabulary)` of what follows each token `(B, T)`, or the last of them alone.

        With a state, the tokens go on from those that it has seen.
        """

    @abstractmethod
    def start(self) -> State:
        """The state before the first token."""

    def start_record(self) -> Mapping[int, Sink]:
        """Begin the record of a forward pass, if one is taken; returns the sinks of its blocks."""
        record = self.execution.recording
        if record is None:
            return {}
        record.start()
        return record.blocks

    def embed(self, tokens: Tensor) -> Tensor:
        """`(B, N) -> (B, N, D)`, of the size that positions have."""
        if tokens.shape[1] > self.length:
            raise InputError(f"tokens: found {tokens.shape[1]} in a row, the model takes {self.length} at most")
        scale: float = self.table.shape[1] ** 0.5
        return F.embedding(tokens, self.table) * scale

    def drop(self, x: Tensor) -> Tensor:
        """The dropout of training."""
        return F.dropout(x, self.dropout, training=self.training) if self.dropout else x

    def words(self, z: Tensor) -> Tensor:
        """`(B, T, D) -> (B, T, vocabulary)`."""
        return F.linear(z, self.table)


@dataclass(frozen=True)
class TransformerConfig(Seq2SeqConfig):
    """An encoder–decoder Transformer.

    >>> TransformerConfig(vocabulary=8000).dim
    256

    Args:
        heads: attention heads; they share the width equally.
        mlp: hidden layer of each block's MLP, as a multiple of the width.
        norm: pre (S4.3) | post (S1.2) | branch (S4.2).
        attention_dropout: dropout on the attention weights.
        eps: added to the variance in layer norms.
    """

    kind: ClassVar[str] = "transformer"
    heads: int = 4
    mlp: float = 4.0
    norm: str = "pre"
    attention_dropout: float = 0.0
    eps: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("norm", self.norm, NORMS)
        self._at_least(1, "heads")
        self._probability("attention_dropout")
        if self.dim % self.heads:
            raise InputError(f"heads: {self.heads} heads do not divide the width dim = {self.dim}")


class DecoderBlock(Block):
    """A block that also attends to a source, between its attention and its MLP."""

    attention: Attention

    def __init__(
        self, config: TransformerConfig, attention: Attention, cross: Attention, hidden: Sequence[int]
    ) -> None:
        c = config
        super().__init__(c.dim, attention, hidden, c.norm, c.dropout, eps=c.eps)
        self.cross_norm = LayerNorm(c.dim, c.eps)
        self.cross = cross
        self.cross_branch = Branch(c.dim, 0.0, c.dropout, 0.0)

    def read(
        self, x: Tensor, source: Encoded, mask: Tensor | None, seen: Sink, own: Past | None, cross: Past | None
    ) -> Tensor:
        """`(B, T, D) -> (B, T, D)`; `seen` keeps `weights`, `cross` and `out` of this block."""
        sink: Sink = None if seen is None else Reduced(seen.reduce) if isinstance(seen, Reduced) else {}

        attend = partial(self.attention, mask=mask, sink=seen, past=own)
        x = self._residual(x, attend, self.attention_norm, self.attention_branch)
        context, present = source.values, source.mask[:, None, None]
        attend = partial(self.cross, context=context, mask=present, sink=sink, past=cross)
        x = self._residual(x, attend, self.cross_norm, self.cross_branch)
        if sink is not None and "weights" in sink:
            keep(seen, "cross", sink["weights"])
        return keep(seen, "out", self._residual(x, self.mlp, self.mlp_norm, self.mlp_branch))


class Transformer(Seq2Seq):
    """The Transformer of S2.4, with one table of embeddings for source, target and output.

    >>> model = Transformer(TransformerConfig(vocabulary=50, dim=32, depth=2))
    >>> model(torch.randint(4, 50, (3, 2, 7))).shape
    torch.Size([3, 7, 50])
    """

    position: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        c = self.config = config
        super().__init__(c.vocabulary, c.dim, c.length, c.dropout)
        place = torch.arange(c.length, dtype=torch.float32).unsqueeze(-1)
        self.register_buffer("position", sinusoidal(place, c.dim), persistent=False)
        hidden = [round(c.mlp * c.dim)]

        def attention() -> Attention:
            return Attention(c.dim, c.heads, c.score, c.length, dropout=c.attention_dropout, eps=c.eps)

        self.encoder = nn.ModuleList(
            Block(c.dim, attention(), hidden, c.norm, c.dropout, eps=c.eps) for _ in range(c.depth)
        )
        self.blocks = nn.ModuleList(DecoderBlock(c, attention(), attention(), hidden) for _ in range(c.depth))
        norms = (nn.Identity() if c.norm == "post" else LayerNorm(c.dim, c.eps) for _ in range(2))
        self.encoder_norm, self.norm = norms
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def encode(self, source: Tensor) -> Encoded:
        mask = source != PAD
        z = self._placed(source, 0)
        for block in self.encoder:
            z = block(z, mask=mask[:, None, None])
        return Encoded(self.encoder_norm(z), mask)

    def decode(self, target: Tensor, source: Encoded, state: State | None = None, last: bool = False) -> Tensor:
        assert state is None or isinstance(state, Pasts)
        sinks = self.start_record()
        before, count = 0 if state is None else state.length, target.shape[1]
        z = self._placed(target, before)
        # Padding stands at the end, where no token before it looks; the last token of all may look everywhere.
        mask = None
        if count > 1:
            mask = torch.ones(count, before + count, dtype=torch.bool, device=z.device).tril(before)
        for layer, block in enumerate(self.blocks):
            assert isinstance(block, DecoderBlock)
            pasts = (None, None) if state is None else (state.own[layer], state.cross[layer])
            z = block.read(z, source, mask, sinks.get(layer), *pasts)
        return self.words(self.norm(z[:, -1:] if last else z))

    def start(self) -> Pasts:
        return Pasts(self.config.depth)

    def _placed(self, tokens: Tensor, before: int) -> Tensor:
        if before + tokens.shape[1] > self.length:
            raise InputError(f"tokens: found {before + tokens.shape[1]}, the model takes {self.length} at most")
        return self.drop(self.embed(tokens) + self.position[before : before + tokens.shape[1]])
