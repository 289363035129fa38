"""A bias learned from pairs (S2.10): a function of the coordinates of two elements, added to their attention logits.

The interaction features of particles are those of Qu, Li and Qian 2022 (Particle Transformer), eq. 3.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.core.errors import InputError

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig

_FINEST = 1e-3  # smallest angle, below the resolution of detectors and of float32
_LARGEST = 30.0  # largest logarithm of a momentum or an energy whose square fits float32
_HIDDEN = 32  # width of the MLP's hidden layers


def offset(coords: Tensor) -> Tensor:
    """Differences and distance of all pairs of coordinates: `(B, N, k) -> (B, N, N, k + 1)`."""
    apart = coords.unsqueeze(2) - coords.unsqueeze(1)
    distance = apart.square().sum(-1, keepdim=True).clamp(min=1e-12).sqrt()  # finite gradient at 0
    return torch.cat([apart, distance], dim=-1)


def lorentz(coords: Tensor) -> Tensor:
    """Logarithms of ΔR, k_T, z and m² of all pairs of particles, `(B, N, N, 4)`.

    `ΔR² = Δy² + Δφ²`, `k_T = min(p_T) ΔR`, `z = min(p_T) / (p_Ta + p_Tb)`, `m² = (E_a + E_b)² − |p_a + p_b|²`. The last
    is computed from transverse masses: far forward, energies and momenta are equal within float32.

    Args:
        coords: `(B, N, 4)`: rapidity y (pseudorapidity, for particles without mass), azimuth φ in radians, and the
            logarithms of transverse momentum and energy in one unit. An energy below the momentum counts as massless.
    """
    y, phi = coords[..., 0], coords[..., 1]
    log_pt, log_energy = coords[..., 2:].clamp(-_LARGEST, _LARGEST).unbind(-1)
    pt = log_pt.exp()
    mt = torch.maximum(log_energy.exp() / y.cosh(), pt)  # transverse mass
    along = y.unsqueeze(2) - y.unsqueeze(1)  # (B, N, N)
    around = torch.remainder((phi.unsqueeze(2) - phi.unsqueeze(1)).abs(), 2 * math.pi)
    around = torch.minimum(around, 2 * math.pi - around)  # the shorter angle
    log_r = 0.5 * (along.square() + around.square()).clamp(min=_FINEST**2).log()
    less, more = (f(log_pt.unsqueeze(2), log_pt.unsqueeze(1)) for f in (torch.minimum, torch.maximum))
    both_mt, both_pt = mt.unsqueeze(2) + mt.unsqueeze(1), pt.unsqueeze(2) + pt.unsqueeze(1)
    mts, pts = mt.unsqueeze(2) * mt.unsqueeze(1), pt.unsqueeze(2) * pt.unsqueeze(1)
    apart = mts * (along / 2).sinh().square() + pts * (around / 2).sin().square()
    mass = (both_mt - both_pt) * (both_mt + both_pt) + 4 * apart
    log_mass = torch.maximum(mass, _FINEST**2 * pts).log()
    return torch.stack([log_r, less + log_r, -F.softplus(more - less), log_mass], dim=-1)


@dataclass(frozen=True)
class Pairs:
    """Features of pairs of elements."""

    features: Callable[[Tensor], Tensor]
    """From `(B, N, axes)` to `(B, N, N, number)`."""
    number: Callable[[int], int]
    """Number of features for a number of axes."""
    coordinates: tuple[str, ...] = ()
    """Names of the coordinates that it needs; empty if it takes any, in steps of `spacing`."""


PAIRS = {
    "offset": Pairs(offset, lambda axes: axes + 1),
    "lorentz": Pairs(lorentz, lambda axes: 4, ("rapidity", "azimuth", "ln pT", "ln E")),
}


class PairBias(nn.Module):
    """A small MLP from the features of a pair to a bias for each head, the same in all blocks.

    Args:
        kind: one of `PAIRS`.
        axes: coordinates of an element.
        heads: attention heads.
        spacing: coordinate difference that counts as one step, for each axis.
    """

    spacing: Tensor

    def __init__(self, kind: str, axes: int, heads: int, spacing: Sequence[float] = ()) -> None:
        super().__init__()
        self.kind = kind
        step = torch.ones(axes) if PAIRS[kind].coordinates or not spacing else torch.tensor(tuple(spacing))
        self.register_buffer("spacing", step, persistent=False)
        self.first, last = nn.Linear(PAIRS[kind].number(axes), _HIDDEN), nn.Linear(_HIDDEN, heads)
        nn.init.normal_(last.weight, std=0.02)  # training starts near plain attention
        nn.init.zeros_(last.bias)
        self.rest = nn.Sequential(nn.GELU(), nn.Linear(_HIDDEN, _HIDDEN), nn.GELU(), last)

    def forward(self, coords: Tensor) -> Tensor:
        """`(B, N, axes) -> (B, heads, N, N)`."""
        coords = coords.float()  # bfloat16 has too few digits
        features = PAIRS[self.kind].features(coords / self.spacing.float())
        bias: Tensor = self.rest(self.first(features.to(self.first.weight.dtype)))
        return bias.permute(0, 3, 1, 2).contiguous()  # the memory layout of fused attention


def check_pairs(c: "ViTConfig") -> None:
    """Raise `InputError` unless a bias that is learned from pairs fits the other settings of a model."""
    if c.bias not in PAIRS:
        return
    if c.tokens not in ("set", "packed"):
        raise InputError(f"bias: {c.bias!r} needs the elements of a set; found tokens = {c.tokens!r}")
    if c.attention != "full":
        raise InputError(f"bias: {c.bias!r} needs attention = 'full', which looks at all pairs")
    names = PAIRS[c.bias].coordinates
    if names and c.axes != len(names):
        raise InputError(f"axes: found {c.axes}, but bias = {c.bias!r} needs {', '.join(names)}")
    if not c.axes:
        raise InputError(f"axes: bias {c.bias!r} needs the number of coordinates")
