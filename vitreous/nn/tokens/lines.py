"""Spectral lines as tokens: those of a list, and the peaks of a spectrum.

The position of a line enters by Fourier features of itself and of its square (1/d and 1/d² of a diffraction pattern),
which keep the precision that patches of sharp peaks lose.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.nn.tokens import base
from vitreous.nn.tokens.base import Contents, Tokenizer, TokenizerConfig, Tokens

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig

REFERENCE = 20
"""The line whose position is the unit of length, or the last one if there are fewer."""
_WAVES = 32  # frequencies of the Fourier features
_FINEST = 256.0  # highest frequency, in periods within the unit
_SMOOTH = 1.5  # standard deviation of the smoothing, in samples
_FLOOR = 101  # samples of the window for the background
_APART = 5  # samples within which a peak is the maximum
_WINDOW = 15  # samples that show the shape of a peak
_FEWEST = 200  # samples of a spectrum


class LocatedTokenizer(Tokenizer):
    """Base class of tokenizers whose tokens contain their position.

    Args:
        most: the largest number of tokens.
        numbers: numbers of a token besides the Fourier features of its position.
    """

    ranked = True
    waves: Tensor
    source: ClassVar[str]
    """Where mask and coordinates come from, for an error message."""

    def __init__(self, c: "ViTConfig", most: int, numbers: int) -> None:
        super().__init__()
        self.input, self.shape = c.input, (most,)
        self.register_buffer("waves", torch.logspace(-1, math.log2(_FINEST), _WAVES, base=2.0), persistent=False)
        self.project = nn.Linear(4 * _WAVES + numbers, c.dim)
        self.norm = nn.LayerNorm(c.dim, c.eps) if c.embed_norm else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tokens:
        """`x`: a list `(B, rows, N)` or a spectrum `(B, 1, samples)`."""
        base.check_batch(x, self.input, self.project.weight)
        base.check_alone(mask, coords, self.source)
        with torch.autocast(x.device.type, enabled=False):  # bfloat16 has too few digits for positions
            features, present, position = self.detect(x.float())
        return Tokens(self.norm(self.project(features.to(x.dtype))), present, position.unsqueeze(-1))

    def detect(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features `(B, N, F)`, which tokens are present `(B, N)`, and their coordinates `(B, N)`."""
        raise NotImplementedError

    def _features(self, position: Tensor, numbers: Tensor, present: Tensor) -> Tensor:
        """Sines and cosines of positions `(B, N)` and of their squares, then the other numbers; 0 if not present."""
        phases = [2 * math.pi * p[..., None] * self.waves.to(p) for p in (position, position.square())]
        waves = torch.cat([f(phase) for phase in phases for f in (torch.sin, torch.cos)], dim=-1)
        return torch.cat([waves, numbers], dim=-1).masked_fill(~present.unsqueeze(-1), 0.0)


