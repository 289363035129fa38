"""A small decoder for pre-training: from the tokens that an encoder gives to what every token stands for."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.nn.attention import Attention
from vitreous.nn.block import Block
from vitreous.nn.position import GridPosition, SetPosition
from vitreous.nn.tokens import PatchTokenizer, SetTokenizer
from vitreous.nn.visible import Visible, put
from vitreous.nn.vit import Tokenizer, ViT


class Decoder(nn.Module):
    """Blocks of their own width on all tokens, where hidden ones are a learned vector and their position.

    The position of a patch is its place on the grid, that of a set's element its coordinates, and that of a peak or a
    line its rank, from which the model has to tell where it stands.

    Args:
        encoder: whose tokens are decoded.
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

    def forward(self, z: Tensor, visible: Visible | None, there: Tensor | None, coords: Tensor | None) -> Tensor:
        """`(B, prefix + K, D) -> (B, N, shown)`.

        Args:
            z: the encoder's tokens, all or the `visible` ones.
            there: `(B, N)`, the tokens with data.
            coords: of a set's elements.
        """
        z = self.embed(z)
        first, tokens = z[:, : self.prefix], z[:, self.prefix :]
        if visible is not None:
            tokens = put(tokens, visible, self.hidden)
        if self.position is not None:
            place = self.position(tokens if coords is None else coords, tokens.dtype)
            tokens = tokens + place[:, : tokens.shape[1]].to(tokens.dtype)
        z = torch.cat([first, tokens], dim=1)
        keys = None if there is None else F.pad(there, (self.prefix, 0), value=True)[:, None, None, :]
        for block in self.blocks:
            z = block(z, mask=keys)
        shown: Tensor = self.show(self.norm(z[:, self.prefix :]))
        return shown


def _position(tokenizer: Tokenizer, dim: int, spacing: tuple[float, ...]) -> GridPosition | SetPosition | None:
    if isinstance(tokenizer, PatchTokenizer):
        return GridPosition("sinusoidal", tokenizer.index, dim, 0)
    if isinstance(tokenizer, SetTokenizer):
        return SetPosition("sinusoidal", tokenizer.axes, dim, 0, spacing) if tokenizer.axes else None
    return GridPosition("learned", torch.zeros(tokenizer.most, 1), dim, 0)
