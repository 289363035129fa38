"""Transformations of batches for augmentation: symmetry operations, warping, broadening, baselines and random boxes.

`roll` and `turn` are exact: values move and may change sign, without interpolation. No operation waits for the device.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.core.errors import InputError

ROLLS = ("periodic", "skewed", "antiperiodic")
"""Boundary conditions: periodic | skewed: a row continues in the next row | antiperiodic: the sign changes."""
TURNS = {
    "half": ((0, False), (2, False)),
    "square": tuple((quarter, mirror) for quarter in range(4) for mirror in (False, True)),
}
"""Operations of each group, as quarter turns and reflection: half turns | all symmetries of a square."""
FILLS = {"edge": "border", "mirror": "reflection", "zero": "zeros"}
"""Values beyond the border of a warped grid, and the names that `grid_sample` has for them."""


class Draw:
    """Random numbers for each of the B samples of a batch, from a generator on its device or from torch's default."""

    def __init__(self, batch: Tensor, generator: torch.Generator | None) -> None:
        self.size, self.device, self.generator = batch.shape[0], batch.device, generator

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """`(B, *shape)`, from `low` to `high`."""
        values = torch.empty(self.size, *shape, device=self.device, dtype=torch.float32)
        return values.uniform_(low, high, generator=self.generator)

    def integers(self, count: int, *shape: int) -> Tensor:
        """`(B, *shape)`, from 0 to below `count`."""
        return self.uniform(0.0, count, *shape).long().clamp(max=count - 1)

    def normal(self, like: Tensor) -> Tensor:
        """Standard normal values of the shape of `like`."""
        return torch.empty_like(like).normal_(generator=self.generator)

    def factor(self, strength: float) -> Tensor:
        """`(B,)`, from 1 / (1 + strength) to 1 + strength, uniform in the logarithm."""
        limit = math.log1p(strength)
        return self.uniform(-limit, limit).exp()

    def beta(self, alpha: float) -> Tensor:
        """`(B,)` from Beta(alpha, alpha), by Bailey's formula for Student's t (Devroye 1996)."""
        cos = (2 * math.pi * self.uniform(0.0, 1.0)).cos()
        squared = torch.expm1(-self.uniform(0.0, 1.0).log() / alpha) * cos.square()  # t² / (2 alpha)
        return 0.5 + torch.copysign(0.5 / (1 + 1 / squared).sqrt(), cos)


