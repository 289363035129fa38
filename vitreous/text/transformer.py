"""The encoder–decoder Transformer (S2.4): the blocks of the ViT, a causal mask, and attention to another sequence.

Tokens are numbers below the size of a vocabulary that both languages share; `PAD` fills the end of a row.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
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
class TransformerConfig(Settings):
    """An encoder–decoder Transformer.

    >>> TransformerConfig(vocabulary=8000).dim
    256
    """

    kind: ClassVar[str] = "transformer"
    vocabulary: int
    """Tokens that there are."""
    length: int = 160
    """Tokens of the longest sequence, its end included."""
    dim: int = 256
    """Width of the tokens."""
    depth: int = 3
    """Blocks of the encoder, and of the decoder."""
    heads: int = 4
    """Attention heads; they share the width equally."""
    mlp: float = 4.0
    """Hidden layer of each block's MLP, as a multiple of the width."""
    norm: str = "pre"
    """pre (S4.3) | post (S1.2) | branch (S4.2)."""
    score: str = "scaled_dot"
    """scaled_dot | dot | cosine | general | additive | location (S2.2)."""
    dropout: float = 0.0
    """Dropout on the embedded tokens, in the MLPs and on the branches."""
    attention_dropout: float = 0.0
    """Dropout on the attention weights."""
    eps: float = 1e-6
    """Added to the variance in layer norms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("norm", self.norm, NORMS)
        check_choice("score", self.score, SCORES)
        self._at_least(1, "length", "depth", "heads")
        self._at_least(2, "dim")
        self._at_least(UNKNOWN + 2, "vocabulary")
        self._probability("dropout", "attention_dropout")
        if self.dim % self.heads:
            raise InputError(f"heads: {self.heads} heads do not divide the width dim = {self.dim}")


class DecoderBlock(Block):
    """A block that also attends to a source, between its attention and its MLP."""

    attention: Attention

    def __init__(
        self, dim: int, attention: Attention, cross: Attention, hidden: Sequence[int], norm: str, dropout: float,
        eps: float,
    ) -> None:  # fmt: skip
        super().__init__(dim, attention, hidden, norm, dropout, eps=eps)
        self.cross_norm = LayerNorm(dim, eps)
        self.cross = cross
        self.cross_branch = Branch(dim, 0.0, dropout, 0.0)

    def read(
        self, x: Tensor, source: Encoded, mask: Tensor | None, seen: Sink, own: Past | None, cross: Past | None
    ) -> Tensor:
        """`(B, T, D) -> (B, T, D)`; `seen` keeps `weights`, `cross` and `out` of this block."""
        sink: Sink = None if seen is None else Reduced(seen.reduce) if isinstance(seen, Reduced) else {}

        def attend(z: Tensor) -> Tensor:
            found: Tensor = self.attention(z, mask=mask, sink=seen, past=own)
            return found

        def look(z: Tensor) -> Tensor:
            found: Tensor = self.cross(z, source.values, source.mask[:, None, None], sink=sink, past=cross)
            return found

        x = self._residual(x, attend, self.attention_norm, self.attention_branch)
        x = self._residual(x, look, self.cross_norm, self.cross_branch)
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
        self.blocks = nn.ModuleList(
            DecoderBlock(c.dim, attention(), attention(), hidden, c.norm, c.dropout, c.eps) for _ in range(c.depth)
        )
        self.encoder_norm, self.norm = (
            nn.Identity() if c.norm == "post" else LayerNorm(c.dim, c.eps) for _ in range(2)
        )
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def encode(self, source: Tensor) -> Encoded:
        """Read `(B, S)`."""
        mask = source != PAD
        z = self._placed(source, 0)
        for block in self.encoder:
            z = block(z, mask=mask[:, None, None])
        return Encoded(self.encoder_norm(z), mask)

    def decode(self, target: Tensor, source: Encoded, state: State | None = None, last: bool = False) -> Tensor:
        """Logits `(B, T, vocabulary)` of what follows each token `(B, T)`."""
        assert state is None or isinstance(state, Pasts)
        seen = self.execution.recording
        if seen is not None:
            seen.start()
        before, count = 0 if state is None else state.length, target.shape[1]
        z = self._placed(target, before)
        # Padding stands at the end, where no token before it looks; the last token of all may look everywhere.
        mask = None
        if count > 1:
            mask = torch.ones(count, before + count, dtype=torch.bool, device=z.device).tril(before)
        for layer, block in enumerate(self.blocks):
            assert isinstance(block, DecoderBlock)
            pasts = (None, None) if state is None else (state.own[layer], state.cross[layer])
            z = block.read(z, source, mask, None if seen is None else seen.blocks.get(layer), *pasts)
        return self.words(self.norm(z[:, -1:] if last else z))

    def start(self) -> Pasts:
        """The state before the first token."""
        return Pasts(self.config.depth)

    def _placed(self, tokens: Tensor, before: int) -> Tensor:
        if before + tokens.shape[1] > self.length:
            raise InputError(f"tokens: found {before + tokens.shape[1]}, the model takes {self.length} at most")
        return self.drop(self.embed(tokens) + self.position[before : before + tokens.shape[1]])
