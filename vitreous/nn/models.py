"""The kinds of model that a run can hold, by name: those of samples on a grid or in a set, and those of texts."""

from collections.abc import Mapping
from typing import Any, TypeVar, overload

from vitreous.errors import InputError, check_choice
from vitreous.nn.cnn import CNN, CNNConfig
from vitreous.nn.config import ViTConfig
from vitreous.nn.recurrent import Recurrent, RecurrentConfig
from vitreous.nn.seq2seq import Transformer, TransformerConfig
from vitreous.nn.vit import ViT
from vitreous.settings import Settings

Config = ViTConfig | CNNConfig
Model = ViT | CNN
TextConfig = TransformerConfig | RecurrentConfig
TextModel = Transformer | Recurrent

_KINDS: dict[str, type[Config]] = {"vit": ViTConfig, "cnn": CNNConfig}
_TEXTS: dict[str, type[TextConfig]] = {"transformer": TransformerConfig, "recurrent": RecurrentConfig}
_MODELS: dict[type[Settings], Any] = {
    ViTConfig: ViT, CNNConfig: CNN, TransformerConfig: Transformer, RecurrentConfig: Recurrent
}  # fmt: skip
_Chosen = TypeVar("_Chosen", bound=Settings)


@overload
def build(config: Config) -> Model: ...
@overload
def build(config: TextConfig) -> TextModel: ...
def build(config: Config | TextConfig) -> Model | TextModel:
    """The model of a configuration."""
    model: Model | TextModel = _MODELS[type(config)](config)
    return model


def describe(config: Config | TextConfig) -> dict[str, Any]:
    """The configuration and its kind, ready for JSON."""
    (kind,) = (name for name, settings in (_KINDS | _TEXTS).items() if isinstance(config, settings))
    return {"model": kind, **config.to_dict()}


def config_from(values: Mapping[str, Any]) -> Config:
    """The inverse of `describe`, for samples."""
    return _chosen(values, _KINDS)


def text_config_from(values: Mapping[str, Any]) -> TextConfig:
    """The inverse of `describe`, for texts."""
    return _chosen(values, _TEXTS)


def _chosen(values: Mapping[str, Any], kinds: Mapping[str, type[_Chosen]]) -> _Chosen:
    if "model" not in values:
        raise InputError("the settings do not say what kind of model they are for")
    check_choice("model", values["model"], kinds)
    return kinds[values["model"]].from_dict({k: v for k, v in values.items() if k != "model"})
