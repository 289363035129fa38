"""The elements of a set as tokens (S2.8, S2.10)."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.nn.tokens.base import (
    Contents,
    Tokenizer,
    TokenizerConfig,
    Tokens,
    check_elements,
    check_mask,
    check_unordered,
    format_shape,
)

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig


@dataclass(frozen=True)
class SetTokens(TokenizerConfig):
    """Elements with features and coordinates, in any number up to a maximum.

    The model's `input` is `(features, largest number of elements)`; forward takes coordinates and mask as arguments.
    """

    kind: ClassVar[str] = "set"
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
        check_unordered(c)
        return replace(self, **self._scales(self.axes, c))

    def build(self, c: "ViTConfig") -> Tokenizer:
        return SetTokenizer(c.input[0], c.input[1], self.axes, c.dim, c.embed_norm, c.eps)


class SetTokenizer(Tokenizer):
    """A linear projection of each element's features.

    Args:
        features: features of an element.
        most: the largest number of elements.
        axes: coordinates of an element.
    """

    located_by = "coords"

    def __init__(
        self,
        features: int,
        most: int,
        axes: int,
        dim: int,
        norm: bool = False,
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        self.features, self.most, self.axes, self.shape = features, most, axes, (most,)
        self.project: nn.Module = nn.Linear(features, dim)
        self.norm = nn.LayerNorm(dim, eps) if norm else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tokens:
        """`x`: `(B, features, N)`; `mask`: `(B, N)`, False for missing elements; `coords`: `(B, N, axes)`."""
        check_elements(x, self.features, self.most, next(self.parameters()))
        batch, _, count = x.shape
        if coords is None and not self.axes:
            coords = x.new_zeros(batch, count, 0)
        if coords is None or tuple(coords.shape) != (batch, count, self.axes):
            shape = "none" if coords is None else f"shape {format_shape(coords.shape)}"
            raise InputError(f"coords: found {shape}, expected shape {format_shape((batch, count, self.axes))}")
        coords = coords.to(torch.promote_types(coords.dtype, torch.float32))  # half precision would round
        if mask is not None:
            check_mask(mask, (batch, count))
            x = x.masked_fill(~mask.unsqueeze(1), 0.0)
            coords = coords.masked_fill(~mask.unsqueeze(2), 0.0)
        return Tokens(self.norm(self.project(x.mT)), mask, coords)

    @property
    def shown(self) -> int:
        """Features of an element."""
        return self.features

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """The features of each element."""
        return Contents(x.mT, mask)
