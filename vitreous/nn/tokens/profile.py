"""Peaks of a spectrum beside its patches: positions to a fraction of a sample, and the whole profile."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.nn.tokens.base import Contents, Tokenizer, Tokens
from vitreous.nn.tokens.lines import PeakTokenizer, PeakTokens
from vitreous.nn.tokens.patches import PatchTokenizer

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig


class ProfileTokenizer(Tokenizer):
    """The tokens of `PeakTokenizer`, then those of `PatchTokenizer` with learned positions along the axis.

    Peaks say precisely where lines are, but only the clear ones; patches also show what noise nearly hides.
    """

    ranked = True

    def __init__(self, c: "ViTConfig") -> None:
        super().__init__()
        self.peaks = PeakTokenizer(c)
        self.patches = PatchTokenizer(c)
        count = self.patches.most
        self.place = nn.Parameter(torch.empty(1, count, c.dim).normal_(std=0.02))
        self.norm = nn.Identity()  # the tokens are joined here; both parts are normalised already
        self.shape, self.shown = (c.peaks + count,), max(self.peaks.shown, self.patches.shown)

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tokens:
        """`x`: a spectrum `(B, 1, samples)`."""
        peaks = self.peaks(x, mask, coords)
        patches = self.patches(x)
        assert peaks.mask is not None  # there may be fewer peaks than tokens
        values = self.norm(torch.cat([peaks.values, patches.values + self.place], dim=1))
        present = torch.cat([peaks.mask, peaks.mask.new_ones(x.shape[0], self.patches.most)], dim=1)
        along = patches.coords.to(peaks.coords).expand(x.shape[0], -1, -1)
        return Tokens(values, present, torch.cat([peaks.coords, along], dim=1))

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """Shapes of the peaks, then samples of the patches; zeros fill the shorter ones."""
        parts = self.peaks.contents(x), self.patches.contents(x)
        values = [nn.functional.pad(part.values, (0, self.shown - part.values.shape[-1])) for part in parts]
        assert parts[0].mask is not None
        present = torch.cat([parts[0].mask, parts[0].mask.new_ones(x.shape[0], self.patches.most)], dim=1)
        return Contents(torch.cat(values, dim=1), present)


@dataclass(frozen=True)
class ProfileTokens(PeakTokens):
    """Peaks and patches of a one-channel spectrum. The model's `input` is `(1, samples)`."""

    kind: ClassVar[str] = "profile"
    builds: ClassVar[type[Tokenizer]] = ProfileTokenizer
    patch: tuple[int, ...] = ()
    """Samples of a patch."""
    stride: tuple[int, ...] = ()
    """Samples between neighbouring patches; the patch itself by default. Patches overlap if it is smaller."""
    stem: tuple[int, ...] = ()
    """Widths of convolutions before the patches; each halves the grid."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(1, "patch", "stride", "stem")

    def complete(self, c: "ViTConfig") -> Self:
        complete = super().complete(c)
        patch = self._spread("patch", 1, c)
        stride = self._spread("stride", 1, c) if self.stride else patch
        if not 1 <= patch[0] <= c.input[1] or not 1 <= stride[0] <= patch[0]:
            raise InputError(f"patch: found {patch} and stride {stride} for {c.input[1]} samples")
        shrink = 2 ** len(self.stem)
        if patch[0] % shrink or stride[0] % shrink:
            raise InputError(f"stem: {len(self.stem)} halvings need patch and stride to be multiples of {shrink}")
        return replace(complete, patch=patch, stride=stride)
