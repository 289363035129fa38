"""Models and their configurations by kind, and configurations as plain values."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from vitreous.core.errors import InputError, check_choice
from vitreous.core.settings import Settings
from vitreous.nn.cnn import CNN, CNNConfig
from vitreous.nn.config import ViTConfig
from vitreous.nn.vit import ViT

Config = ViTConfig | CNNConfig
Model = ViT | CNN

_KINDS: dict[str, type[Config]] = {config.kind: config for config in (ViTConfig, CNNConfig)}
_MODELS: dict[type[Config], Callable[[Any], Model]] = {ViTConfig: ViT, CNNConfig: CNN}
_Chosen = TypeVar("_Chosen", bound=Settings)


def build(config: Config) -> Model:
    """The model of a configuration."""
    return _MODELS[type(config)](config)


def describe(config: Any) -> dict[str, Any]:
    """A model's configuration and its kind, ready for JSON."""
    return {"model": config.kind, **config.to_dict()}


def config_from(values: Mapping[str, Any]) -> Config:
    """The inverse of `describe`."""
    return choose_config(values, _KINDS)


def choose_config(values: Mapping[str, Any], kinds: Mapping[str, type[_Chosen]]) -> _Chosen:
    """The configuration of one of several kinds, from plain values."""
    if "model" not in values:
        raise InputError("model: not found in the settings, expected the kind of model")
    check_choice("model", values["model"], kinds)
    return kinds[values["model"]].from_dict({k: v for k, v in values.items() if k != "model"})
