"""Vitreous: Vision Transformers for scientific data.

import vitreous as vt
model = vt.create_model("vit_spectrum_4500")
with vt.record(model) as seen: ...
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vitreous.core.errors import InputError
from vitreous.core.version import __version__ as __version__

if TYPE_CHECKING:
    from vitreous import data, estimators, nn, train, zoo
    from vitreous.estimators import ViTClassifier, ViTRegressor
    from vitreous.nn import ViT, ViTConfig, merged, record
    from vitreous.run.load import load
    from vitreous.zoo import create_model, list_models, load_model, load_weights, save_model, save_weights

_ROOMS = ("data", "estimators", "nn", "train", "zoo")
_HOMES = {  # where each name lives
    **dict.fromkeys(("ViT", "ViTConfig", "merged", "record"), "nn"),
    **dict.fromkeys(("create_model", "list_models", "load_model", "load_weights", "save_model", "save_weights"), "zoo"),
    **dict.fromkeys(("ViTClassifier", "ViTRegressor"), "estimators"),
    "load": "run.load",
}

__all__ = ["InputError", "data", "estimators", "nn", "train", "zoo"]
__all__ += ["ViT", "ViTClassifier", "ViTConfig", "ViTRegressor", "load", "merged", "record"]
__all__ += ["create_model", "list_models", "load_model", "load_weights", "save_model", "save_weights"]


def __getattr__(name: str) -> Any:
    """Load a room on first use, so that the command line answers `--help`, and an ONNX model files, without torch."""
    if name in _ROOMS:
        return import_module(f"vitreous.{name}")
    if name in _HOMES:
        return getattr(import_module(f"vitreous.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'vitreous' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
