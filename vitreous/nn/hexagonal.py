"""Convolution on a hexagonal grid (S2.8), stored as an array in axial coordinates.

Rows and columns are steps along two lattice vectors 60° apart. A step along one and back along the other leads to a
neighbour; a step along both does not, so that two corners of a square kernel are empty.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class HexagonalConv(nn.Module):
    """A convolution with a hexagonal kernel: with width 3, a cell and its six neighbours.

    It has no bias and is initialised for ReLU (He et al. 2015).

    Args:
        channels, width: input and output channels.
        kernel: cells across the hexagon; odd.
        stride: steps between outputs along both lattice vectors; the outputs are a hexagonal grid again.
    """

    place: Tensor

    def __init__(self, channels: int, width: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, stride
        step = torch.arange(kernel) - kernel // 2
        inside = (step[:, None] + step).abs() <= kernel // 2  # (kernel, kernel)
        count = int(inside.sum())
        place = torch.full((kernel, kernel), count)  # index of the padding zero
        place[inside] = torch.arange(count)
        self.register_buffer("place", place, persistent=False)
        self.weight = nn.Parameter(torch.empty(width, channels, count))
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu")

    def square(self) -> Tensor:
        """The kernel as an array `(width, channels, kernel, kernel)`, zero outside the hexagon."""
        return F.pad(self.weight, (0, 1))[..., self.place]

    def forward(self, x: Tensor) -> Tensor:
        """`(B, channels, rows, columns) -> (B, width, rows / stride, columns / stride)`."""
        return F.conv2d(x, self.square(), stride=self.stride, padding=self.kernel // 2)