def roll(x: Tensor, shift: Tensor, rule: str) -> Tensor:
    """Translate each grid of `(B, C, rows, columns)` by its own shift, with a boundary condition of `ROLLS`.

    Shifts `(B, 2)` along rows and columns are integers from 0 to below twice the side.
    """
    rows, columns = x.shape[2:]
    row = torch.arange(rows, device=x.device)[:, None] + shift[:, 0, None, None]
    column = torch.arange(columns, device=x.device) + shift[:, 1, None, None]
    if rule == "skewed":
        return _gather(x, (row * columns + column) % (rows * columns))
    moved = _gather(x, row % rows * columns + column % columns)
    if rule == "periodic":
        return moved
    sign = 1 - 2 * ((row // rows + column // columns) % 2)  # (B, rows, columns)
    return moved * sign.unsqueeze(1).to(x.dtype)


def turn(x: Tensor, which: Tensor, kind: str) -> Tensor:
    """Rotate and reflect each grid of `(B, C, rows, columns)` by its own operation `(B,)`, a place in `TURNS[kind]`."""
    rows, columns = x.shape[2:]
    if kind == "square" and rows != columns:
        raise InputError(f"turn: found a grid of {rows} × {columns}, expected a square one for quarter turns")
    grid = torch.arange(rows * columns, device=x.device).view(rows, columns)
    sources = [torch.rot90(grid.T if mirrored else grid, quarter, (0, 1)) for quarter, mirrored in TURNS[kind]]
    return _gather(x, torch.stack(sources)[which])


def _gather(x: Tensor, source: Tensor) -> Tensor:
    """Values of `x` `(B, C, *grid)` at the flat indices `source` `(B, *grid)`."""
    return x.flatten(2).take_along_dim(source.flatten(1).unsqueeze(1), dim=2).view(x.shape)


def warp(x: Tensor, shift: Tensor, angle: Tensor, factor: Tensor, shear: Tensor, fill: str = "edge") -> Tensor:
    """Scale, shear and rotate each grid about its centre, then shift it; linear interpolation, same shape.

    Args:
        x: images `(B, C, rows, columns)` or spectra `(B, C, samples)`.
        shift: samples along each axis, `(B, axes)`.
        angle: degrees counter-clockwise, `(B,)`.
        factor: enlargement, `(B,)`.
        shear: columns that each row moves relative to the row above, `(B,)`.
        fill: one of `FILLS`.
    """
    image = x if x.dim() == 4 else x.unsqueeze(2)  # a spectrum is an image of one row
    rows, columns = image.shape[2:]
    # For each position in the result, in samples from the centre, compute the position in the input.
    u = _centred(columns, x)[None, None, :] - shift[:, -1, None, None]
    v = _centred(rows, x)[None, :, None] - (shift[:, 0, None, None] if x.dim() == 4 else 0.0)
    radians, enlarge, slide = torch.deg2rad(angle)[:, None, None], factor[:, None, None], shear[:, None, None]
    across = u * radians.cos() - v * radians.sin()
    down = u * radians.sin() + v * radians.cos()  # (B, rows, columns)
    grid = torch.stack([(across - slide * down) / enlarge * (2 / columns), down / enlarge * (2 / rows)], dim=-1)
    warped = F.grid_sample(image, grid.to(x.dtype), padding_mode=FILLS[fill], align_corners=False)
    return warped.reshape(x.shape)


def _centred(samples: int, like: Tensor) -> Tensor:
    return torch.arange(samples, device=like.device) - (samples - 1) / 2


def broaden(x: Tensor, width: Tensor, most: float) -> Tensor:
    """Convolve spectra `(B, C, samples)` with Gaussians of standard deviation `width` `(B,)`, at most `most` samples.

    Beyond its ends a spectrum is continued with its last value.
    """
    batch, channels, samples = x.shape
    reach = max(1, math.ceil(4 * most))
    steps = torch.arange(-reach, reach + 1, device=x.device)
    kernel = (-0.5 * (steps / width.clamp(min=1e-3)[:, None]).square()).softmax(dim=1).to(x.dtype)  # (B, taps)
    kernel = kernel[:, None].expand(batch, channels, -1).reshape(batch * channels, 1, -1)
    padded = F.pad(x, (reach, reach), mode="replicate").reshape(1, batch * channels, -1)
    return F.conv1d(padded, kernel, groups=batch * channels).reshape(batch, channels, samples)


def chebyshev(weights: Tensor, samples: int) -> Tensor:
    """Chebyshev series over the axis, whose terms lie between -1 and 1: `(B, terms) -> (B, 1, samples)`."""
    angle = torch.linspace(-1, 1, samples, device=weights.device).acos()
    order = torch.arange(weights.shape[1], device=weights.device)
    terms = (order[:, None] * angle).cos()  # T_k(cos a) = cos(k a), (terms, samples)
    return (weights[:, :, None] * terms).sum(1, keepdim=True)


def random_boxes(fraction: Tensor, grid: Sequence[int], draw: Draw, elongation: float = 0.0) -> Tensor:
    """Mask `(B, 1, *grid)` of a box at a random place that fills `fraction` `(B,)` of the grid.

    The logarithm of each side varies by up to `elongation`.
    """
    rank = len(grid)
    logs = draw.uniform(-elongation, elongation, rank)
    sides = fraction[:, None] ** (1 / rank) * (logs - logs.mean(1, keepdim=True)).exp()  # (B, rank), of each side
    inside = torch.ones((), dtype=torch.bool, device=fraction.device)
    for axis, samples in enumerate(grid):
        side = (samples * sides[:, axis, None]).clamp(max=samples)  # (B, 1)
        start = draw.uniform(0.0, 1.0, 1) * (samples - side)
        middle = torch.arange(samples, device=fraction.device) + 0.5
        within = (start <= middle) & (middle < start + side)  # (B, samples)
        inside = inside & within.reshape(-1, 1, *(samples if other == axis else 1 for other in range(rank)))
    return inside


def expand_dims(values: Tensor, dim: int) -> Tensor:
    """`(B,) -> (B, 1, ...)` with `dim` dimensions."""
    return values.reshape(-1, *[1] * (dim - 1))
