"""Interpolation of learned positions from one grid to another."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def resample(table: Tensor, old: Sequence[int], new: Sequence[int], prefix: int) -> Tensor:
    """Interpolate a table `(1, prefix + N, D)` from the grid `old` to the grid `new`; prefix rows stay."""
    if tuple(old) == tuple(new):
        return table
    grid = table[:, prefix:].float().unflatten(1, tuple(old)).movedim(-1, 1)  # (1, D, *old)
    rows = resize(grid, new).flatten(2).mT.to(table.dtype)  # (1, N, D)
    return torch.cat([table[:, :prefix], rows], dim=1)


def resize(x: Tensor, size: Sequence[int]) -> Tensor:
    """`(B, C, *grid) -> (B, C, *size)`: bicubic with antialiasing along one or two axes, trilinear along three."""
    if len(size) == 3:
        return F.interpolate(x, size=tuple(size), mode="trilinear")
    if len(size) == 1:  # an image of height one
        return resize(x.unsqueeze(2), (1, *size)).squeeze(2)
    return F.interpolate(x, size=tuple(size), mode="bicubic", antialias=True)
