"""A small decoder for pre-training: from the tokens of an encoder to the contents of all tokens."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.nn.attention import Attention
from vitreous.nn.block import Block
from vitreous.nn.masking import Visible, restore
from vitreous.nn.position import GridPosition, SetPosition
from vitreous.nn.tokens import Tokenizer
from vitreous.nn.vit import ViT


class Decoder(nn.Module):
    """Transformer blocks on all tokens; hidden tokens are a learned vector plus their position.

    The position of a patch is its index on the grid, that of a set's element its coordinates, and that of a peak or a
    line its rank.

    Args:
        encoder: the model whose tokens are decoded.
        dim, depth, heads: width, blocks and attention heads.
    """

    def __init__(self, encoder: ViT, dim: int, depth: int, heads: int) -> None:
        super().__init__()
        c = encoder.config
        self.prefix = c.prefix
        self.embed = nn.Linear(c.dim, dim)
        self.hidden = nn.Parameter(torch.zeros(dim))
        self.position = _position(encoder.tokenizer, dim, c.spacing)
        self.blocks = nn.ModuleList(Block(dim, Attention(dim, heads), [4 * dim], eps=c.eps) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, c.eps)
        self.show = nn.Linear(dim, encoder.tokenizer.shown)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        for table in (self.hidden, getattr(self.position, "table", None)):
            if isinstance(table, nn.Parameter):
                nn.init.normal_(table, std=0.02)

    def forward(self, z: Tensor, visible: Visible | None, mask: Tensor | None, coords: Tensor | None) -> Tensor:
        """`(B, prefix + K, D) -> (B, N, shown)`.

        Args:
            z: tokens of the encoder, all or only the `visible` ones.
            mask: `(B, N)`, True for tokens with data.
            coords: coordinates of the elements of a set.
        """
        z = self.embed(z)
        first, tokens = z[:, : self.prefix], z[:, self.prefix :]
        if visible is not None:
            tokens = restore(tokens, visible, self.hidden)
        if self.position is not None:
            place = self.position(tokens if coords is None else coords, tokens.dtype)
            tokens = tokens + place[:, : tokens.shape[1]].to(tokens.dtype)
        z = torch.cat([first, tokens], dim=1)
        keys = None if mask is None else F.pad(mask, (self.prefix, 0), value=True)[:, None, None, :]
        for block in self.blocks:
            z = block(z, mask=keys)
        shown: Tensor = self.show(self.norm(z[:, self.prefix :]))
        return shown


def _position(tokenizer: Tokenizer, dim: int, spacing: tuple[float, ...]) -> GridPosition | SetPosition | None:
    """Positions that locate hidden tokens; None if nothing does."""
    return _POSITIONS[tokenizer.located_by](tokenizer, dim, spacing)


_POSITIONS: dict[str, Callable[[Tokenizer, int, tuple[float, ...]], GridPosition | SetPosition | None]] = {
    "grid": lambda tokenizer, dim, _: GridPosition("sinusoidal", tokenizer.index, dim, 0),
    "coords": lambda tokenizer, dim, spacing: (
        SetPosition("sinusoidal", tokenizer.axes, dim, 0, spacing) if tokenizer.axes else None
    ),
    "rank": lambda tokenizer, dim, _: GridPosition("learned", torch.zeros(tokenizer.most, 1), dim, 0),
}
