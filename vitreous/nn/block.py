"""The transformer block in the three placements of its norm: pre (S4.3, S3.1), post (S1.2) and branch (S4.2)."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.core.errors import check_choice
from vitreous.nn.attention.multihead import Attention, Bias
from vitreous.nn.kernels.linear import Linear
from vitreous.nn.record import Sink, keep

Map = Callable[[Tensor], Tensor]


def _add(x: Tensor, branch: Tensor) -> Tensor:
    return x[:, : branch.shape[1]] + branch


NORMS: dict[str, Callable[[Tensor, Map, Map, Map], Tensor]] = {
    "pre": lambda x, f, norm, scale: _add(x, scale(f(norm(x)))),  # f(LN(x)) + x (S4.3)
    "post": lambda x, f, norm, scale: norm(_add(x, scale(f(x)))),  # LN(x + f(x)) (S1.2)
    "branch": lambda x, f, norm, scale: _add(x, scale(norm(f(x)))),  # LN(f(x)) + x (S4.2)
}
"""Placements of the layer norm, as functions of the tokens x and three maps.

f is attention or MLP, of all tokens or of the first ones; `scale` is layer scale, dropout and stochastic depth.
"""


class LayerNorm(nn.LayerNorm):
    """Layer norm that returns the data type of its input; under autocast, torch returns float32."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).to(x.dtype)


class MLP(nn.Module):
    """Linear layers of the given widths with GELU between them (S1.1; several hidden layers as in S3.3)."""

    def __init__(self, widths: Sequence[int], dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Linear(a, b) for a, b in pairwise(widths))
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            assert isinstance(layer, Linear)
            x = F.dropout(layer.gelu(x), self.dropout, training=self.training)
        out: Tensor = last(x)
        return out


class Branch(nn.Module):
    """The end of a residual branch: dropout, layer scale, stochastic depth."""

    def __init__(self, dim: int, layer_scale: float, dropout: float, drop_path: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((dim,), layer_scale)) if layer_scale else None
        self.dropout, self.drop_path = dropout, drop_path

    def forward(self, x: Tensor) -> Tensor:
        if self.dropout:
            x = F.dropout(x, self.dropout, training=self.training)
        if self.scale is not None:
            x = x * self.scale.to(x.dtype)
        if self.drop_path and self.training:  # drops the branch of whole samples
            keeps = torch.rand(x.shape[0], 1, 1, device=x.device) >= self.drop_path
            x = x * (keeps / (1 - self.drop_path)).to(x.dtype)
        return x


class Block(nn.Module):
    """Attention, then an MLP, each on a residual branch.

    Args:
        attention: None for a block without attention.
        hidden: widths of the MLP's hidden layers.
        norm: placement of the layer norm, one of `NORMS`.
        dropout: in the MLP and at the end of both branches.
        drop_path: probability of skipping a branch for a sample in training.
        layer_scale: initial value of a trainable factor for each channel of each branch; 0 for none.
    """

    def __init__(
        self,
        dim: int,
        attention: Attention | None,
        hidden: Sequence[int],
        norm: str = "pre",
        dropout: float = 0.0,
        drop_path: float = 0.0,
        layer_scale: float = 0.0,
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        check_choice("norm", norm, NORMS)
        self._norm = norm
        self.attention: Attention | None = None
        if attention is not None:
            self.attention_norm = LayerNorm(dim, eps)
            self.attention = attention
            self.attention_branch = Branch(dim, layer_scale, dropout, drop_path)
        self.mlp_norm = LayerNorm(dim, eps)
        self.mlp = MLP((dim, *hidden, dim), dropout)
        self.mlp_branch = Branch(dim, layer_scale, dropout, drop_path)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        bias: Bias = None,
        sink: Sink = None,
        between: Map | None = None,
        first: int | None = None,
    ) -> Tensor:
        """`(B, N, D) -> (B, N, D)`; `sink` receives `keys`, `weights`, `attention`, `mlp` and `out`.

        Args:
            between: applied to the tokens between attention and MLP; it may reduce their number.
            first: number of first tokens to compute, under full attention; None for all.
        """
        if (attention := self.attention) is not None:

            def attend(z: Tensor) -> Tensor:
                if first is None:
                    return keep(sink, "attention", attention(z, mask=mask, bias=bias, sink=sink))
                rows = bias[..., :first, :] if isinstance(bias, Tensor) else None
                return keep(sink, "attention", attention(z[:, :first], z, mask, rows, sink))

            x = self._residual(x, attend, self.attention_norm, self.attention_branch)
        if between is not None:
            x = between(x)
        x = self._residual(x, lambda z: keep(sink, "mlp", self.mlp(z)), self.mlp_norm, self.mlp_branch)
        return keep(sink, "out", x)

    def _residual(self, x: Tensor, f: Map, norm: Map, scale: Map) -> Tensor:
        return NORMS[self._norm](x, f, norm, scale)
