"""The Vision Transformer (S3.1): tokenizer, positions, blocks, pooling, head.

z_0 = [x_class; x_p E] + E_pos
z_l = block(z_{l-1}),  l = 1 … L
y   = head(pool(LN(z_L)))
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vitreous.core.errors import InputError
from vitreous.nn.attention.bias import PAIRS, PairBias, RelativeBias
from vitreous.nn.attention.scores import additive_mask
from vitreous.nn.block import MLP, Block
from vitreous.nn.config import ViTConfig
from vitreous.nn.execution import Network
from vitreous.nn.masking import Visible, pick, pick_pairs
from vitreous.nn.pooling import POOLS
from vitreous.nn.position import GridPosition, SetPosition
from vitreous.nn.record import Sink, keep
from vitreous.nn.reduction.reducer import Reduction
from vitreous.nn.reduction.thresholds import Thresholds
from vitreous.nn.tokens import Tokenizer, Tokens


class ViT(Network):
    """A Vision Transformer made of the parts that its config names.

    >>> import torch
    >>> model = ViT(ViTConfig(input=(1, 4500), patch=(10,), out=6, dim=64, depth=4, heads=4, head=(64,)))
    >>> model(torch.rand(2, 1, 4500)).shape
    torch.Size([2, 6])
    """

    records = True

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        c = self.config = config
        self.attends, self.reduces = c.attends, c.reduces
        self.tokenizer = c.tokenizer.builds(c)
        self.prefix = nn.Parameter(torch.zeros(1, c.prefix, c.dim)) if c.prefix else None
        placed = c.position != "none"
        self.position = build_position(c.position, self.tokenizer, c.dim, c.prefix, c.spacing) if placed else None
        self.bias: RelativeBias | None = None
        if c.bias == "relative":
            index, shape, everywhere = self.tokenizer.index, self.tokenizer.shape, c.attention == "full"
            self.bias = RelativeBias(index, shape, c.depth, c.heads, c.prefix, all=everywhere)
        self.pair_bias = PairBias(c.bias, c.axes, c.heads, c.spacing) if c.bias in PAIRS else None
        self.blocks = nn.ModuleList(_block(c, layer, self.tokenizer) for layer in range(c.depth))
        # A post-norm block ends with a norm; the others end with the residual sum.
        self.norm = nn.Identity() if c.norm == "post" else nn.LayerNorm(c.dim, c.eps)
        self.pool = POOLS[c.pool](c.prefix, c.dim, c.heads)
        self.features = c.dim * (self.tokenizer.most if c.pool == "flatten" else 1)  # pooled, of a sample
        self.head = MLP((self.features, *c.head, c.out)) if c.out else nn.Identity()
        self.thresholds = Thresholds(c.depth) if c.thresholds else None
        self._initialise()

    def forward(
        self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None, pairwise: Tensor | None = None
    ) -> Tensor:
        """`(B, channels, *grid) -> (B, out)`.

        Args:
            x: the batch; for sets `(B, features, N)`, for packed sets `(B, features + axes, N)`, with N up to the
                maximum.
            mask: True where there is data: samples of a grid `(B, *grid)`, or elements of a set `(B, N)`.
            coords: for sets, `(B, N, axes)` in the units of the config's `spacing`.
            pairwise: added to the attention logits between tokens (S2.10): `(B or 1, heads or 1, N, N)`.
        """
        c, recording = self.config, self.execution.recording
        sink: Sink = None if recording is None else recording.start()
        tokens: Tokens = self.tokenizer(x, mask, coords)  # (B, N, D)
        keep(sink, "tokens", tokens.values)
        keep(sink, "coords", tokens.coords)
        if tokens.mask is not None:
            keep(sink, "mask", tokens.mask)
        z = keep(sink, "embedded", self._embed(tokens))  # z_0: (B, prefix + N, D)
        shared = self._shared_bias(pairwise, tokens)
        if shared is not None:
            keep(sink, "pairwise", shared)
        # If only the class token is read, the last block computes no other token.
        counts = self.execution.token_counts
        cls_only = c.pool == "cls" and c.attention == "full" and sink is None and counts is None
        z, mask = self._run_blocks(z, tokens.mask, shared, None, cls_only)  # z_L: (B, prefix + N, D)
        z = keep(sink, "normed", self.norm(z))
        pooled = keep(sink, "pooled", self.pool(z, mask, sink=None if recording is None else recording.pool))  # (B, D)
        return keep(sink, "out", self.head(pooled))

    def encode(
        self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None, visible: Visible | None = None
    ) -> Tensor:
        """Tokens after the last block and its norm, `(B, prefix + N, D)`, or only the `visible` ones.

        Hidden tokens are not computed at all, so that the visible ones cannot depend on them (He et al. 2022).
        """
        tokens: Tokens = self.tokenizer(x, mask, coords)
        z, shared, places, mask = self._embed(tokens), self._shared_bias(None, tokens), None, tokens.mask
        if visible is not None:
            self.config.check_reducible("masked")
            places, mask = visible.with_prefix(self.config.prefix), visible.mask
            z = pick(z, places)
            shared = None if shared is None else pick_pairs(shared, places)
        normed: Tensor = self.norm(self._run_blocks(z, mask, shared, places, cls_only=False)[0])
        return normed

    def _embed(self, tokens: Tokens) -> Tensor:
        """Prepend the prefix tokens and add the positions: `(B, N, D) -> (B, prefix + N, D)`."""
        z = tokens.values
        if self.prefix is not None:
            z = torch.cat([self.prefix.expand(z.shape[0], -1, -1), z], dim=1)
        if self.position is not None:
            z = z + self.position(tokens.coords, z.dtype)
        return F.dropout(z, self.config.dropout, training=self.training) if self.config.dropout else z

    def _run_blocks(
        self, z: Tensor, mask: Tensor | None, shared: Tensor | None, places: Tensor | None, cls_only: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Pass the embedded tokens `(B, prefix + N, D)` through all blocks; returns them and their mask `(B, N)`.

        Args:
            mask: `(B, N)`, True for tokens with data.
            shared: added to the attention logits of every block.
            places: `(B, n)`, which of the model's tokens these are; None for all.
            cls_only: whether only the first token is needed after the last block.
        """
        run, recording = self.execution, self.execution.recording
        if run.stream is not None and torch.is_autocast_enabled(z.device.type):
            z = z.to(run.stream)
        keys = key_mask(mask, self.config.prefix)
        reducer = self.thresholds if run.reducer is None else run.reducer
        reduction = None if reducer is None else Reduction(reducer)
        if reduction is None and shared is not None:
            shared, keys = additive_mask(keys, shared), None  # once for all blocks
        if reduction is not None:
            z = reduction.start(z, mask, self.config.prefix)
        for layer, block in enumerate(self.blocks):
            first = 1 if cls_only and layer + 1 == len(self.blocks) else None
            own = None if self.bias is None else self.bias(layer)
            if places is not None and own is not None:
                own = pick_pairs(own, places)
            bias = own if shared is None else shared if own is None else shared + own
            sink = None if recording is None else recording.blocks.get(layer)
            if reduction is not None and first is None:
                z = reduction.run_block(block, layer, z, bias, sink)
            elif reduction is not None:
                z = block(z, bias=reduction.groups.bias(bias), first=first)
            elif run.checkpointing and self.training:
                z = checkpoint(block, z, mask=keys, bias=bias, sink=sink, first=first, use_reentrant=False)
            else:
                z = block(z, mask=keys, bias=bias, sink=sink, first=first)
        return (z, mask) if reduction is None else self._end_reduction(reduction, z)

    def _end_reduction(self, reduction: Reduction, z: Tensor) -> tuple[Tensor, Tensor | None]:
        """Restore one token for every token of the input, which the pooling reads, and their mask."""
        recording, counts = self.execution.recording, self.execution.token_counts
        if counts is not None:
            counts.append(reduction.counts)
        if self.config.pool == "cls" and recording is None:  # reads the first token only
            return z, None
        return reduction.finish(z, None if recording is None else recording.model)

    def _shared_bias(self, pairwise: Tensor | None, tokens: Tokens) -> Tensor | None:
        """The bias of all blocks, `(B or 1, heads or 1, prefix + N, prefix + N)`; 0 for prefix and masked tokens."""
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
        c = self.config
        if c.attention != "full":
            raise InputError(f"pairwise: needs attention = 'full', which looks at all pairs, not {c.attention!r}")
        batch, count = tokens.values.shape[:2]
        shape = tuple(pairwise.shape)
        if len(shape) != 4 or shape[0] not in (1, batch) or shape[1] not in (1, c.heads) or shape[2:] != (count, count):
            expected = f"({batch} or 1, {c.heads} or 1, {count}, {count})"
            raise InputError(f"pairwise: found shape {shape}, expected {expected}")

    def _initialise(self) -> None:
        """Normal weights with standard deviation 0.02, zero biases.

        This includes the patch projection: with the usual scaling of convolutions by their number of inputs, the
        values of small patches exceed the positions. Sets and convolutional stems keep that scaling.
        """
        parts = [self.blocks, self.pool, self.head]
        if self.tokenizer.is_grid:
            parts.append(self.tokenizer.get_submodule("project"))
        tables = ((self, "prefix"), (self.bias, "table"), (self.position, "table"), (self.pool, "query"))
        initialise(nn.ModuleList(parts).modules(), (getattr(owner, name, None) for owner, name in tables))


