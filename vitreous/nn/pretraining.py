"""Learning without labels (S1.7, S2.11): masked tokens, denoising, and contrast between two views of a sample.

Each model wraps an encoder and returns two numbers for each sample, `(B, 2)`; the first is its loss.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.core.errors import InputError, check_choice
from vitreous.core.settings import Settings
from vitreous.nn.attention import Attention
from vitreous.nn.block import MLP, Block
from vitreous.nn.config import ViTConfig
from vitreous.nn.masking import Visible, draw, restore
from vitreous.nn.position import GridPosition
from vitreous.nn.vit import ViT, build_position, initialise, key_mask

_TOKENS = {  # tokenizers that a method supports
    "masked": ("patch", "set", "packed", "peaks", "lines"),
    "denoise": ("patch", "set", "packed"),
    "contrast": ("patch", "set", "packed", "peaks", "profile"),
}
METHODS = tuple(_TOKENS)


@dataclass(frozen=True)
class PretrainConfig(Settings):
    """How an encoder learns without labels."""

    method: str = "masked"
    """masked: predict hidden tokens | denoise: restore damaged samples | contrast: distinguish the two views of a
    sample from those of other samples."""
    ratio: float = 0.7
    """masked: share of hidden tokens."""
    normalise: bool = True
    """masked: predict each patch with mean 0 and variance 1."""
    dim: int = 64
    """masked, denoise: width of the decoder. contrast: width of the projected features."""
    depth: int = 1
    """masked, denoise: blocks of the decoder."""
    heads: int = 4
    """masked, denoise: attention heads of the decoder."""
    temperature: float = 0.2
    """contrast: temperature of the softmax."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("method", self.method, METHODS)
        self._at_least(1, "dim", "depth", "heads")
        if not 0 < self.ratio < 1:
            raise InputError(f"ratio: found {self.ratio:g}, expected a share of the tokens between 0 and 1")
        if self.temperature <= 0:
            raise InputError(f"temperature: found {self.temperature:g}, expected a number above 0")
        if self.dim % self.heads:
            raise InputError(f"heads: {self.heads} heads do not divide the decoder's width dim = {self.dim}")

    def check(self, encoder: ViTConfig) -> None:
        """Raise `InputError` if the method does not support an encoder."""
        if encoder.tokens not in _TOKENS[self.method]:
            supported = ", ".join(_TOKENS[self.method])
            raise InputError(f"method: {self.method!r} is made for tokens = {supported}, found {encoder.tokens!r}")
        if self.method == "masked":
            encoder.check_reducible("masked")
            if encoder.thresholds:
                raise InputError("method: 'masked' hides tokens itself, so its encoder cannot have thresholds")


Panels = tuple[Tensor, Tensor, Tensor]
"""For a figure: samples, input of the encoder, and reconstruction."""


class Decoder(nn.Module):
    """Transformer blocks from the tokens of an encoder to the contents of all tokens.

    Hidden tokens are a learned vector plus their position: that of a patch is its index on the grid, that of a set's
    element its coordinates, and that of a peak or a line its rank.
    """

    def __init__(self, encoder: ViT, config: PretrainConfig) -> None:
        super().__init__()
        c, dim = encoder.config, config.dim
        self.prefix = c.prefix
        self.embed = nn.Linear(c.dim, dim)
        self.hidden = nn.Parameter(torch.zeros(dim))
        self.position: nn.Module | None = None  # locates hidden tokens; None if nothing does
        if encoder.tokenizer.ranked:
            self.position = GridPosition("learned", torch.zeros(encoder.tokenizer.most, 1), dim, 0)
        elif encoder.tokenizer.axes:
            self.position = build_position("sinusoidal", encoder.tokenizer, dim, 0, c.spacing)
        blocks = (Block(dim, Attention(dim, config.heads), [4 * dim], eps=c.eps) for _ in range(config.depth))
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(dim, c.eps)
        self.show = nn.Linear(dim, encoder.tokenizer.shown)
        initialise(self.modules(), (self.hidden, getattr(self.position, "table", None)))

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
        keys = key_mask(mask, self.prefix)
        for block in self.blocks:
            z = block(z, mask=keys)
        shown: Tensor = self.show(self.norm(z[:, self.prefix :]))
        return shown


class Pretraining(nn.Module):
    """Base class: an encoder with a method of pre-training."""

    def __init__(self, encoder: ViT, config: PretrainConfig) -> None:
        super().__init__()
        config.check(encoder.config)
        self.encoder, self.config = encoder, config

    def panels(self, x: Tensor, prepared: Tensor) -> Panels:
        """As tables of tokens unless they are grids; `prepared` is the input of forward for the samples `x`."""
        raise NotImplementedError


class Reconstruction(NamedTuple):
    """Contents of the tokens as predicted by a decoder, with the target."""

    values: Tensor
    """`(B, N, shown)`: predicted contents."""
    target: Tensor
    """`(B, N, shown)`: true contents."""
    counted: Tensor
    """`(B, N, shown)`: True for contents that count in the loss."""
    visible: Visible
    """Tokens that the encoder sees."""


