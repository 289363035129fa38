"""Attention layers with handcrafted weights that compute given functions (S4.5); see docs/attention.md.

A softmax gives an average, which is never empty. To compute sums, and zero where no token matches, an empty token is
added that takes nearly all of the attention. A matching token gets a share ε, which is scaled up by 1 / ε.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from vitreous.insight.regions import to_array
from vitreous.insight.style import Figure, figure
from vitreous.nn.attention import Attention
from vitreous.nn.attention.bias import RelativeBias
from vitreous.nn.record import Sink

_SHARP = 200.0  # the α of the source; a larger value would lose digits
_SHARE = 1e-6  # ε: attention to one matching token
_STEEP = 50.0  # decrease of the logit per squared step from the tap of a head


class Matching(nn.Module):
    """`f(v)_i = Σ_j V v_j · 1[v_iᵀ M v_j = 1]` for unit vectors with `v_iᵀ M v_j ≤ 1`, by one head with `QKᵀ = α M`.

    `match` M and `value` V are `(D, D)`. Tokens that nearly match, with `v_iᵀ M v_j > 0.9`, are not separated to 1e-6.
    """

    def __init__(self, match: Tensor, value: Tensor) -> None:
        super().__init__()
        dim = len(match)
        self.attention = Attention(dim, heads=1, score="dot")
        with torch.no_grad():
            weight = torch.cat([_SHARP * match.T, torch.eye(dim), value / _SHARE])  # x_iᵀ (α M) x_j = (α Mᵀ x_i)·x_j
            self.attention.qkv.weight.copy_(weight)
            self.attention.project.weight.copy_(torch.eye(dim))
            self.attention.qkv.bias.zero_()
            self.attention.project.bias.zero_()

    def forward(self, v: Tensor, seen: Sink = None) -> Tensor:
        """`(B, N, D) -> (B, N, D)`."""
        tokens = F.pad(v, (0, 0, 1, 0))  # the empty token first: its logit is 0
        bias = F.pad(v.new_full((v.shape[1],), math.log(_SHARE) - _SHARP), (1, 0))  # a matching token has log ε
        out: Tensor = self.attention(tokens, bias=bias[None, None, None], sink=seen)
        return out[:, 1:]

    @torch.no_grad()
    def shares(self, v: Tensor) -> NDArray[np.float64]:
        """Attention between all tokens divided by ε, `(B, N, N)`: 1 where they match, else 0."""
        seen: dict[str, Tensor] = {}
        self(v, seen)
        return to_array(seen["weights"][:, 0, 1:, 1:] / _SHARE)


def association(turn: Tensor) -> Matching:
    """`f(v)_i = Σ_j v_j · 1[v_j = U v_i]` for an orthogonal U `(D, D)`: `QKᵀ = α U⁻¹`."""
    return Matching(turn.T, torch.eye(len(turn)))


def double_if(a: Tensor, b: Tensor) -> Matching:
    """`f(v)_i = Σ_j 1[v_i = a and v_j = b]` in the first channel: `QKᵀ = α a bᵀ`; -a and -b must not both occur."""
    first = F.one_hot(torch.tensor(0), len(a)).to(a.dtype)
    return Matching(torch.outer(a, b), torch.outer(first, b))


class Convolution(nn.Module):
    """A convolution `(out, channels, *taps)` on a grid as multi-head attention with relative positions `p_ij` alone.

    Each head attends to one tap, `p_ij = -β |j - i - tap|²`, and the output projection holds the kernel. At the edge a
    head attends to the nearest token, so the convolution pads by repeating the edge.

    Args:
        kernel: `(out, channels, *taps)`, an odd number of taps along each axis.
        shape: tokens along each axis.
    """

    def __init__(self, kernel: Tensor, shape: Sequence[int]) -> None:
        super().__init__()
        self.out, channels, *taps = kernel.shape
        width, heads = max(self.out, channels), math.prod(taps)
        self.attention = Attention(heads * width, heads)
        index = torch.cartesian_prod(*(torch.arange(n) for n in shape)).reshape(-1, len(shape))
        self.bias = RelativeBias(index, shape, depth=1, heads=heads, prefix=0)
        reach = torch.cartesian_prod(*(torch.arange(n - 1, -n, -1) for n in shape)).reshape(-1, len(shape))  # j - i
        looks = torch.cartesian_prod(*(torch.arange(n) - n // 2 for n in taps)).reshape(-1, len(shape))
        with torch.no_grad():
            for parameter in self.attention.parameters():
                parameter.zero_()
            self.bias.table.copy_(-_STEEP * (reach[None] - looks[:, None]).square().sum(-1))
            values = self.attention.qkv.weight[2 * heads * width :].unflatten(0, (heads, width))  # (heads, width, dim)
            values[:, :channels, :channels] = torch.eye(channels)
            project = self.attention.project.weight.unflatten(1, (heads, width))  # (dim, heads, width)
            project[: self.out, :, :channels] = kernel.flatten(2).mT

    def forward(self, x: Tensor) -> Tensor:
        """`(B, N, channels) -> (B, N, out)`."""
        padding = self.attention.project.in_features - x.shape[-1]
        out: Tensor = self.attention(F.pad(x, (0, padding)), bias=self.bias(0))
        return out[..., : self.out]


def matches_figure(matching: Matching, v: Tensor, title: str = "") -> Figure:
    """Matches between the tokens `v` `(N, D)`: their attention divided by ε."""
    with figure(3.6, 3) as drawing:
        axes = drawing.subplots()
        shown = axes.imshow(matching.shares(v[None])[0], cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
        axes.set(xlabel="token j", ylabel="token i")
        axes.set_title(title, loc="left", fontsize=8)
        drawing.colorbar(shown, label="attention / ε", shrink=0.8)
    return drawing


def kernels_figure(kernels: Mapping[str, NDArray[Any]]) -> Figure:
    """Weights `(rows, columns)` around the centre of a grid, one panel per name, on one colour scale."""
    top = max(float(np.abs(kernel).max()) for kernel in kernels.values())
    with figure(3.1 * len(kernels), 2.9) as drawing:
        panels = drawing.subplots(1, len(kernels), squeeze=False)[0]
        for axes, (name, kernel) in zip(panels, kernels.items(), strict=True):
            down, across = (n / 2 for n in kernel.shape)
            extent = (-across, across, down, -down)
            shown = axes.imshow(kernel, cmap="RdBu_r", vmin=-top, vmax=top, extent=extent, interpolation="nearest")
            axes.set(xlabel="columns to the key", ylabel="rows to the key")
            axes.set_title(name, loc="left", fontsize=8)
        drawing.colorbar(shown, ax=panels, label="weight", shrink=0.8)
    return drawing
