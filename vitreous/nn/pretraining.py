"""Learning without labels (S1.7, S2.11): masked tokens, denoising, and contrast between two views of a sample.

Each model wraps an encoder and answers a batch with two numbers about each sample, `(B, 2)`; the first is its loss.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.errors import InputError, check_choice
from vitreous.nn.block import MLP
from vitreous.nn.config import ViTConfig
from vitreous.nn.decoder import Decoder
from vitreous.nn.tokens import PatchTokenizer
from vitreous.nn.visible import Visible, draw
from vitreous.nn.vit import ViT
from vitreous.settings import Settings

_TOKENS = {  # tokenizers that a method is made for
    "masked": ("patch", "set", "packed", "peaks", "lines"),
    "denoise": ("patch", "set", "packed"),
    "contrast": ("patch", "set", "packed", "peaks"),
}
METHODS = tuple(_TOKENS)


@dataclass(frozen=True)
class PretrainConfig(Settings):
    """How an encoder learns without labels."""

    method: str = "masked"
    """masked: predict hidden tokens | denoise: restore damaged samples | contrast: tell two views of one sample from
    those of others."""
    ratio: float = 0.7
    """masked: share of the tokens that is hidden."""
    normalise: bool = True
    """masked: predict each patch with mean 0 and variance 1."""
    dim: int = 64
    """masked, denoise: width of the decoder. contrast: that of the space in which views are compared."""
    depth: int = 1
    """masked, denoise: blocks of the decoder."""
    heads: int = 4
    """masked, denoise: attention heads of the decoder."""
    temperature: float = 0.2
    """contrast: what similarities are divided by."""

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
        """Raise `InputError` if the method is not made for an encoder."""
        if encoder.tokens not in _TOKENS[self.method]:
            made = ", ".join(_TOKENS[self.method])
            raise InputError(f"method: {self.method!r} is made for tokens = {made}, found {encoder.tokens!r}")
        if self.method == "masked":
            encoder.check_fewer("masked")


Panels = tuple[Tensor, Tensor, Tensor]
"""For a figure: what was given, what the encoder saw, and what was made of it."""


class Pretraining(nn.Module):
    """An encoder with what it needs to learn without labels."""

    def __init__(self, encoder: ViT, config: PretrainConfig) -> None:
        super().__init__()
        config.check(encoder.config)
        self.encoder, self.config = encoder, config

    def panels(self, x: Tensor, prepared: Tensor) -> Panels:
        """Samples, what the encoder saw and what was made of it; where these are no grid, as tables of tokens.

        `prepared` is what a forward is given for the samples `x`.
        """
        raise NotImplementedError


class Shown(NamedTuple):
    """What a decoder says of tokens, beside the truth."""

    values: Tensor
    """`(B, N, shown)`, as they were predicted."""
    target: Tensor
    """`(B, N, shown)`, as they are."""
    counted: Tensor
    """`(B, N, shown)`: those that the loss counts."""
    visible: Visible | None = None
    """What the encoder saw; None for all."""


class Masked(Pretraining):
    """A masked autoencoder (He et al. 2022): the encoder sees a few tokens, the decoder predicts the others.

    Where patches overlap, a sample of a hidden patch counts only if no visible patch shows it, and it is zero wherever
    the encoder might see it.
    """

    def __init__(self, encoder: ViT, config: PretrainConfig) -> None:
        super().__init__(encoder, config)
        self.decoder = Decoder(encoder, config.dim, config.depth, config.heads)
        if self.decoder.position is None:
            raise InputError("axes: hidden elements without coordinates cannot be told apart; use contrast or denoise")
        encoder.pool.requires_grad_(False)  # which nothing reads

    def forward(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Tensor:
        """Squared error and variance of the hidden contents, `(B, 2)`; `mask` and `coords` are those of sets."""
        told = self.reconstruct(x, mask, coords)
        return torch.stack([_mean((told.values - told.target).square(), told.counted), _variance(told)], dim=1)

    def reconstruct(self, x: Tensor, mask: Tensor | None = None, coords: Tensor | None = None) -> Shown:
        """Hide some tokens and predict all."""
        tokenizer = self.encoder.tokenizer
        found = tokenizer.contents(x, mask)
        count = found.values.shape[1]
        cells = tokenizer.cells() if isinstance(tokenizer, PatchTokenizer) else torch.arange(count, device=x.device)
        visible = draw(len(x), cells, found.there, self.config.ratio)
        counted = visible.hidden.unsqueeze(-1).expand_as(found.values)
        target = found.values
        if isinstance(tokenizer, PatchTokenizer):
            counted = counted & tokenizer.uncovered(~visible.hidden)
            x = x * tokenizer.covered(~visible.hidden)
            target = unit(target) if self.config.normalise else target
        z = self.encoder.encode(x, mask, coords, visible)
        places = found.coords if coords is None else coords
        return Shown(self.decoder(z, visible, found.there, places), target, counted, visible)

    def panels(self, x: Tensor, prepared: Tensor) -> Panels:
        tokenizer, told = self.encoder.tokenizer, self.reconstruct(x)
        assert told.visible is not None
        truth, values = tokenizer.contents(x).values, told.values
        if not isinstance(tokenizer, PatchTokenizer):
            hidden = told.visible.hidden.unsqueeze(-1)
            return truth, truth.masked_fill(hidden, torch.nan), torch.where(hidden, values, truth)
        if self.config.normalise and truth.shape[-1] > 1:
            deviation, mean = torch.std_mean(truth, dim=-1, correction=0, keepdim=True)
            values = values * deviation + mean
        seen = tokenizer.covered(~told.visible.hidden)
        hidden = told.visible.hidden.unsqueeze(-1)
        return x, x.masked_fill(~seen, torch.nan), torch.where(seen, x, tokenizer.assembled(values * hidden))


class Denoising(Pretraining):
    """The encoder sees damaged samples, the decoder restores them (S2.11)."""

    def __init__(self, encoder: ViT, config: PretrainConfig) -> None:
        super().__init__(encoder, config)
        self.decoder = Decoder(encoder, config.dim, config.depth, config.heads)
        self.decoder.hidden.requires_grad_(False)  # nothing is
        encoder.pool.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Squared errors, `(B, 2)`, of what was restored and of what was given, `x`: damaged and whole, `(B, 2, …)`."""
        damaged, whole = x.unbind(1)
        contents = self.encoder.tokenizer.contents
        values, target, given = self.restore(damaged), contents(whole), contents(damaged).values
        squares = [(v - target.values).square() for v in (values, given)]
        if target.there is None:
            return torch.stack([each.flatten(1).mean(1) for each in squares], dim=1)
        return torch.stack([_mean(each, target.there.unsqueeze(-1).expand_as(each)) for each in squares], dim=1)

    def restore(self, x: Tensor) -> Tensor:
        """What each token of a damaged sample should show, `(B, N, shown)`."""
        found = self.encoder.tokenizer.contents(x)
        restored: Tensor = self.decoder(self.encoder.encode(x), None, found.there, found.coords)
        return restored

    def panels(self, x: Tensor, prepared: Tensor) -> Panels:
        damaged, whole = prepared.unbind(1)
        tokenizer, values = self.encoder.tokenizer, self.restore(damaged)
        if isinstance(tokenizer, PatchTokenizer):
            return whole, damaged, tokenizer.assembled(values)
        return tokenizer.contents(whole).values, tokenizer.contents(damaged).values, values


