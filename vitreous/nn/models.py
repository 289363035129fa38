"""The kinds of model that a run can hold, by name."""

from collections.abc import Mapping
from typing import Any

from vitreous.errors import InputError, check_choice
from vitreous.nn.cnn import CNN, CNNConfig
from vitreous.nn.config import ViTConfig
from vitreous.nn.vit import ViT

Config = ViTConfig | CNNConfig
Model = ViT | CNN

_KINDS: dict[str, tuple[type[ViTConfig], type[ViT]] | tuple[type[CNNConfig], type[CNN]]] = {
    "vit": (ViTConfig, ViT),
    "cnn": (CNNConfig, CNN),
}


def build(config: Config) -> Model:
    """The model of a configuration."""
    return ViT(config) if isinstance(config, ViTConfig) else CNN(config)


def describe(config: Config) -> dict[str, Any]:
    """The configuration and its kind, ready for JSON."""
    (kind,) = (name for name, (settings, _) in _KINDS.items() if isinstance(config, settings))
    return {"model": kind, **config.to_dict()}


def config_from(values: Mapping[str, Any]) -> Config:
    """The inverse of `describe`."""
    if "model" not in values:
        raise InputError("the settings do not say what kind of model they are for")
    check_choice("model", values["model"], _KINDS)
    return _KINDS[values["model"]][0].from_dict({k: v for k, v in values.items() if k != "model"})
