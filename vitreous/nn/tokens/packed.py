"""Sets in one array, which holds features, coordinates and the mask of the elements (S2.8, S2.10)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.nn.tokens.base import Contents, Tokenizer, Tokens, check_alone, check_elements
from vitreous.nn.tokens.sets import SetTokenizer, SetTokens
from vitreous.nn.tokens.traces import Traces

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig


@dataclass(frozen=True)
class PackedTokens(SetTokens):
    """A set in one array: the last rows are the coordinates, and an element of zeros is missing.

    The model's `input` is `(features + axes, largest number of elements)`.
    """

    kind: ClassVar[str] = "packed"
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

    def build(self, c: "ViTConfig") -> Tokenizer:
        rows, most = c.input
        return PackedTokenizer(rows, most, self.axes, c.dim, c.embed_norm, c.eps, self.stem, self.samples)


class PackedTokenizer(SetTokenizer):
    """A set in one array `(B, features + axes, N)`.

    Args:
        rows: numbers of an element, features and coordinates together.
        most: the largest number of elements.
        axes: coordinates of an element.
        stem: widths of convolutions along the trace that the first features are; none if there is no trace.
        samples: features that are the trace; 0 for all.
    """

    def __init__(
        self,
        rows: int,
        most: int,
        axes: int,
        dim: int,
        norm: bool = False,
        eps: float = 1e-6,
        stem: Sequence[int] = (),
        samples: int = 0,
    ) -> None:
        super().__init__(rows - axes, most, axes, dim, norm, eps)
        self.rows = rows
        if stem:
            self.project = TraceProjection(rows - axes, samples or rows - axes, stem, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tokens:
        """`x`: `(B, features + axes, N)`."""
        check_alone(mask, coords, "a packed set contains its own")
        check_elements(x, self.rows, self.most, next(self.parameters()))
        return super().forward(x[:, : self.features], present_elements(x), x[:, self.features :].mT)

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """The features of each element; its coordinates are not hidden."""
        return Contents(x[:, : self.features].mT, present_elements(x), x[:, self.features :].mT)


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


def present_elements(x: Tensor) -> Tensor:
    """Which elements of packed sets `(B, rows, N)` are present, `(B, N)`: those that are not all zero."""
    return torch.any(x != 0, dim=1)
