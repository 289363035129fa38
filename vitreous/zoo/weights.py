"""Weight files in and out: safetensors, `weights_only` torch files, Google's `.npz`, our folders, the hub."""

import json
import os
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor, nn

from vitreous.atomic import write_atomically
from vitreous.errors import InputError, check_choice, first_line
from vitreous.nn import ViT, ViTConfig
from vitreous.nn.models import (
    Config,
    Model,
    TextConfig,
    TextModel,
    build,
    config_from,
    describe,
    text_config_from,
)
from vitreous.nn.record import unwrap
from vitreous.nn.tokens import kernel_shape, token_grid
from vitreous.zoo.adapt import check_fit, fit
from vitreous.zoo.layouts import KERNEL, Checkpoint, State, read_layout, to_timm

HUB = "hf-hub:"
CONFIG, WEIGHTS = "config.json", "model.safetensors"
_MARK = "vitreous"
_Settings = TypeVar("_Settings", Config, TextConfig)


def load_weights(model: nn.Module, source: str | PathLike[str], verbose: bool = True) -> list[str]:
    """Load a checkpoint into a model, adapting what another resolution, class or channel count asks for (S1.6).

    Args:
        model: a `ViT`, compiled or not; changed only if everything fits.
        source: a `.safetensors`, `.npz`, `.pt`, `.pth` or `.bin` file in our own, timm's, transformers' or Google's
            layout, a folder with a `model.safetensors`, or `hf-hub:owner/name` for the Hugging Face hub
            (`hf-hub:owner/name/file@revision` for another file or revision).
        verbose: print what was adapted.

    Returns:
        What was adapted, a line each.
    """
    inner = _vit(model)
    try:
        state, notes = fit(_read(source), inner)
    except InputError as fault:
        raise InputError(f"{source}: {fault}") from None
    except (IndexError, RuntimeError, TypeError, ValueError, ZeroDivisionError) as fault:
        raise InputError(f"{source}: a weight has a shape that no model gives it ({first_line(fault)})") from None
    inner.load_state_dict(state)
    if verbose:
        for note in notes or ["every weight as it is"]:
            print(f"{source}: {note}")
    return notes


def save_weights(model: nn.Module, path: str | PathLike[str], layout: str = "vitreous") -> None:
    """Write a `.safetensors` file under our names or, with `layout="timm"`, under timm's."""
    check_choice("layout", layout, ("vitreous", "timm"))
    write_atomically(Path(path), to_safetensors(model, layout))


def to_safetensors(model: nn.Module, layout: str = "vitreous", more: Mapping[str, Any] | None = None) -> bytes:
    """The content of such a file, which says what model it is for, and `more` (`read_about`)."""
    inner = _known(model)
    state = to_timm(_vit(inner)) if layout == "timm" else inner.state_dict()
    about = {_MARK: json.dumps({"layout": layout, "config": describe(inner.config), **(more or {})})}
    return safetensors.torch.save({k: v.contiguous() for k, v in state.items()}, about)


