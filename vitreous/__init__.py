"""Vitreous: Vision Transformers for scientific data.

import vitreous as vt
model = vt.create_model("vit_spectrum_4500")
with vt.record(model) as seen: ...
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vitreous.errors import InputError

if TYPE_CHECKING:
    from vitreous import nn, zoo
    from vitreous.nn import ViT, ViTConfig, record
    from vitreous.zoo import create_model, list_models, load_model, load_weights, save_model, save_weights

__version__ = "0.1.0"

# Loaded on first use, so that the command line answers `--help` without loading torch.
_HOME = {
    "ViT": "nn",
    "ViTConfig": "nn",
    "record": "nn",
    "create_model": "zoo",
    "list_models": "zoo",
    "load_model": "zoo",
    "load_weights": "zoo",
    "save_model": "zoo",
    "save_weights": "zoo",
}

__all__ = [
    "InputError",
    "ViT",
    "ViTConfig",
    "create_model",
    "list_models",
    "load_model",
    "load_weights",
    "nn",
    "record",
    "save_model",
    "save_weights",
    "zoo",
]


def __getattr__(name: str) -> Any:
    if name in ("nn", "zoo"):
        return import_module(f"vitreous.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'vitreous' has no attribute {name!r}")
    return getattr(import_module(f"vitreous.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
