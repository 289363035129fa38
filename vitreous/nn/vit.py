"""The Vision Transformer (S3.1): tokens, positions, blocks, pool, head."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vitreous.errors import InputError
from vitreous.nn.attention import Attention, additive_mask
from vitreous.nn.block import MLP, Block
from vitreous.nn.config import ViTConfig
from vitreous.nn.elements import PackedTokenizer
from vitreous.nn.fewer import Fewer, Reducer
from vitreous.nn.hashed import Hashed
from vitreous.nn.head import POOLS, AttentionPool
from vitreous.nn.latent import Latent
from vitreous.nn.pairs import PAIRS, PairBias
from vitreous.nn.peaks import LineTokenizer, PeakTokenizer
from vitreous.nn.position import GridPosition, SetPosition
from vitreous.nn.record import Recordable, Sink, keep
from vitreous.nn.relative import Layout, RelativeBias
from vitreous.nn.sparse import Strided, Window
from vitreous.nn.thresholds import Thresholds
from vitreous.nn.tokens import PatchTokenizer, SetTokenizer, Tokens
from vitreous.nn.visible import Visible, pick, pick_pairs


class ViT(Recordable):
    """A Vision Transformer made of the parts that its config names.

    >>> import torch
    >>> model = ViT(ViTConfig(input=(1, 4500), patch=(10,), out=6, dim=64, depth=4, heads=4, head=(64,)))
    >>> model(torch.rand(2, 1, 4500)).shape
    torch.Size([2, 6])
    """

    checkpointing = False
    """In training, compute each block twice instead of storing what its gradient needs; not where tokens are merged."""
    merging: Reducer | None = None
    """Merges tokens in every block; see `merged`."""
    counting: list[list[Tensor]] | None = None
    """Where each forward that merges or drops tokens leaves how many there were; see `counted`."""

    stream: torch.dtype | None = None
    """What the tokens are kept in between the blocks, under autocast; None leaves them as they come."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        c = self.config = config
        self.tokenizer = _tokenizer(c)
        self.prefix = nn.Parameter(torch.zeros(1, c.prefix, c.dim)) if c.prefix else None
        self.position = _position(c, self.tokenizer)
        self.bias = _relative_bias(c, self.tokenizer)
        self.pair_bias = PairBias(c.bias, c.axes, c.heads, c.spacing) if c.bias in PAIRS else None
        self.blocks = nn.ModuleList(_block(c, layer, self.tokenizer) for layer in range(c.depth))
        # A post-norm block ends in a norm; the others leave the residual stream bare.
        self.norm = nn.Identity() if c.norm == "post" else nn.LayerNorm(c.dim, c.eps)
        self.pool = POOLS[c.pool](c.prefix, c.dim, c.heads)
        pooled = c.dim * (self.tokenizer.most if c.pool == "flatten" else 1)
        self.head = MLP((pooled, *c.head, c.out)) if c.out else nn.Identity()
        self.thresholds = Thresholds(c.depth) if c.thresholds else None
        self._initialise()

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        coords: Tensor | None = None,
        pairwise: Tensor | None = None,
    ) -> Tensor:
        """`(B, channels, *grid) -> (B, out)`.

        Args:
            x: the batch; for sets `(B, features, N)`, for packed ones `(B, features + axes, N)`, with N up to the
                maximum.
            mask: True where there is data: samples of a grid `(B, *grid)`, or elements of a set `(B, N)`.
            coords: for sets, `(B, N, axes)` in the units of the config's `spacing`.
            pairwise: added to the attention logits between tokens (S2.10): `(B or 1, heads or 1, N, N)`.
        """
        seen = self.recording
        kept: Sink = None if seen is None else seen.start()
        tokens: Tokens = self.tokenizer(x, mask, coords)
        keep(kept, "tokens", tokens.values)
        keep(kept, "coords", tokens.coords)
        if tokens.mask is not None:
            keep(kept, "mask", tokens.mask)
        z = keep(kept, "embedded", self._embed(tokens))  # z_0 = [x_class; x_p E] + E_pos
        shared = self._shared(pairwise, tokens)
        if shared is not None:
            keep(kept, "pairwise", shared)
        # what the last block does to tokens that nothing reads need not be computed
        alone = self.config.pool == "cls" and self.config.attention == "full" and kept is None and self.counting is None
        z, mask = self._through(z, tokens.mask, shared, None, alone)
        z = keep(kept, "normed", self.norm(z))  # y = LN(z_L)
        pooled = keep(kept, "pooled", self.pool(z, mask, seen=None if seen is None else seen.pool))
        return keep(kept, "out", self.head(pooled))

    def encode(
        self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None, visible: Visible | None = None
    ) -> Tensor:
        """The tokens after the last block and its norm, `(B, prefix + N, D)`; of the `visible` ones alone if given.

        The others are not computed at all, so nothing of them is in those that are (He et al. 2022).
        """
        tokens: Tokens = self.tokenizer(x, mask, coords)
        z, shared, places, mask = self._embed(tokens), self._shared(None, tokens), None, tokens.mask
        if visible is not None:
            self.config.check_fewer("masked")
            places, mask = visible.with_prefix(self.config.prefix), visible.there
            z = pick(z, places)
            shared = None if shared is None else pick_pairs(shared, places)
        z, _ = self._through(z, mask, shared, places, alone=False)
        normed: Tensor = self.norm(z)
        return normed

    def _through(
        self, z: Tensor, mask: Tensor | None, shared: Tensor | None, places: Tensor | None, alone: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Embedded tokens through all blocks, and which of them there are.

        Args:
            mask: `(B, N)`, the tokens with data.
            shared: added to the attention logits of every block.
            places: `(B, n)`, which of the model's tokens these are; None for all.
            alone: whether the first token is all that is wanted.
        """
        seen = self.recording
        kept: Sink = None if seen is None else seen.model
        if self.stream is not None and torch.is_autocast_enabled(z.device.type):
            z = z.to(self.stream)
        keys = self._keys(mask)
        reducer = self.thresholds if self.merging is None else self.merging
        fewer = None if reducer is None else Fewer(reducer)
        if fewer is None and shared is not None:
            shared, keys = additive_mask(keys, shared), None  # once for all blocks
        if fewer is not None:
            z = fewer.begin(z, mask, self.config.prefix)
        for layer, block in enumerate(self.blocks):
            first = 1 if alone and layer + 1 == len(self.blocks) else None
            own = None if self.bias is None else self.bias(layer)
            if places is not None and own is not None:
                own = pick_pairs(own, places)
            bias = own if shared is None else shared if own is None else shared + own
            kept_here = None if seen is None else seen.blocks.get(layer)
            if fewer is not None and first is None:
                z = fewer.block(block, layer, z, bias, kept_here)
            elif fewer is not None:
                z = block(z, bias=fewer.groups.bias(bias), first=first)
            elif self.checkpointing and self.training:
                z = checkpoint(block, z, mask=keys, bias=bias, seen=kept_here, first=first, use_reentrant=False)
            else:
                z = block(z, mask=keys, bias=bias, seen=kept_here, first=first)
        return (z, mask) if fewer is None else self._end(fewer, z, kept)

    def _embed(self, tokens: Tokens) -> Tensor:
        """Prepend the prefix tokens and add the positions: `(B, N, D) -> (B, prefix + N, D)`."""
        z = tokens.values
        if self.prefix is not None:
            z = torch.cat([self.prefix.expand(z.shape[0], -1, -1), z], dim=1)
        if self.position is not None:
            z = z + self.position(tokens.coords, z.dtype)
        return F.dropout(z, self.config.dropout, training=self.training) if self.config.dropout else z

    def _end(self, fewer: Fewer, z: Tensor, kept: Sink) -> tuple[Tensor, Tensor | None]:
        """What the pooling reads of tokens that became fewer: each for all its members, and which there are."""
        if self.counting is not None:
            self.counting.append(fewer.left)
        if self.config.pool == "cls" and kept is None:  # which reads the first token alone
            return z, None
        return fewer.end(z, kept)

    def _keys(self, mask: Tensor | None) -> Tensor | None:
        """The tokens' mask `(B, N)` as a mask of keys `(B, 1, 1, prefix + N)`."""
        if mask is None:
            return None
        return F.pad(mask, (self.config.prefix, 0), value=True)[:, None, None, :]

    def _shared(self, pairwise: Tensor | None, tokens: Tokens) -> Tensor | None:
        """What is added to the logits of all blocks, `(B or 1, heads or 1, prefix + N, prefix + N)`, if anything.

        It is zero for the prefix tokens and for pairs without data.
        """
        if pairwise is not None:
            self._check_pairwise(pairwise, tokens)
        if self.pair_bias is not None:
            own = self.pair_bias(tokens.coords)
            pairwise = own if pairwise is None else own + pairwise
        if pairwise is None:
            return None
        if tokens.mask is not None:
            pairwise = pairwise.masked_fill(~(tokens.mask[:, None, :, None] & tokens.mask[:, None, None, :]), 0.0)
        return F.pad(pairwise, (self.config.prefix, 0, self.config.prefix, 0))

    def _check_pairwise(self, pairwise: Tensor, tokens: Tokens) -> None:
        if self.config.attention != "full":
            raise InputError(
                f"pairwise: needs attention = 'full', which looks at all pairs, not {self.config.attention!r}"
            )
        batch, count = tokens.values.shape[:2]
        heads, found = self.config.heads, pairwise.shape
        if len(found) != 4 or found[0] not in (1, batch) or found[1] not in (1, heads) or found[2:] != (count, count):
            expected = f"({batch} or 1, {heads} or 1, {count}, {count})"
            raise InputError(f"pairwise: found shape {tuple(found)}, expected {expected}")

    def _initialise(self) -> None:
        """Normal weights of deviation 0.02 and zero biases.

        The patch projection too: scaled by its few inputs instead, as convolutions are, small patches drown
        their positions. Sets and convolutional stems keep the scaling by their inputs.
        """
        parts = [self.blocks, self.pool, self.head]
        if isinstance(self.tokenizer, PatchTokenizer):
            parts.append(self.tokenizer.project)
        for module in (m for part in parts for m in part.modules() if isinstance(m, nn.Linear)):
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)
        tables = [
            self.prefix,
            self.bias.table if self.bias is not None else None,
            self.position.table if isinstance(self.position, GridPosition) else None,
            self.pool.query if isinstance(self.pool, AttentionPool) else None,
        ]
        for table in tables:
            if isinstance(table, nn.Parameter):
                nn.init.normal_(table, std=0.02)


