"""Tokens from the peaks of a signal, found in it or given as a list: where each stands and what it looks like.

A peak's place relative to the others carries what patches of sharp peaks blur: it enters by Fourier features of the
place and of its square (1/d and 1/d² of a diffraction pattern), in units of a peak that the signal itself provides.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.errors import InputError
from vitreous.nn.tokens import Contents, Tokens, check_batch

REFERENCE = 20
"""The peak whose place is the unit, or the last one where there are fewer."""
_SMOOTH = 1.5  # deviation of the smoothing, in samples
_FLOOR = 101  # samples of the window in which the background is found
_APART = 5  # samples within which a peak is the highest
_WINDOW = 15  # samples that show a peak's shape
_WAVES = 32  # Fourier features of each kind
_FINEST = 256.0  # waves within the unit


def _waves() -> Tensor:
    return torch.logspace(-1, math.log2(_FINEST), _WAVES, base=2.0)


def _fourier(place: Tensor, waves: Tensor) -> Tensor:
    """Sines and cosines of places and of their squares, `(B, N) -> (B, N, 4 · waves)`."""
    phases = [2 * math.pi * p[..., None] * waves.to(p) for p in (place, place.square())]
    return torch.cat([f(phase) for phase in phases for f in (torch.sin, torch.cos)], dim=-1)


class LineTokenizer(nn.Module):
    """A list of lines `(B, rows, N)`, each a token.

    The first row holds their places, of the order of 1 (`REFERENCE` lines from the origin is a good unit), and 0 where
    there is no line; further rows hold numbers about each line. Absent lines are masked.

    Args:
        rows: numbers of a line.
        most: the largest number of lines.
    """

    waves: Tensor

    def __init__(self, rows: int, most: int, dim: int, norm: bool = False, eps: float = 1e-6) -> None:
        super().__init__()
        self.rows, self.most = rows, most
        self.register_buffer("waves", _waves(), persistent=False)
        self.project = nn.Linear(4 * _WAVES + rows, dim)
        self.norm = nn.LayerNorm(dim, eps) if norm else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tokens:
        """`x`: `(B, rows, N)`."""
        check_batch(x, (self.rows, self.most), self.project.weight)
        if mask is not None or coords is not None:
            raise InputError("mask, coords: a list of lines holds its own; only sets and grids are told of them")
        with torch.autocast(x.device.type, enabled=False):  # a place has more digits than bfloat16
            place = x[:, 0].float()
            present = place > 0
            features = torch.cat([_fourier(place, self.waves), x.float().mT], dim=-1)
            features = features.masked_fill(~present.unsqueeze(-1), 0.0)
        return Tokens(self.norm(self.project(features.to(x.dtype))), present, place.unsqueeze(-1))

    @property
    def shown(self) -> int:
        """Numbers that a token shows: those of its line."""
        return self.rows

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """The numbers of each line."""
        return Contents(x.mT, x[:, 0] > 0)


class PeakTokenizer(nn.Module):
    """Find the first peaks of a one-channel signal on a uniform axis, and make a token of each.

    A peak is a maximum of the smoothed signal that stands out of the background by more than the noise, both taken
    from the signal. Nothing here is trained but the projection; places are found between the samples.

    Args:
        length: samples of the signal.
        most: tokens; peaks beyond this number, counted from the axis' origin, are left out.
        origin, spacing: coordinate of the first sample and step between samples.
    """

    kernel: Tensor
    waves: Tensor

    def __init__(
        self, length: int, most: int, dim: int, norm: bool = False, origin: float = 0.0, spacing: float = 1.0,
        eps: float = 1e-6,
    ) -> None:  # fmt: skip
        super().__init__()
        self.length, self.most, self.origin, self.spacing = length, most, origin, spacing
        reach = math.ceil(3 * _SMOOTH)
        kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / _SMOOTH) ** 2)
        self.register_buffer("kernel", (kernel / kernel.sum())[None, None], persistent=False)
        self.register_buffer("waves", _waves(), persistent=False)
        self.project = nn.Linear(4 * _WAVES + _WINDOW + 5, dim)
        self.norm = nn.LayerNorm(dim, eps) if norm else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tokens:
        """`x`: `(B, 1, length)`."""
        check_batch(x, (1, self.length), self.project.weight)
        if mask is not None or coords is not None:
            raise InputError("mask, coords: peaks are found in the signal; only sets and grids are told of them")
        with torch.autocast(x.device.type, enabled=False):  # a place has more digits than bfloat16
            features, present, place = self._peaks(x.float())
        values = self.norm(self.project(features.to(x.dtype)))
        return Tokens(values, present, place.unsqueeze(-1))

    @property
    def shown(self) -> int:
        """Numbers that a token shows: its peak's shape, relative place, and logarithms of height and sharpness."""
        return _WINDOW + 3

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """What each peak looks like and where it stands in units of the reference peak, which is known of all."""
        with torch.autocast(x.device.type, enabled=False):
            features, present, _ = self._peaks(x.float())
        return Contents(features[..., 4 * _WAVES : 4 * _WAVES + self.shown], present)

    @torch.no_grad()
    def _peaks(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features `(B, N, F)`, which of them are peaks `(B, N)`, and their coordinates `(B, N)`."""
        smooth = F.conv1d(F.pad(x, (self.kernel.shape[-1] // 2,) * 2, mode="replicate"), self.kernel.to(x))[:, 0]
        half = _FLOOR // 2
        padded = F.pad(smooth, (half, half), mode="replicate")
        low = -F.max_pool1d(-padded, _FLOOR, 1)
        floor = F.max_pool1d(F.pad(low, (half, half), mode="replicate"), _FLOOR, 1)
        height = smooth - floor
        rough = (x[:, 0, 1:-1] - 0.5 * (x[:, 0, 2:] + x[:, 0, :-2])).abs()
        noise = rough.median(dim=1, keepdim=True).values * (1.4826 / math.sqrt(1.5))
        top = F.max_pool1d(F.pad(smooth, (_APART // 2,) * 2, value=-math.inf), _APART, 1)
        index = torch.arange(self.length, device=x.device)
        inner = (index >= 1) & (index < self.length - 1)
        rises = F.pad(smooth.diff(dim=1) > 0, (1, 0))  # of equal neighbours the first
        found = (smooth == top) & rises & (height > 3 * noise + 0.03 * height.amax(1, keepdim=True)) & inner
        first = torch.where(found, index, self.length).topk(self.most, dim=1, largest=False).values  # (B, N), ascending
        present = first < self.length
        at = first.clamp(max=self.length - 2)
        before, here, after = (smooth.gather(1, at + step) for step in (-1, 0, 1))
        curvature = (2 * here - before - after).clamp(min=1e-9)
        offset = (0.5 * (after - before) / curvature).clamp(-1, 1)
        place = self.origin + self.spacing * (at + offset)
        return self._features(smooth, floor, at, present, place, curvature), present, place

    def _features(
        self, smooth: Tensor, floor: Tensor, at: Tensor, present: Tensor, place: Tensor, curvature: Tensor
    ) -> Tensor:
        count = present.sum(1, keepdim=True)
        unit = place.gather(1, (count - 1).clamp(0, min(REFERENCE, self.most) - 1))
        ratio = place / unit.clamp(min=1e-6)
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
        features = torch.cat([_fourier(ratio, self.waves), shape, rest], dim=-1)
        return features.masked_fill(~present.unsqueeze(-1), 0.0)