class Contrast(Pretraining):
    """Features of two views of a sample are alike, and unlike those of all other samples of the batch (SimCLR).

    The loss is InfoNCE; features are compared after an MLP, which is left behind.
    """

    def __init__(self, encoder: ViT, config: PretrainConfig) -> None:
        super().__init__(encoder, config)
        width = encoder.config.dim
        if encoder.config.pool == "flatten":
            width *= encoder.tokenizer.most
        self.project = MLP((width, 4 * config.dim, config.dim))

    def forward(self, x: Tensor) -> Tensor:
        """Loss and how often a view is nearest to its pair, `(B, 2)`, of two views `(B, 2, C, *grid)`."""
        found = self.project(self.encoder(x.flatten(0, 1)))  # (2B, dim), pairs together
        with torch.autocast(x.device.type, enabled=False):  # near ones differ by less than bfloat16 tells
            views = F.normalize(found.float(), dim=-1)
            logits = views @ views.mT / self.config.temperature
        own = torch.arange(len(views), device=x.device)
        logits = logits.masked_fill(own[:, None] == own, -torch.inf)
        pair = own ^ 1
        loss = F.cross_entropy(logits, pair, reduction="none")
        nearest = (logits.argmax(1) == pair).float()
        return torch.stack([each.view(-1, 2).mean(1) for each in (loss, nearest)], dim=1)

    def panels(self, x: Tensor, prepared: Tensor) -> Panels:
        first, second = prepared.unbind(1)
        return x, first, second


BUILD: dict[str, Callable[[ViT, PretrainConfig], Pretraining]] = {
    "masked": Masked,
    "denoise": Denoising,
    "contrast": Contrast,
}


def unit(values: Tensor, eps: float = 1e-6) -> Tensor:
    """Each token's contents with mean 0 and variance 1, `(B, N, F)`; single numbers stay as they are."""
    return values if values.shape[-1] == 1 else F.layer_norm(values, values.shape[-1:], eps=eps)


def _mean(values: Tensor, counted: Tensor) -> Tensor:
    """The mean of each sample's counted values: `(B,)`, 0 where none count."""
    weight = counted.to(values.dtype)
    return (values * weight).flatten(1).sum(1) / weight.flatten(1).sum(1).clamp(min=1)


def _variance(told: Shown) -> Tensor:
    """What the squared error would be, were all hidden contents said to be 0 (a patch's mean, where that is 0)."""
    return _mean(told.target.square(), told.counted)