class Masked(Pretraining):
    """A masked autoencoder (He et al. 2022): the encoder sees a few tokens, the decoder predicts the others.

    If patches overlap, a sample of a hidden patch counts in the loss only if no visible patch contains it; such
    samples are set to zero in the input.
    """

    def __init__(self, encoder: ViT, config: PretrainConfig) -> None:
        super().__init__(encoder, config)
        self.decoder = Decoder(encoder, config)
        if self.decoder.position is None:
            raise InputError(
                "axes: hidden elements without coordinates cannot be distinguished; use contrast or denoise"
            )
        encoder.pool.requires_grad_(False)  # the pooling is not used

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tensor:
        """Squared error and variance of the hidden contents, `(B, 2)`; `mask` and `coords` are for sets."""
        result = self.reconstruct(x, mask, coords)
        error = _mean((result.values - result.target).square(), result.counted)
        variance = _mean(result.target.square(), result.counted)  # the error of predicting 0
        return torch.stack([error, variance], dim=1)

    def reconstruct(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Reconstruction:
        """Hide some tokens and predict the contents of all."""
        tokenizer = self.encoder.tokenizer
        contents = tokenizer.contents(x, mask)
        visible = draw(len(x), tokenizer.hiding_units(contents.values), contents.mask, self.config.ratio)
        x, counted = tokenizer.hide(x, contents.values, visible.hidden)
        target = unit(contents.values) if tokenizer.is_grid and self.config.normalise else contents.values
        z = self.encoder.encode(x, mask, coords, visible)
        places = contents.coords if coords is None else coords
        return Reconstruction(self.decoder(z, visible, contents.mask, places), target, counted, visible)

    def panels(self, x: Tensor, prepared: Tensor) -> Panels:
        tokenizer, result = self.encoder.tokenizer, self.reconstruct(x)
        hidden, values = result.visible.hidden, result.values
        if tokenizer.is_grid and self.config.normalise and values.shape[-1] > 1:
            deviation, mean = torch.std_mean(tokenizer.contents(x).values, dim=-1, correction=0, keepdim=True)
            values = values * deviation + mean
        picture, visible = tokenizer.picture(x), tokenizer.visible(hidden)
        restored = tokenizer.assemble(values * hidden.unsqueeze(-1))
        return picture, picture.masked_fill(~visible, torch.nan), torch.where(visible, picture, restored)


class Denoising(Pretraining):
    """The encoder sees damaged samples and the decoder restores them (S2.11)."""

    def __init__(self, encoder: ViT, config: PretrainConfig) -> None:
        super().__init__(encoder, config)
        self.decoder = Decoder(encoder, config)
        self.decoder.hidden.requires_grad_(False)  # no token is hidden
        encoder.pool.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Squared errors `(B, 2)` of the restored and of the damaged samples; `x`: damaged and whole, `(B, 2, …)`."""
        damaged, whole = x.unbind(1)
        contents = self.encoder.tokenizer.contents
        restored, target = self.restore(damaged), contents(whole)
        squares = [(values - target.values).square() for values in (restored, contents(damaged).values)]
        if target.mask is None:
            return torch.stack([each.flatten(1).mean(1) for each in squares], dim=1)
        return torch.stack([_mean(each, target.mask.unsqueeze(-1).expand_as(each)) for each in squares], dim=1)

    def restore(self, x: Tensor) -> Tensor:
        """Restored contents of the tokens of damaged samples, `(B, N, shown)`."""
        contents = self.encoder.tokenizer.contents(x)
        restored: Tensor = self.decoder(self.encoder.encode(x), None, contents.mask, contents.coords)
        return restored

    def panels(self, x: Tensor, prepared: Tensor) -> Panels:
        damaged, whole = prepared.unbind(1)
        tokenizer, values = self.encoder.tokenizer, self.restore(damaged)
        return tokenizer.picture(whole), tokenizer.picture(damaged), tokenizer.assemble(values)


class Contrast(Pretraining):
    """Contrastive learning (SimCLR): features of two views of a sample are similar, those of different samples are not.

    The loss is InfoNCE of features after an MLP, which is discarded after pre-training.
    """

    def __init__(self, encoder: ViT, config: PretrainConfig) -> None:
        super().__init__(encoder, config)
        self.project = MLP((encoder.features, 4 * config.dim, config.dim))

    def forward(self, x: Tensor) -> Tensor:
        """Loss, and how often the nearest view is the pair, `(B, 2)`, for two views `(B, 2, C, *grid)`."""
        features = self.project(self.encoder(x.flatten(0, 1)))  # (2B, dim), pairs together
        with torch.autocast(x.device.type, enabled=False):  # bfloat16 cannot resolve near ones
            views = F.normalize(features.float(), dim=-1)
            logits = views @ views.mT / self.config.temperature
        own = torch.arange(len(views), device=x.device)
        logits = logits.masked_fill(own[:, None] == own, -torch.inf)
        pair = own ^ 1
        loss = F.cross_entropy(logits, pair, reduction="none")
        nearest = (logits.argmax(1) == pair).float()
        return torch.stack([each.view(-1, 2).mean(1) for each in (loss, nearest)], dim=1)

    def panels(self, x: Tensor, prepared: Tensor) -> Panels:
        return x, prepared[:, 0], prepared[:, 1]


BUILD: dict[str, type[Pretraining]] = {"masked": Masked, "denoise": Denoising, "contrast": Contrast}


def unit(values: Tensor, eps: float = 1e-6) -> Tensor:
    """Contents `(B, N, F)` scaled to mean 0 and variance 1 for each token; single numbers are unchanged."""
    return values if values.shape[-1] == 1 else F.layer_norm(values, values.shape[-1:], eps=eps)


def _mean(values: Tensor, counted: Tensor) -> Tensor:
    """Mean of the counted values of each sample, `(B,)`; 0 if none count."""
    weight = counted.to(values.dtype)
    return (values * weight).flatten(1).sum(1) / weight.flatten(1).sum(1).clamp(min=1)
