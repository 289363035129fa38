"""What is done to a model's training samples: any `Augment` to a grid; to a packed set, noise on what elements measure.

Where elements are, and which of them are missing, stays as it is: zeros that became noise would be elements.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from vitreous.data.augment import Augment
from vitreous.errors import InputError
from vitreous.nn.config import ViTConfig
from vitreous.nn.elements import there
from vitreous.nn.models import Config

Change = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From samples and their targets to others."""

_MARKED = ("packed", "lines")  # tokens whose absence is a zero


def augmented(augment: Augment, config: Config) -> Change | None:
    """How an augmentation changes the samples of a model; None where it does not."""
    if augment == Augment():
        return None
    if not isinstance(config, ViTConfig) or config.tokens != "packed":
        return augment
    if augment != Augment(noise=augment.noise, fill=augment.fill):
        raise InputError("augment: elements of a packed set have neither order nor shape; expected noise alone")
    features = config.input[0] - config.axes
    return lambda x, y: (element_noise(x, features, augment.noise), y)


def element_noise(x: Tensor, features: int, noise: float) -> Tensor:
    """Packed sets `(B, rows, N)` with white noise on the first rows, the features, of the elements that there are.

    Its deviation is up to `noise` times the feature's over the elements of the sample, each sample with its own draw.
    """
    values, present = x[:, :features], there(x).unsqueeze(1)
    count = present.sum(-1, keepdim=True).clamp(min=1)
    mean = values.sum(-1, keepdim=True) / count  # missing ones are zeros
    deviation = ((values - mean).square() * present).sum(-1, keepdim=True).div(count).sqrt()  # (B, features, 1)
    level = noise * torch.rand(len(x), 1, 1, device=x.device, dtype=x.dtype)
    changed = values + present * deviation * level * torch.randn_like(values)
    return torch.cat([changed, x[:, features:]], dim=1)


def check_scale(scale: str, config: Config) -> None:
    """Raise `InputError` where scaling would hide which elements of a sample are missing."""
    if isinstance(config, ViTConfig) and config.tokens in _MARKED and scale != "none":
        raise InputError(f"scale: found {scale!r}, but zeros mark what {config.tokens} samples lack; expected 'none'")
