"""Named models: timm's names for image models (S2.5, S4.6), our own for spectra and small images."""

from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatch
from os import PathLike
from typing import Any

from vitreous.core.errors import InputError
from vitreous.nn import ViT, ViTConfig
from vitreous.zoo.weights import load_weights

# size: dim, depth, heads, and (patch, resolution) pairs
_IMAGE_SIZES = {
    "tiny": (192, 12, 3, [(16, 224), (16, 384)]),
    "small": (384, 12, 6, [(32, 224), (32, 384), (16, 224), (16, 384), (8, 224)]),
    "base": (768, 12, 12, [(32, 224), (32, 384), (16, 224), (16, 384), (8, 224)]),
    "large": (1024, 24, 16, [(32, 224), (32, 384), (16, 224), (16, 384), (14, 224)]),
    "huge": (1280, 32, 16, [(14, 224)]),
}

VARIANTS: dict[str, ViTConfig] = {
    f"vit_{size}_patch{patch}_{side}": ViTConfig(
        input=(3, side, side), patch=(patch,), out=1000, dim=dim, depth=depth, heads=heads
    )
    for size, (dim, depth, heads, resolutions) in _IMAGE_SIZES.items()
    for patch, side in resolutions
} | {
    # S0: a powder pattern of 4500 points in 450 patches; four layers; cls -> Dense(64) -> a, b, c, alpha, beta, gamma
    "vit_spectrum_4500": ViTConfig(input=(1, 4500), patch=(10,), out=6, dim=64, depth=4, heads=4, head=(64,)),
    # scikit-learn's digits and MNIST
    "vit_micro_patch2_8": ViTConfig(input=(1, 8, 8), patch=(2,), out=10, dim=64, depth=4, heads=4),
    "vit_mini_patch4_28": ViTConfig(input=(1, 28, 28), patch=(4,), out=10, dim=192, depth=6, heads=3),
}


def list_models(pattern: str = "*") -> list[str]:
    """Names for `create_model` that match a shell-style pattern.

    >>> list_models("vit_tiny_*")
    ['vit_tiny_patch16_224', 'vit_tiny_patch16_384']
    """
    return [name for name in VARIANTS if fnmatch(name, pattern)]


def model_config(name: str, **overrides: Any) -> ViTConfig:
    """Configuration of a named model, with some fields of `ViTConfig` replaced."""
    if name not in VARIANTS:
        near = get_close_matches(name, VARIANTS, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"expected one of: {', '.join(VARIANTS)}"
        raise InputError(f"model: unknown name {name!r}; {hint}")
    base = VARIANTS[name]
    unknown = set(overrides) - set(base.to_dict())
    if unknown:
        raise InputError(f"create_model: {min(unknown)!r} is not a field; expected: {', '.join(base.to_dict())}")
    return replace(base, **{"stride": (), **overrides})  # by default the stride is the patch


def create_model(name: str, weights: str | PathLike[str] | None = None, **overrides: Any) -> ViT:
    """Build a model by name, e.g. `create_model("vit_base_patch16_224", out=10)`.

    Args:
        name: one of `list_models()`.
        weights: a checkpoint to load and adapt to the overrides; see `load_weights`.
        overrides: fields of `ViTConfig`.
    """
    model = ViT(model_config(name, **overrides))
    if weights is not None:
        load_weights(model, weights)
    return model