def save_model(model: nn.Module, folder: str | PathLike[str]) -> None:
    """Write `config.json` and `model.safetensors`, each whole or not at all."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise InputError(f"{folder}: cannot be made a folder ({fault.strerror})") from None
    save_weights(model, folder / WEIGHTS)
    write_atomically(folder / CONFIG, (json.dumps(describe(_known(model).config), indent=1) + "\n").encode())


def load_model(folder: str | PathLike[str]) -> Model:
    """The model that `save_model` wrote."""
    folder = Path(folder)
    return with_weights(read_config(folder), folder / WEIGHTS)


def load_text_model(folder: str | PathLike[str]) -> TextModel:
    """The model of texts that `save_model` wrote."""
    folder = Path(folder)
    return with_weights(_read_settings(folder, text_config_from), folder / WEIGHTS)


@overload
def with_weights(config: Config, path: Path) -> Model: ...
@overload
def with_weights(config: TextConfig, path: Path) -> TextModel: ...
def with_weights(config: Config | TextConfig, path: Path) -> Model | TextModel:
    """The model of a configuration with the weights of a file, which must fit as they are."""
    model = build(config)
    try:
        state = _read_file(path)
        check_fit(state, model.state_dict())
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from None
    model.load_state_dict(state)
    return model


def _known(model: nn.Module) -> Model | TextModel:
    inner = unwrap(model)
    if not isinstance(inner, Model | TextModel):
        raise InputError(f"model: found {type(inner).__name__}, expected a ViT or a CNN")
    return inner


def _vit(model: nn.Module) -> ViT:
    inner = _known(model)
    if not isinstance(inner, ViT):
        raise InputError(f"model: found {type(inner).__name__}, expected a ViT")
    return inner


def _read(source: str | PathLike[str]) -> Checkpoint:
    text = os.fspath(source)
    path = _download(text.removeprefix(HUB)) if text.startswith(HUB) else Path(text)
    path = path / WEIGHTS if path.is_dir() else path
    state, about = _read_file(path), read_about(path)
    checkpoint = read_layout(state) if about.get("layout") != "vitreous" else Checkpoint(state)
    if "config" in about:  # ours says what grid its positions have, and what its flat patch projection was cut from
        config = config_from(about["config"])
        if isinstance(config, ViTConfig) and config.tokens == "patch":
            kernel = kernel_shape(config.dim, config.input[0], config.patch, config.stem)
            checkpoint.grid = token_grid(config.grid, config.patch, config.stride)
            checkpoint.state[KERNEL] = checkpoint.state[KERNEL].reshape(kernel)
    return checkpoint


def read_about(path: Path) -> dict[str, Any]:
    """What we noted in a file that we wrote; nothing in a file of others."""
    if path.suffix != ".safetensors":
        return {}
    try:
        with safe_open(path, "pt") as file:
            found = json.loads((file.metadata() or {}).get(_MARK, "{}"))
    except Exception as fault:
        raise InputError(f"the file is damaged or not what its name says ({first_line(fault)})") from None
    return found if isinstance(found, dict) else {}


def read_config(folder: Path) -> Config:
    """The configuration of the model in a folder."""
    return _read_settings(folder, config_from)


def _read_settings(folder: Path, understand: Callable[[Mapping[str, Any]], _Settings]) -> _Settings:
    path = folder / CONFIG
    try:
        values = json.loads(path.read_text())
    except OSError as fault:
        raise InputError(f"{path}: cannot be read ({fault.strerror})") from None
    except ValueError:
        raise InputError(f"{path}: not valid JSON") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected a JSON object of model settings")
    try:
        return understand(values)
    except (InputError, TypeError) as fault:
        raise InputError(f"{path}: {fault}") from None


def _read_file(path: Path) -> State:
    """Tensors by name; nothing in the file is ever executed."""
    if not path.is_file():
        raise InputError(f"no such file, nor a folder with a {WEIGHTS}")
    check_choice("file type", path.suffix, _READERS)
    try:
        return _READERS[path.suffix](path)
    except InputError:
        raise
    except Exception as fault:  # on damaged bytes the readers raise whatever they stumble over
        raise InputError(f"the file is damaged or not what its name says ({first_line(fault)})") from None


def _read_npz(path: Path) -> State:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {name: torch.from_numpy(np.asarray(arrays[name])) for name in arrays}


def _read_torch(path: Path) -> State:
    found = torch.load(path, map_location="cpu", weights_only=True)
    for wrapper in ("state_dict", "model"):
        if isinstance(found, Mapping) and isinstance(found.get(wrapper), Mapping):
            found = found[wrapper]
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        raise InputError("expected a mapping from names to tensors")
    return dict(found)


_READERS: dict[str, Callable[[Path], State]] = {
    ".safetensors": safetensors.torch.load_file,
    ".npz": _read_npz,
    ".pt": _read_torch,
    ".pth": _read_torch,
    ".bin": _read_torch,
}


def _download(text: str) -> Path:
    """A file of a hub repository, `owner/name[/file][@revision]`, fetched into huggingface_hub's cache."""
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError:
        raise InputError("the hub needs an extra: pip install 'vitreous[hub]'") from None
    place, _, revision = text.partition("@")
    if "/" not in place:
        raise InputError(f"expected {HUB}owner/name, with /file and @revision after it if you like")
    owner, name, *file = place.split("/", 2)
    try:
        return Path(hf_hub_download(f"{owner}/{name}", file[0] if file else WEIGHTS, revision=revision or None))
    except (HfHubHTTPError, HFValidationError, OSError) as fault:
        raise InputError(f"cannot be fetched from the hub ({first_line(fault)})") from None
