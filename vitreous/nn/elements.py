"""Sets that hold all their own (S2.8, S2.10): each element's features, where it is, and whether it is there."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vitreous.errors import InputError
from vitreous.nn.tokens import Contents, SetTokenizer, Tokens, check_elements
from vitreous.nn.traces import Traces


class PackedTokenizer(SetTokenizer):
    """A set in one array `(B, features + axes, N)`: the last rows are coordinates, an element of zeros is missing.

    Args:
        rows: numbers of an element, features and coordinates together.
        most: the largest number of elements.
        axes: coordinates of an element.
        stem: widths of convolutions along the trace that an element's first features are; none where they are no trace.
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
            self.project = Recorded(rows - axes, samples or rows - axes, stem, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tokens:
        """`x`: `(B, features + axes, N)`."""
        if mask is not None or coords is not None:
            raise InputError("mask, coords: a packed set holds its own; only sets and grids are told of them")
        check_elements(x, self.rows, self.most, next(self.parameters()))
        return super().forward(x[:, : self.features], there(x), x[:, self.features :].mT)

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """The features of each element; where it is counts as known."""
        return Contents(x[:, : self.features].mT, there(x), x[:, self.features :].mT)


class Recorded(nn.Module):
    """Elements that have recorded a trace, and perhaps more: `(B, N, features) -> (B, N, dim)`.

    What is left of the trace after its convolutions and the other features are projected together.
    """

    def __init__(self, features: int, samples: int, widths: Sequence[int], dim: int) -> None:
        super().__init__()
        self.samples = samples
        self.traces = Traces(samples, widths, dim)
        self.others = nn.Linear(features - samples, dim, bias=False) if features > samples else None

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.traces(x[..., : self.samples])
        return found if self.others is None else found + self.others(x[..., self.samples :])


def there(x: Tensor) -> Tensor:
    """Which elements of packed sets `(B, rows, N)` there are, `(B, N)`."""
    return torch.any(x != 0, dim=1)
