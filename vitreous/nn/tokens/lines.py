"""Lists of spectral lines or peaks as tokens.

The position of a line enters by Fourier features of itself and of its square (1/d and 1/d² of a diffraction pattern),
which keep the precision that patches of sharp peaks lose.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.nn.tokens.base import (
    Contents,
    Tokenizer,
    TokenizerConfig,
    Tokens,
    check_alone,
    check_batch,
    check_self_located,
)

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig

REFERENCE = 20
"""The line whose position is the unit of length, or the last one if there are fewer."""
WAVES = 32
"""Frequencies of the Fourier features."""
_FINEST = 256.0  # highest frequency, in periods within the unit


def fourier_frequencies() -> Tensor:
    """Frequencies of the Fourier features, `(WAVES,)`."""
    return torch.logspace(-1, math.log2(_FINEST), WAVES, base=2.0)


def fourier_features(position: Tensor, frequencies: Tensor) -> Tensor:
    """Sines and cosines of positions and of their squares, `(B, N) -> (B, N, 4 · WAVES)`."""
    phases = [2 * math.pi * p[..., None] * frequencies.to(p) for p in (position, position.square())]
    return torch.cat([f(phase) for phase in phases for f in (torch.sin, torch.cos)], dim=-1)


@dataclass(frozen=True)
class LineTokens(TokenizerConfig):
    """A list of lines. The model's `input` is `(numbers of a line, largest number of lines)`."""

    kind: ClassVar[str] = "lines"

    def complete(self, c: "ViTConfig") -> Self:
        if len(c.input) != 2:
            raise InputError(f"input: found {c.input}, a list expects (numbers of a line, largest number of lines)")
        check_self_located(c)
        return self

    def build(self, c: "ViTConfig") -> Tokenizer:
        return LineTokenizer(c.input[0], c.input[1], c.dim, c.embed_norm, c.eps)


class LineTokenizer(Tokenizer):
    """Each line of a list `(B, rows, N)` is a token.

    The first row holds positions of the order of 1 (the position of line `REFERENCE` is a good unit), and 0 for missing
    lines, which are masked. The other rows hold further numbers about each line.

    Args:
        rows: numbers of a line.
        most: the largest number of lines.
    """

    waves: Tensor

    def __init__(self, rows: int, most: int, dim: int, norm: bool = False, eps: float = 1e-6) -> None:
        super().__init__()
        self.rows, self.most, self.shape = rows, most, (most,)
        self.register_buffer("waves", fourier_frequencies(), persistent=False)
        self.project = nn.Linear(4 * WAVES + rows, dim)
        self.norm = nn.LayerNorm(dim, eps) if norm else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tokens:
        """`x`: `(B, rows, N)`."""
        check_batch(x, (self.rows, self.most), self.project.weight)
        check_alone(mask, coords, "a list of lines contains its own")
        with torch.autocast(x.device.type, enabled=False):  # bfloat16 has too few digits for positions
            position = x[:, 0].float()
            present = position > 0
            features = torch.cat([fourier_features(position, self.waves), x.float().mT], dim=-1)
            features = features.masked_fill(~present.unsqueeze(-1), 0.0)
        return Tokens(self.norm(self.project(features.to(x.dtype))), present, position.unsqueeze(-1))

    @property
    def shown(self) -> int:
        """Numbers of a line."""
        return self.rows

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """The numbers of each line."""
        return Contents(x.mT, x[:, 0] > 0)