Tokenizer = PatchTokenizer | SetTokenizer | PeakTokenizer | LineTokenizer


def _tokenizer(c: ViTConfig) -> Tokenizer:
    if c.tokens == "peaks":
        place = (c.origin or (0.0,))[0], (c.spacing or (1.0,))[0]
        return PeakTokenizer(c.input[1], c.peaks, c.dim, c.embed_norm, *place, c.eps)
    if c.tokens == "lines":
        return LineTokenizer(c.input[0], c.input[1], c.dim, c.embed_norm, c.eps)
    if c.tokens == "packed":
        return PackedTokenizer(c.input[0], c.input[1], c.axes, c.dim, c.embed_norm, c.eps, c.stem, c.samples)
    if c.tokens == "set":
        return SetTokenizer(c.input[0], c.input[1], c.axes, c.dim, c.embed_norm, c.eps)
    return PatchTokenizer(
        c.grid, c.input[0], c.patch, c.stride, c.dim, c.stem, c.embed_norm, c.origin, c.spacing, c.eps
    )


def _position(c: ViTConfig, tokenizer: Tokenizer) -> GridPosition | SetPosition | None:
    if c.position == "none":
        return None
    if isinstance(tokenizer, PatchTokenizer):
        return GridPosition(c.position, tokenizer.index, c.dim, c.prefix)
    return SetPosition(c.position, c.axes, c.dim, c.prefix, c.spacing)