def initialise(modules: Iterable[nn.Module], tables: Iterable[object]) -> None:
    """Normal weights with standard deviation 0.02 in linear layers and trainable tables, and zero biases."""
    for module in modules:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)
    for table in tables:
        if isinstance(table, nn.Parameter):
            nn.init.normal_(table, std=0.02)


def key_mask(mask: Tensor | None, prefix: int) -> Tensor | None:
    """The mask of the tokens `(B, N)` as a mask of the keys `(B, 1, 1, prefix + N)`."""
    return None if mask is None else F.pad(mask, (prefix, 0), value=True)[:, None, None, :]


def build_position(
    kind: str, tokenizer: Tokenizer, dim: int, prefix: int, spacing: tuple[float, ...]
) -> GridPosition | SetPosition:
    """Positions of the tokens of a grid or a set."""
    if tokenizer.is_grid:
        return GridPosition(kind, tokenizer.index, dim, prefix)
    return SetPosition(kind, tokenizer.axes, dim, prefix, spacing)


def _block(c: ViTConfig, layer: int, tokenizer: Tokenizer) -> Block:
    attention = c.mixer.build(c, layer, tokenizer.layout(c.prefix))
    hidden = [round(ratio * c.dim) for ratio in c.mlp]
    drop_path = c.drop_path * layer / max(1, c.depth - 1)
    return Block(c.dim, attention, hidden, c.norm, c.dropout, drop_path, c.layer_scale, c.eps)
