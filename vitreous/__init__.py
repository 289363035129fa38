"""Vitreous: Vision Transformers for scientific data.

import vitreous as vt
model = vt.create_model("vit_spectrum_4500")
with vt.record(model) as seen: ...
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vitreous.core.errors import InputError as InputError
from vitreous.core.version import __version__ as __version__

if TYPE_CHECKING:
    from vitreous import data as data
    from vitreous import estimators as estimators
    from vitreous import nn as nn
    from vitreous import train as train
    from vitreous import zoo as zoo
    from vitreous.estimators import ViTClassifier as ViTClassifier
    from vitreous.estimators import ViTRegressor as ViTRegressor
    from vitreous.nn import ViT as ViT
    from vitreous.nn import ViTConfig as ViTConfig
    from vitreous.nn import merged as merged
    from vitreous.nn import record as record
    from vitreous.run.load import load as load
    from vitreous.zoo import create_model as create_model
    from vitreous.zoo import list_models as list_models
    from vitreous.zoo import load_model as load_model
    from vitreous.zoo import load_weights as load_weights
    from vitreous.zoo import save_model as save_model
    from vitreous.zoo import save_weights as save_weights

_PACKAGES = ("data", "estimators", "nn", "train", "zoo")
_HOMES = {  # where each name lives
    **dict.fromkeys(("ViT", "ViTConfig", "merged", "record"), "nn"),
    **dict.fromkeys(("create_model", "list_models", "load_model", "load_weights", "save_model", "save_weights"), "zoo"),
    **dict.fromkeys(("ViTClassifier", "ViTRegressor"), "estimators"),
    "load": "run.load",
}

__all__ = sorted(("InputError", *_PACKAGES, *_HOMES))


def __getattr__(name: str) -> Any:
    """Load a package on first use, so that `vitreous --help` and predictions of ONNX models do not import torch."""
    if name in _PACKAGES:
        return import_module(f"vitreous.{name}")
    if name in _HOMES:
        return getattr(import_module(f"vitreous.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'vitreous' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
