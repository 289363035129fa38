"""Recurrent attention (S2.1): a GRU reads, a GRU writes, and c_i = Σ_j α_ij h_j tells the writer where to look (S2.2).

The attention asks with the state of the decoder's first layer, and the layers above go on with its answer. So in
training every layer runs over the whole sentence at once, and so does the attention.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.nn.attention import weigh
from vitreous.nn.attention.cache import Hidden, State
from vitreous.nn.attention.scores import SCORES, logits
from vitreous.nn.record import Reduced, Sink, keep
from vitreous.text.transformer import PAD, Encoded, Seq2Seq, Seq2SeqConfig


@dataclass(frozen=True)
class RecurrentConfig(Seq2SeqConfig):
    """A GRU encoder–decoder with attention; the two directions of the encoder share the width.

    >>> RecurrentConfig(vocabulary=8000, score="additive").dim
    512
    """

    kind: ClassVar[str] = "recurrent"
    dim: int = 512
    depth: int = 2
    score: str = "additive"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % 2:
            raise InputError(f"dim: found {self.dim}, expected an even number, which two directions can share")


class Alignment(nn.Module):
    """α_ij = softmax_j score(s_i, h_j) and c_i = Σ_j α_ij h_j, with any score of S2.2."""

    def __init__(self, dim: int, score: str, keys: int) -> None:
        super().__init__()
        self._score = SCORES[score].function
        self.score = nn.ParameterDict(SCORES[score].weights(1, dim, keys))

    def forward(self, states: Tensor, source: Encoded, seen: Sink) -> Tensor:
        """States `(B, T, D)` to contexts `(B, T, D)`; `seen` keeps the weights `(B, 1, T, S)` as `cross`."""
        keys = source.values.unsqueeze(1).to(states.dtype)  # one head: (B, 1, S, D)
        scores = logits(self._score(states.unsqueeze(1), keys, self.score))
        weights = weigh(scores, source.mask[:, None, None], None)
        if not isinstance(seen, Reduced):
            keep(seen, "cross", weights)
        elif seen.reduce is not None:
            keep(seen, "cross", seen.reduce(weights))
        return (weights.to(keys.dtype) @ keys).squeeze(1)


class Recurrent(Seq2Seq):
    """GRU encoder in two directions, GRU decoder, attention between them.

    >>> model = Recurrent(RecurrentConfig(vocabulary=50, dim=32))
    >>> model(torch.randint(4, 50, (3, 2, 7))).shape
    torch.Size([3, 7, 50])
    """

    def __init__(self, config: RecurrentConfig) -> None:
        c = self.config = config
        super().__init__(c.vocabulary, c.dim, c.length, c.dropout)
        self.forwards, self.backwards = (
            nn.ModuleList(nn.GRU(c.dim, c.dim // 2, batch_first=True) for _ in range(c.depth)) for _ in range(2)
        )
        self.begin = nn.Linear(c.dim, c.depth * c.dim)
        self.writer = nn.GRU(c.dim, c.dim, batch_first=True)
        self.upper = nn.ModuleList(nn.GRU(2 * c.dim, c.dim, batch_first=True) for _ in range(c.depth - 1))
        self.blocks = nn.ModuleList([Alignment(c.dim, c.score, c.length)])
        self.readout = nn.Linear(2 * c.dim, c.dim)

    def encode(self, source: Tensor) -> Encoded:
        mask = source != PAD
        place = torch.arange(source.shape[1], device=source.device)
        turned = mask.sum(1, keepdim=True) - 1 - place  # the last token first
        turned = torch.where(turned < 0, place, turned).unsqueeze(-1)  # and the padding where it was
        z = self.drop(self.embed(source))
        for layer, (there, back) in enumerate(zip(self.forwards, self.backwards, strict=True)):
            flipped = z.gather(1, turned.expand(-1, -1, z.shape[2]))
            returned = _run(back, flipped, None)[0]
            both = [_run(there, z, None)[0], returned.gather(1, turned.expand(-1, -1, returned.shape[2]))]
            z = self.drop(torch.cat(both, dim=-1)) + (z if layer else 0.0)
        return Encoded(z, mask)

    def decode(self, target: Tensor, source: Encoded, state: State | None = None, last: bool = False) -> Tensor:
        hidden = self.start() if state is None else state
        assert isinstance(hidden, Hidden)
        sinks = self.start_record()
        if hidden.values[0] is None:
            hidden.values = list(self._begin(source).unsqueeze(1).unbind(0))
        z, hidden.values[0] = _run(self.writer, self.drop(self.embed(target)), hidden.values[0])
        context = self.blocks[0](z, source, sinks.get(0))
        for layer, gru in enumerate(self.upper, start=1):
            more, hidden.values[layer] = _run(gru, self.drop(torch.cat([z, context], dim=-1)), hidden.values[layer])
            z = z + more
        z = torch.cat([z, context], dim=-1)
        return self.words(self.drop(torch.tanh(self.readout(z[:, -1:] if last else z))))

    def start(self) -> Hidden:
        return Hidden(self.config.depth)

    def _begin(self, source: Encoded) -> Tensor:
        """What the decoder's layers start from: `(layers, B, D)`, of the mean of the source."""
        weight = source.mask.unsqueeze(-1).to(source.values.dtype)
        mean = (source.values * weight).sum(1) / weight.sum(1).clamp(min=1)
        layers: Tensor = self.begin(mean).tanh().unflatten(-1, (self.config.depth, -1))
        return layers.movedim(1, 0)


def _run(gru: Callable[..., tuple[Tensor, Tensor]], x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """A GRU in single precision: a sum over many steps wants the digits."""
    with torch.autocast(x.device.type, enabled=False):
        return gru(x.float(), None if state is None else state.float().contiguous())