class LineTokenizer(LocatedTokenizer):
    """Each line of a list `(B, rows, N)` is a token.

    The first row holds positions of the order of 1 (the position of line `REFERENCE` is a good unit), and 0 for missing
    lines, which are masked. The other rows hold further numbers about each line.
    """

    source = "a list of lines contains its own"

    def __init__(self, c: "ViTConfig") -> None:
        super().__init__(c, c.input[1], c.input[0])
        self.shown = c.input[0]

    def detect(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        position = x[:, 0]
        present = position > 0
        return self._features(position, x.mT, present), present, position

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """The numbers of each line."""
        return Contents(x.mT, x[:, 0] > 0)


@dataclass(frozen=True)
class LineTokens(TokenizerConfig):
    """A list of lines. The model's `input` is `(numbers of a line, largest number of lines)`."""

    kind: ClassVar[str] = "lines"
    zero_is_missing: ClassVar[bool] = True
    searches: ClassVar[bool] = True
    builds: ClassVar[type[Tokenizer]] = LineTokenizer

    def complete(self, c: "ViTConfig") -> Self:
        if len(c.input) != 2:
            raise InputError(f"input: found {c.input}, a list expects (numbers of a line, largest number of lines)")
        base.check_self_located(c)
        return self


class PeakTokenizer(LocatedTokenizer):
    """Detect the first peaks of a one-channel spectrum on a uniform axis and make a token of each.

    A peak is a maximum of the smoothed spectrum that exceeds the background by more than the noise; both are estimated
    from the spectrum. Only the projection is trained. Positions are interpolated between samples; in the features, they
    are in units of a peak of the spectrum itself, so that they do not depend on the scale of the axis. Peaks beyond the
    largest number of tokens, counted from the start of the axis, are left out.
    """

    source = "peaks are detected in the spectrum"
    shown = _WINDOW + 3
    """Shape of the peak, relative position, and logarithms of height and sharpness."""
    kernel: Tensor

    def __init__(self, c: "ViTConfig") -> None:
        super().__init__(c, c.peaks, _WINDOW + 5)
        (self.length,) = c.grid
        (self.origin,), (self.spacing,) = c.origin or (0.0,), c.spacing or (1.0,)
        reach = math.ceil(3 * _SMOOTH)
        kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / _SMOOTH) ** 2)
        self.register_buffer("kernel", (kernel / kernel.sum())[None, None], persistent=False)

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """Shape and position of each peak, in units of the reference peak, which is not hidden."""
        with torch.autocast(x.device.type, enabled=False):
            features, present, _ = self.detect(x.float())
        return Contents(features[..., 4 * _WAVES : 4 * _WAVES + self.shown], present)

    @torch.no_grad()
    def detect(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        smooth = F.conv1d(F.pad(x, (self.kernel.shape[-1] // 2,) * 2, mode="replicate"), self.kernel.to(x))[:, 0]
        half = _FLOOR // 2
        padded = F.pad(smooth, (half, half), mode="replicate")
        low = -F.max_pool1d(-padded, _FLOOR, 1)
        floor = F.max_pool1d(F.pad(low, (half, half), mode="replicate"), _FLOOR, 1)
        height = smooth - floor
        rough = (x[:, 0, 1:-1] - 0.5 * (x[:, 0, 2:] + x[:, 0, :-2])).abs()
        noise = rough.median(dim=1, keepdim=True).values * (1.4826 / math.sqrt(1.5))
        highest = F.max_pool1d(F.pad(smooth, (_APART // 2,) * 2, value=-math.inf), _APART, 1)
        index = torch.arange(self.length, device=x.device)
        inner = (index >= 1) & (index < self.length - 1)
        rises = F.pad(smooth.diff(dim=1) > 0, (1, 0))  # the first of equal neighbours
        high = height > 3 * noise + 0.03 * height.amax(1, keepdim=True)
        peaks = (smooth == highest) & rises & high & inner
        first = torch.where(peaks, index, self.length).topk(self.most, dim=1, largest=False).values  # (B, N), ascending
        present = first < self.length
        at = first.clamp(max=self.length - 2)
        before, here, after = (smooth.gather(1, at + step) for step in (-1, 0, 1))
        curvature = (2 * here - before - after).clamp(min=1e-9)
        offset = (0.5 * (after - before) / curvature).clamp(-1, 1)
        position = self.origin + self.spacing * (at + offset)
        count = present.sum(1, keepdim=True)
        unit = position.gather(1, (count - 1).clamp(0, min(REFERENCE, self.most) - 1))
        ratio = position / unit.clamp(min=1e-6)
        numbers = self._shapes(smooth, floor.gather(1, at), at, curvature, ratio)
        scale = unit.abs().clamp(min=1e-6).log().expand_as(ratio)
        share = (count / self.most).to(ratio.dtype).expand_as(ratio)
        numbers = torch.cat([numbers, torch.stack([scale, share], dim=-1)], dim=-1)
        return self._features(ratio, numbers, present), present, position

    def _shapes(self, smooth: Tensor, base: Tensor, at: Tensor, curvature: Tensor, ratio: Tensor) -> Tensor:
        """The samples around each peak, its relative position, and logarithms of height and sharpness."""
        height = (smooth.gather(1, at) - base).clamp(min=1e-6)
        reach = _WINDOW // 2
        around = (at[..., None] + torch.arange(-reach, reach + 1, device=at.device)).clamp(0, self.length - 1)
        shape = (smooth.gather(1, around.flatten(1)).view_as(around) - base[..., None]) / height[..., None]
        sharpness = (curvature / height).clamp(min=1e-4).log()
        return torch.cat([shape, torch.stack([ratio, height.log(), sharpness], dim=-1)], dim=-1)


@dataclass(frozen=True)
class PeakTokens(TokenizerConfig):
    """The peaks of a one-channel spectrum. The model's `input` is `(1, samples)`."""

    kind: ClassVar[str] = "peaks"
    searches: ClassVar[bool] = True
    builds: ClassVar[type[Tokenizer]] = PeakTokenizer
    peaks: int = 0
    """The largest number of peaks."""
    origin: tuple[float, ...] = ()
    """Coordinate of the first sample, in the units of the input; 0 by default."""
    spacing: tuple[float, ...] = ()
    """Step between samples, in the units of the input; 1 by default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(0, "peaks")

    def complete(self, c: "ViTConfig") -> Self:
        if len(c.input) != 2 or c.input[0] != 1 or c.input[1] < _FEWEST:
            raise InputError(f"input: found {c.input}, peaks need (1, samples) with at least {_FEWEST} samples")
        if not 1 <= self.peaks <= c.input[1]:
            raise InputError(f"peaks: found {self.peaks}, expected their largest number, e.g. 64")
        base.check_self_located(c)
        if any(step < 0 for step in self.spacing):
            raise InputError(f"spacing: found {self.spacing}, peaks need a rising axis")
        return replace(self, **self._scales(1, c))
