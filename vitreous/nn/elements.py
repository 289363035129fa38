"""Sets that hold all their own (S2.8, S2.10): each element's features, where it is, and whether it is there."""

import torch
from torch import Tensor

from vitreous.errors import InputError
from vitreous.nn.tokens import Contents, SetTokenizer, Tokens, check_elements


class PackedTokenizer(SetTokenizer):
    """A set in one array `(B, features + axes, N)`: the last rows are coordinates, an element of zeros is missing.

    Args:
        rows: numbers of an element, features and coordinates together.
        most: the largest number of elements.
        axes: coordinates of an element.
    """

    def __init__(self, rows: int, most: int, axes: int, dim: int, norm: bool = False, eps: float = 1e-6) -> None:
        super().__init__(rows - axes, most, axes, dim, norm, eps)
        self.rows = rows

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tokens:
        """`x`: `(B, features + axes, N)`."""
        if mask is not None or coords is not None:
            raise InputError("mask, coords: a packed set holds its own; only sets and grids are told of them")
        check_elements(x, self.rows, self.most, self.project.weight)
        return super().forward(x[:, : self.features], there(x), x[:, self.features :].mT)

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """The features of each element; where it is counts as known."""
        return Contents(x[:, : self.features].mT, there(x), x[:, self.features :].mT)


def there(x: Tensor) -> Tensor:
    """Which elements of packed sets `(B, rows, N)` there are, `(B, N)`."""
    return torch.any(x != 0, dim=1)
