"""The models that translate, by name, and how they are read from a folder."""

from os import PathLike
from pathlib import Path
from typing import Any

from vitreous.nn.models import choose_config
from vitreous.text.recurrent import Recurrent, RecurrentConfig
from vitreous.text.transformer import Transformer, TransformerConfig
from vitreous.zoo.weights import WEIGHTS, build_with_weights, read_settings

TextConfig = TransformerConfig | RecurrentConfig
TextModel = Transformer | Recurrent

_KINDS: dict[str, type[TextConfig]] = {config.kind: config for config in (TransformerConfig, RecurrentConfig)}
_MODELS: dict[type[TextConfig], Any] = {TransformerConfig: Transformer, RecurrentConfig: Recurrent}


def build_text_model(config: TextConfig) -> TextModel:
    """The model of a configuration."""
    model: TextModel = _MODELS[type(config)](config)
    return model


def load_text_model(folder: str | PathLike[str]) -> TextModel:
    """The model that `save_model` wrote."""
    folder = Path(folder)
    config = read_settings(folder, lambda values: choose_config(values, _KINDS))
    return build_with_weights(config, folder / WEIGHTS, build_text_model)
