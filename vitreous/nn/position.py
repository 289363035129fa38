"""Position encodings: learned (S0.4) and sinusoidal (S1.3).

On a grid, the position of a token is its number of steps along each axis; the elements of a set have coordinates.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.nn.block import MLP

POSITIONS = ("learned", "sinusoidal", "none")


def sinusoidal(position: Tensor, dim: int) -> Tensor:
    """S1.3: `PE(k, 2i) = sin(k / 10000^(2i/dim))`, `PE(k, 2i+1) = cos(same)`; `(..., axes) -> (..., dim)`.

    Positions are in steps between neighbouring tokens. With several axes the encoding is factorised: each axis takes an
    equal, even share of the width; the rest is zero.
    """
    axes = position.shape[-1]
    share = dim if axes == 1 else dim // (2 * axes) * 2
    even = torch.arange(0, share, 2, device=position.device, dtype=position.dtype)  # the 2i of the formula
    angle = position.unsqueeze(-1) / 10000 ** (even / share)  # (..., axes, ceil(share / 2))
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[..., :share]  # sin, cos, sin, cos, …
    return F.pad(waves.flatten(-2), (0, dim - axes * share))


class GridPosition(nn.Module):
    """Positions of a fixed grid, prefix tokens first: `(1, prefix + N, D)`.

    `learned` is a trainable table (S0.4), `sinusoidal` a constant one, zero for the prefix.
    """

    def __init__(self, kind: str, index: Tensor, dim: int, prefix: int) -> None:
        super().__init__()
        if kind == "learned":
            self.table: Tensor = nn.Parameter(torch.zeros(1, prefix + len(index), dim))
        else:
            rows = F.pad(sinusoidal(index.float(), dim), (0, 0, prefix, 0))
            self.register_buffer("table", rows.unsqueeze(0), persistent=False)

    def forward(self, coords: Tensor, dtype: torch.dtype) -> Tensor:
        return self.table


class SetPosition(nn.Module):
    """Positions of elements with coordinates: `(B, prefix + N, D)`, zero for the prefix.

    `learned` is an MLP of the coordinates, `sinusoidal` their factorised encoding S1.3, both in steps of `spacing`.
    """

    spacing: Tensor

    def __init__(self, kind: str, axes: int, dim: int, prefix: int, spacing: Sequence[float] = ()) -> None:
        super().__init__()
        self.dim, self.prefix = dim, prefix
        self.register_buffer("spacing", torch.tensor(tuple(spacing) or (1.0,) * axes), persistent=False)
        self.embed = MLP((axes, dim, dim)) if kind == "learned" else None

    def forward(self, coords: Tensor, dtype: torch.dtype) -> Tensor:
        steps = coords / self.spacing.to(coords.dtype)
        encoded = sinusoidal(steps, self.dim).to(dtype) if self.embed is None else self.embed(steps.to(dtype))
        return F.pad(encoded, (0, 0, self.prefix, 0))
