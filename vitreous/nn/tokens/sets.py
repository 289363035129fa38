"""The elements of a set as tokens (S2.8, S2.10), in separate arrays or packed into one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.nn.tokens import base
from vitreous.nn.tokens.base import Contents, Tokenizer, TokenizerConfig, Tokens

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig


class SetTokenizer(Tokenizer):
    """A linear projection of the features of each element."""

    def __init__(self, c: "ViTConfig") -> None:
        super().__init__()
        rows, most = c.input
        self.features = self.shown = rows - c.axes if c.tokens == "packed" else rows
        self.axes, self.shape = c.axes, (most,)
        self.project: nn.Module = nn.Linear(self.features, c.dim)
        self.norm = nn.LayerNorm(c.dim, c.eps) if c.embed_norm else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tokens:
        """`x`: `(B, features, N)`; `mask`: `(B, N)`, False for missing elements; `coords`: `(B, N, axes)`."""
        base.check_elements(x, self.features, self.most, next(self.parameters()))
        batch, _, count = x.shape
        if coords is None and not self.axes:
            coords = x.new_zeros(batch, count, 0)
        if coords is None or tuple(coords.shape) != (batch, count, self.axes):
            shape = "none" if coords is None else f"shape {base.format_shape(coords.shape)}"
            raise InputError(f"coords: found {shape}, expected shape {base.format_shape((batch, count, self.axes))}")
        coords = coords.to(torch.promote_types(coords.dtype, torch.float32))  # half precision would round
        if mask is not None:
            base.check_mask(mask, (batch, count))
            x = x.masked_fill(~mask.unsqueeze(1), 0.0)
            coords = coords.masked_fill(~mask.unsqueeze(2), 0.0)
        return Tokens(self.norm(self.project(x.mT)), mask, coords)

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """The features of each element."""
        return Contents(x.mT, mask)


@dataclass(frozen=True)
class SetTokens(TokenizerConfig):
    """Elements with features and coordinates, in any number up to a maximum.

    The model's `input` is `(features, largest number of elements)`; forward takes coordinates and mask as arguments.
    """

    kind: ClassVar[str] = "set"
    is_set: ClassVar[bool] = True
    has_mask: ClassVar[bool] = False
    builds: ClassVar[type[Tokenizer]] = SetTokenizer
    axes: int = 0
    """Coordinates of an element."""
    spacing: tuple[float, ...] = ()
    """Coordinate difference that counts as one position step, for each axis; 1 by default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(0, "axes")

    def complete(self, c: "ViTConfig") -> Self:
        if len(c.input) != 2:
            raise InputError(f"input: found {c.input}, a set expects (features, largest number of elements)")
        if c.position != "none" and not self.axes:
            raise InputError(f"axes: position {c.position!r} needs the number of coordinates, or position='none'")
        base.check_unordered(c)
        return replace(self, **self._scales(self.axes, c))


class PackedTokenizer(SetTokenizer):
    """A set in one array `(B, features + axes, N)`."""

    def __init__(self, c: "ViTConfig") -> None:
        super().__init__(c)
        if c.stem:
            self.project = TraceProjection(self.features, c.samples or self.features, c.stem, c.dim)

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tokens:
        """`x`: `(B, features + axes, N)`."""
        base.check_alone(mask, coords, "a packed set contains its own")
        base.check_elements(x, self.features + self.axes, self.most, next(self.parameters()))
        return super().forward(x[:, : self.features], present_elements(x), x[:, self.features :].mT)

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """The features of each element; its coordinates are not hidden."""
        return Contents(x[:, : self.features].mT, present_elements(x), x[:, self.features :].mT)


def present_elements(x: Tensor) -> Tensor:
    """Which elements of packed sets `(B, rows, N)` are present, `(B, N)`: those that are not all zero."""
    return torch.any(x != 0, dim=1)


@dataclass(frozen=True)
class PackedTokens(SetTokens):
    """A set in one array: the last rows are the coordinates, and an element of zeros is missing.

    The model's `input` is `(features + axes, largest number of elements)`.
    """

    kind: ClassVar[str] = "packed"
    has_mask: ClassVar[bool] = True
    zero_is_missing: ClassVar[bool] = True
    builds: ClassVar[type[Tokenizer]] = PackedTokenizer
    stem: tuple[int, ...] = ()
    """Widths of convolutions along a trace, the first features of an element; each halves it (S2.8)."""
    samples: int = 0
    """With a stem: how many features are the trace; all by default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(1, "stem")
        self._at_least(0, "samples")
        if self.samples and not self.stem:
            raise InputError(f"samples: found {self.samples}, but without a stem no trace is read")

    def complete(self, c: "ViTConfig") -> Self:
        complete = super().complete(c)
        features = c.input[0] - self.axes
        if features < 1:
            raise InputError(f"axes: {self.axes} coordinates leave no features in the rows of input {c.input}")
        if self.samples > features:
            raise InputError(f"samples: found {self.samples}, but an element has {features} features")
        return complete


class TraceProjection(nn.Module):
    """Elements with a recorded trace and perhaps more features: `(B, N, features) -> (B, N, dim)`."""

    def __init__(self, features: int, samples: int, widths: Sequence[int], dim: int) -> None:
        super().__init__()
        self.samples = samples
        self.traces = Traces(samples, widths, dim)
        self.others = nn.Linear(features - samples, dim, bias=False) if features > samples else None

    def forward(self, x: Tensor) -> Tensor:
        encoded: Tensor = self.traces(x[..., : self.samples])
        return encoded if self.others is None else encoded + self.others(x[..., self.samples :])


class Traces(nn.Module):
    """Convolutions along a sampled trace, e.g. the signal of a detector over time, then a linear projection (S2.8).

    Each convolution halves the trace. There is no norm between them, because the amplitude of a trace carries
    information. `widths` are the channels of the convolutions.
    """

    def __init__(self, samples: int, widths: Sequence[int], dim: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for channels, width in zip((1, *widths), widths, strict=False):
            layers += [nn.Conv1d(channels, width, 3, stride=2, padding=1), nn.GELU()]
            samples = -(-samples // 2)
        self.convolutions = nn.Sequential(*layers)
        self.project = nn.Linear(widths[-1] * samples, dim)
        for layer in layers:
            if isinstance(layer, nn.Conv1d):  # keeps the amplitude through many layers (He et al. 2015)
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """`(B, N, samples) -> (B, N, dim)`."""
        z = self.convolutions(x.flatten(0, 1).unsqueeze(1))  # (B * N, 1, samples) -> (B * N, width, fewer)
        encoded: Tensor = self.project(z.flatten(1))
        return encoded.reshape(*x.shape[:2], encoded.shape[-1])
