"""The peaks of a spectrum as tokens: position and shape of each.

Positions are in units of a peak of the spectrum itself, so that they do not depend on the scale of the axis.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import torch
import torch.nn.functional as F
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
from vitreous.nn.tokens.lines import REFERENCE, WAVES, fourier_features, fourier_frequencies

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig

_SMOOTH = 1.5  # standard deviation of the smoothing, in samples
_FLOOR = 101  # samples of the window for the background
_APART = 5  # samples within which a peak is the maximum
_WINDOW = 15  # samples that show the shape of a peak
_FEWEST = 200  # samples of a spectrum


@dataclass(frozen=True)
class PeakTokens(TokenizerConfig):
    """The peaks of a one-channel spectrum. The model's `input` is `(1, samples)`."""

    kind: ClassVar[str] = "peaks"
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
        check_self_located(c)
        if any(step < 0 for step in self.spacing):
            raise InputError(f"spacing: found {self.spacing}, peaks need a rising axis")
        return replace(self, **self._scales(1, c))

    def build(self, c: "ViTConfig") -> Tokenizer:
        origin, spacing = (self.origin or (0.0,))[0], (self.spacing or (1.0,))[0]
        return PeakTokenizer(c.input[1], self.peaks, c.dim, c.embed_norm, origin, spacing, c.eps)


class PeakTokenizer(Tokenizer):
    """Detect the first peaks of a one-channel spectrum on a uniform axis and make a token of each.

    A peak is a maximum of the smoothed spectrum that exceeds the background by more than the noise; both are estimated
    from the spectrum. Only the projection is trained. Positions are interpolated between samples.

    Args:
        length: samples of the spectrum.
        most: largest number of tokens; peaks beyond this number, counted from the start of the axis, are left out.
        origin, spacing: coordinate of the first sample and step between samples.
    """

    kernel: Tensor
    waves: Tensor

    def __init__(
        self, length: int, most: int, dim: int, norm: bool = False, origin: float = 0.0, spacing: float = 1.0,
        eps: float = 1e-6,
    ) -> None:  # fmt: skip
        super().__init__()
        self.length, self.most, self.shape, self.origin, self.spacing = length, most, (most,), origin, spacing
        reach = math.ceil(3 * _SMOOTH)
        kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / _SMOOTH) ** 2)
        self.register_buffer("kernel", (kernel / kernel.sum())[None, None], persistent=False)
        self.register_buffer("waves", fourier_frequencies(), persistent=False)
        self.project = nn.Linear(4 * WAVES + _WINDOW + 5, dim)
        self.norm = nn.LayerNorm(dim, eps) if norm else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tokens:
        """`x`: `(B, 1, length)`."""
        check_batch(x, (1, self.length), self.project.weight)
        check_alone(mask, coords, "peaks are detected in the spectrum")
        with torch.autocast(x.device.type, enabled=False):  # bfloat16 has too few digits for positions
            features, present, position = self.detect(x.float())
        values = self.norm(self.project(features.to(x.dtype)))
        return Tokens(values, present, position.unsqueeze(-1))

    @property
    def shown(self) -> int:
        """Shape of the peak, relative position, and logarithms of height and sharpness."""
        return _WINDOW + 3

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """Shape and position of each peak, in units of the reference peak, which is not hidden."""
        with torch.autocast(x.device.type, enabled=False):
            features, present, _ = self.detect(x.float())
        return Contents(features[..., 4 * WAVES : 4 * WAVES + self.shown], present)

    @torch.no_grad()
    def detect(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features `(B, N, F)`, which tokens are peaks `(B, N)`, and their coordinates `(B, N)`."""
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
        return self._features(smooth, floor, at, present, position, curvature), present, position

    def _features(
        self, smooth: Tensor, floor: Tensor, at: Tensor, present: Tensor, position: Tensor, curvature: Tensor
    ) -> Tensor:
        count = present.sum(1, keepdim=True)
        unit = position.gather(1, (count - 1).clamp(0, min(REFERENCE, self.most) - 1))
        ratio = position / unit.clamp(min=1e-6)
        base = floor.gather(1, at)
        height = (smooth.gather(1, at) - base).clamp(min=1e-6)
        reach = _WINDOW // 2
        around = (at[..., None] + torch.arange(-reach, reach + 1, device=at.device)).clamp(0, self.length - 1)
        shape = (smooth.gather(1, around.flatten(1)).view_as(around) - base[..., None]) / height[..., None]
        rest = torch.stack(
            [
                ratio,
                height.log(),
                (curvature / height).clamp(min=1e-4).log(),
                unit.abs().clamp(min=1e-6).log().expand_as(ratio),
                (count / self.most).to(ratio.dtype).expand_as(ratio),
            ],
            dim=-1,
        )
        features = torch.cat([fourier_features(ratio, self.waves), shape, rest], dim=-1)
        return features.masked_fill(~present.unsqueeze(-1), 0.0)
