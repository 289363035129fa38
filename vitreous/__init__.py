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
    from vitreous import data, estimators, export, gallery, insight, nn, powder, recipes, run, text, train, zoo
    from vitreous.estimators import ViTClassifier, ViTRegressor
    from vitreous.nn import ViT, ViTConfig, merged, record
    from vitreous.run.load import load
    from vitreous.zoo import create_model, list_models, load_model, load_weights, save_model, save_weights

__all__ = ["InputError", "ViT", "ViTClassifier", "ViTConfig", "ViTRegressor", "load", "merged", "record"]
__all__ += ["create_model", "list_models", "load_model", "load_weights", "save_model", "save_weights"]
__all__ += ["data", "estimators", "export", "gallery", "insight", "nn"]
__all__ += ["powder", "recipes", "run", "text", "train", "zoo"]

_HOMES = {  # the other names of `__all__` are packages
    **dict.fromkeys(("ViT", "ViTConfig", "merged", "record"), "nn"),
    **dict.fromkeys(("ViTClassifier", "ViTRegressor"), "estimators"),
    **dict.fromkeys(("create_model", "list_models", "load_model", "load_weights", "save_model", "save_weights"), "zoo"),
    "load": "run.load",
}


def __getattr__(name: str) -> Any:
    """Load a package on first use, so that `vitreous --help` and predictions of ONNX models do not import torch."""
    if name in _HOMES:
        return getattr(import_module(f"vitreous.{_HOMES[name]}"), name)
    if name in __all__:
        return import_module(f"vitreous.{name}")
    raise AttributeError(f"module 'vitreous' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
