"""Augmentation of training samples: any `Augment` for a grid; for a packed set, noise on the features of its elements.

Coordinates and missing elements do not change: zeros with noise would be elements.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.data.augment import Augment
from vitreous.nn.config import ViTConfig
from vitreous.nn.models import Config
from vitreous.nn.tokens.sets import present_elements

Change = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Samples and targets to changed ones."""

_ZERO_IS_MISSING = ("packed", "lines")  # tokens


def augmentation_for(augment: Augment, config: Config) -> Change:
    """The function that augments the samples of a model and their targets."""
    if augment == Augment():
        return lambda x, y: (x, y)
    if not isinstance(config, ViTConfig) or config.tokens != "packed":
        return augment
    if augment != Augment(noise=augment.noise, fill=augment.fill):
        raise InputError("augment: elements of a packed set have neither order nor shape; expected noise alone")
    features = config.input[0] - config.axes
    return lambda x, y: (element_noise(x, features, augment.noise), y)


def element_noise(x: Tensor, features: int, noise: float) -> Tensor:
    """Packed sets `(B, rows, N)` with white noise on the features (the first rows) of the elements that are present.

    Its deviation is at most `noise` times the deviation of the feature over the elements; every sample has its own.
    """
    values, present = x[:, :features], present_elements(x).unsqueeze(1)
    count = present.sum(-1, keepdim=True).clamp(min=1)
    mean = values.sum(-1, keepdim=True) / count  # missing ones are zeros
    deviation = ((values - mean).square() * present).sum(-1, keepdim=True).div(count).sqrt()  # (B, features, 1)
    level = noise * torch.rand(len(x), 1, 1, device=x.device, dtype=x.dtype)
    changed = values + present * deviation * level * torch.randn_like(values)
    return torch.cat([changed, x[:, features:]], dim=1)


def check_scale(scale: str, config: Config) -> None:
    """Raise `InputError` if scaling would hide which elements of a sample are missing."""
    if isinstance(config, ViTConfig) and config.tokens in _ZERO_IS_MISSING and scale != "none":
        raise InputError(
            f"scale: found {scale!r}, but zeros mark missing elements of {config.tokens} samples; expected 'none'"
        )