def _relative_bias(c: ViTConfig, tokenizer: Tokenizer) -> RelativeBias | None:
    if c.bias != "relative" or not isinstance(tokenizer, PatchTokenizer):
        return None
    return RelativeBias(tokenizer.index, tokenizer.shape, c.depth, c.heads, c.prefix, all=c.attention == "full")


def _attention(c: ViTConfig, layer: int, tokenizer: Tokenizer) -> Attention | None:
    if c.attention == "none":
        return None
    keys = c.prefix + tokenizer.most
    common = c.dim, c.heads, c.score, keys, c.qk_norm, c.attention_dropout, c.eps
    if c.attention == "full":
        return Attention(*common)
    layout = Layout(torch.zeros(tokenizer.most, 0), (tokenizer.most,), c.prefix)
    if isinstance(tokenizer, PatchTokenizer):
        layout = Layout(tokenizer.index, tokenizer.shape, c.prefix)
    if c.attention == "window":
        return Window(c.window, layout, *common)
    if c.attention == "strided":
        return Strided(layer, layout, *common)
    if c.attention == "lsh":
        return Hashed(c.hashes, layer, layout, *common)
    return Latent(c.latents, layout, *common)


def _block(c: ViTConfig, layer: int, tokenizer: Tokenizer) -> Block:
    attention = _attention(c, layer, tokenizer)
    hidden = [round(ratio * c.dim) for ratio in c.mlp]
    drop_path = c.drop_path * layer / max(1, c.depth - 1)
    return Block(c.dim, attention, hidden, c.norm, c.dropout, drop_path, c.layer_scale, c.eps)
