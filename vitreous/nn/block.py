"""The transformer block in the three placements of its norm: pre (S4.3, S3.1), post (S1.2) and branch (S4.2)."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.errors import check_choice
from vitreous.nn.attention import Attention, Bias
from vitreous.nn.linear import Linear
from vitreous.nn.record import Sink, keep

Map = Callable[[Tensor], Tensor]


# In all three, x: tokens; f: attention or MLP, of all tokens or of the first of them; norm: layer norm; scale: the
# branch's layer scale and stochastic depth.
def pre(x: Tensor, f: Map, norm: Map, scale: Map) -> Tensor:
    """f(LN(x)) + x (S4.3)."""
    return _add(x, scale(f(norm(x))))


def post(x: Tensor, f: Map, norm: Map, scale: Map) -> Tensor:
    """LN(x + f(x)) (S1.2)."""
    return norm(_add(x, scale(f(x))))


def branch(x: Tensor, f: Map, norm: Map, scale: Map) -> Tensor:
    """LN(f(x)) + x (S4.2)."""
    return _add(x, scale(norm(f(x))))


def _add(x: Tensor, found: Tensor) -> Tensor:
    return x[:, : found.shape[1]] + found


NORMS: dict[str, Callable[[Tensor, Map, Map, Map], Tensor]] = {"pre": pre, "post": post, "branch": branch}


class LayerNorm(nn.LayerNorm):
    """Layer norm whose result has the type of what it is given; autocast alone would make it float32."""

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
    """What a residual branch passes through before it is added: layer scale, dropout, stochastic depth."""

    def __init__(self, dim: int, layer_scale: float, dropout: float, drop_path: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((dim,), layer_scale)) if layer_scale else None
        self.dropout, self.drop_path = dropout, drop_path

    def forward(self, x: Tensor) -> Tensor:
        if self.dropout:
            x = F.dropout(x, self.dropout, training=self.training)
        if self.scale is not None:
            x = x * self.scale.to(x.dtype)
        if self.drop_path and self.training:  # drops the branch for whole samples
            stays = torch.rand(x.shape[0], 1, 1, device=x.device) >= self.drop_path
            x = x * (stays / (1 - self.drop_path)).to(x.dtype)
        return x


class Block(nn.Module):
    """Attention, then an MLP, each on a residual branch.

    Args:
        attention: mixes the tokens; None for the MLP alone.
        hidden: widths of the MLP's hidden layers.
        norm: where the layer norm stands, one of `NORMS`.
        dropout: on the MLP's hidden layers and on both branches' outputs.
        drop_path: probability of skipping a branch for a sample in training.
        layer_scale: initial value of a trainable per-channel factor on each branch; 0 for none.
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
        self._residual = NORMS[norm]
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
        seen: Sink = None,
        between: Map | None = None,
        first: int | None = None,
    ) -> Tensor:
        """`(B, N, D) -> (B, N, D)`; `seen` keeps `keys`, `weights`, `attention`, `mlp` and `out` of this block.

        Without attention there is no more to keep than `mlp` and `out`.

        Args:
            between: done to the tokens after the attention and before the MLP; it may make them fewer.
            first: how many of the first tokens are wanted after the block, under full attention; None for all.
        """

        attention = self.attention

        def attend(z: Tensor) -> Tensor:
            assert attention is not None
            if first is None:
                return keep(seen, "attention", attention(z, mask=mask, bias=bias, seen=seen))
            some = bias[..., :first, :] if isinstance(bias, Tensor) else None
            return keep(seen, "attention", attention(z[:, :first], z, mask, some, seen))

        def feed(z: Tensor) -> Tensor:
            return keep(seen, "mlp", self.mlp(z))

        if attention is not None:
            x = self._residual(x, attend, self.attention_norm, self.attention_branch)
        if between is not None:
            x = between(x)
        x = self._residual(x, feed, self.mlp_norm, self.mlp_branch)
        return keep(seen, "out", x)
