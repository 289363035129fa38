"""Biases that are added to the attention logits of two tokens.

`RelativeBias` (S4.1) depends on their displacement on the grid, `PairBias` (S2.10) is learned from the coordinates of
two elements of a set. The interaction features of particles are those of Qu, Li and Qian 2022 (Particle Transformer),
eq. 3.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.nn.resample import resize

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig

_FINEST = 1e-3  # smallest angle, below the resolution of detectors and of float32
_LARGEST = 30.0  # largest logarithm of a momentum or an energy whose square fits float32
_HIDDEN = 32  # width of the hidden layers of the MLP of pairs


class Layout(NamedTuple):
    """Where the tokens of a model are."""

    places: Tensor
    """`(N, axes)`: positions on the token grid, in steps; `(N, 0)` for sets."""
    shape: tuple[int, ...]
    """Shape of the token grid; for sets, the largest number of elements."""
    prefix: int
    """Number of tokens before those of the data: class token and registers."""


class BiasTable(NamedTuple):
    """The relative bias of one layer, looked up for the pairs that sparse attention needs."""

    table: Tensor
    """`(heads, entries)`; the three entries of the prefix are last."""
    shape: tuple[int, ...]
    """Shape of the token grid."""

    def at(self, moved: Tensor) -> Tensor:
        """The bias `(heads, ...)` of displacements `(..., axes)`, clamped to the size of the grid."""
        return self.table[:, displacement_index(moved, self.shape)]

    def each(self, moved: Tensor) -> Tensor:
        """The bias of displacements `(B, heads, chunks, n, m, axes)` that differ from head to head."""
        heads = torch.arange(len(self.table), device=moved.device).view(-1, 1, 1, 1)
        return self.table[heads, displacement_index(moved, self.shape)]

    def to_prefix(self, count: int) -> Tensor:
        """From a token to each prefix token, `(heads, count)`."""
        return self.table[:, -2:-1].expand(-1, count)

    def after_prefix(self, bias: Tensor, count: int) -> Tensor:
        """A bias of tokens, `(..., heads, n, m)`, after that to the prefix: `(..., heads, n, count + m)`."""
        return torch.cat([self.to_prefix(count)[:, None, :].expand(*bias.shape[:-1], count), bias], dim=-1)

    def from_prefix(self, count: int, tokens: int) -> Tensor:
        """From the prefix tokens to themselves and to all tokens, `(1, heads, count, count + tokens)`."""
        row = torch.cat([self.table[:, -1:].expand(-1, count), self.table[:, -3:-2].expand(-1, tokens)], dim=1)
        return row[None, :, None].expand(-1, -1, count, -1)


def displacement_index(moved: Tensor, shape: Sequence[int]) -> Tensor:
    """Entry in a table of relative biases for displacements `(..., axes)` on a grid."""
    index = torch.zeros_like(moved[..., 0])
    for axis, n in enumerate(shape):
        index = index * (2 * n - 1) + moved[..., axis].clamp(1 - n, n - 1) + n - 1
    return index


def table_index(places: Tensor, shape: Sequence[int], prefix: int) -> Tensor:
    """Entry in the table for every pair of tokens, `(prefix + N, prefix + N)`."""
    index = displacement_index(places.unsqueeze(1) - places.unsqueeze(0), shape)
    if prefix:
        last = math.prod(2 * n - 1 for n in shape)
        index = F.pad(index, (prefix, 0, prefix, 0))
        index[:prefix, prefix:] = last
        index[prefix:, :prefix] = last + 1
        index[:prefix, :prefix] = last + 2
    return index


class RelativeBias(nn.Module):
    """S4.1: a trainable `p_ij` for each layer and head, added to the logits, that depends on the displacement only.

    Displacements are integer steps on the token grid. Prefix tokens have no position; three entries of their own
    serve all pairs prefix → token, token → prefix and prefix → prefix. Without `all`, no array of the size of all pairs
    is kept.
    """

    index: Tensor | None

    def __init__(
        self, places: Tensor, shape: Sequence[int], depth: int, heads: int, prefix: int, all: bool = True
    ) -> None:
        super().__init__()
        self.shape = tuple(shape)
        self.register_buffer("index", table_index(places, shape, prefix) if all else None, persistent=False)
        self.table = nn.Parameter(torch.zeros(depth, heads, math.prod(2 * n - 1 for n in shape) + 3 * bool(prefix)))

    def forward(self, layer: int) -> Tensor | BiasTable:
        """The bias of one layer: of all pairs `(1, heads, N, N)`, or the table for sparse attention."""
        table = self.table[layer]
        return BiasTable(table, self.shape) if self.index is None else table[:, self.index].unsqueeze(0)

    @staticmethod
    def resample(table: Tensor, old: Sequence[int], new: Sequence[int]) -> Tensor:
        """Interpolate a table `(depth, heads, entries)` from the grid `old` to `new`; prefix entries stay."""
        reach = [[2 * n - 1 for n in grid] for grid in (old, new)]
        entries = math.prod(reach[0])
        grid = table[..., :entries].float().unflatten(-1, reach[0])  # (depth, heads, *displacements)
        return torch.cat([resize(grid, reach[1]).flatten(2).to(table.dtype), table[..., entries:]], dim=-1)


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


class Pairs(NamedTuple):
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
    """A small MLP from the features of a pair, one of `PAIRS`, to a bias for each head, the same in all blocks.

    `axes` is the number of coordinates, `spacing` the difference that counts as one step along each.
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
        features = PAIRS[self.kind].features(coords.float() / self.spacing.float())  # bfloat16 has too few digits
        bias: Tensor = self.rest(self.first(features.to(self.first.weight.dtype)))
        return bias.permute(0, 3, 1, 2).contiguous()  # the memory layout of fused attention


def check_pairs(c: "ViTConfig") -> None:
    """Raise `InputError` unless a bias that is learned from pairs fits the other settings of a model."""
    if c.bias not in PAIRS:
        return
    if not c.tokenizer.is_set:
        raise InputError(f"bias: {c.bias!r} needs the elements of a set; found tokens = {c.tokens!r}")
    if c.attention != "full":
        raise InputError(f"bias: {c.bias!r} needs attention = 'full', which looks at all pairs")
    names = PAIRS[c.bias].coordinates
    if names and c.axes != len(names):
        raise InputError(f"axes: found {c.axes}, but bias = {c.bias!r} needs {', '.join(names)}")
    if not c.axes:
        raise InputError(f"axes: bias {c.bias!r} needs the number of coordinates")
