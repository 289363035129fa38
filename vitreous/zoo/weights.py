"""Load and save weights: safetensors, torch files, Google's `.npz`, our folders, the Hugging Face hub."""

import json
import os
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor, nn

from vitreous.core.atomic import make_folder, write_atomically
from vitreous.core.checksums import check_metadata, read_json, update_checksums, verify_checksum, verify_own_checksum
from vitreous.core.errors import InputError, check_choice, first_line
from vitreous.core.json_text import parse_json
from vitreous.nn import ViT, ViTConfig
from vitreous.nn.execution import unwrap
from vitreous.nn.models import Config, Model, build, config_from, describe
from vitreous.nn.tokens import kernel_shape
from vitreous.zoo.adapt import adapt_checkpoint, check_state
from vitreous.zoo.layouts import KERNEL, Checkpoint, State, read_layout, to_timm

HUB = "hf-hub:"
CONFIG, WEIGHTS = "config.json", "model.safetensors"
_METADATA_KEY = "vitreous"
_Settings = TypeVar("_Settings")
_Built = TypeVar("_Built", bound=nn.Module)


def load_weights(model: nn.Module, source: str | PathLike[str], verbose: bool = True) -> list[str]:
    """Load a checkpoint into a model and adapt it to resolution, classes and channels (S1.6).

    Args:
        model: a `ViT`, compiled or not; unchanged after an error.
        source: a `.safetensors`, `.npz`, `.pt`, `.pth` or `.bin` file in our layout or that of timm, transformers or
            Google, a folder with a `model.safetensors`, or `hf-hub:owner/name` for the Hugging Face hub
            (`hf-hub:owner/name/file@revision` for another file or revision).
        verbose: print the notes.

    Returns:
        A note for each adapted part.
    """
    inner = _vit(model)
    try:
        state, notes = adapt_checkpoint(_read(source), inner)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    except (IndexError, RuntimeError, TypeError, ValueError, ZeroDivisionError) as error:
        raise InputError(f"{source}: a weight has an impossible shape ({first_line(error)})") from None
    inner.load_state_dict(state)
    if verbose:
        for note in notes or ["loaded without changes"]:
            print(f"{source}: {note}")
    return notes


def save_weights(model: nn.Module, path: str | PathLike[str], layout: str = "vitreous") -> None:
    """Write a `.safetensors` file with our names or, with `layout="timm"`, with those of timm."""
    check_choice("layout", layout, ("vitreous", "timm"))
    write_atomically(Path(path), to_safetensors(model, layout))


def to_safetensors(model: nn.Module, layout: str = "vitreous", more: Mapping[str, Any] | None = None) -> bytes:
    """Content of a `.safetensors` file with the configuration, and `more`, in its metadata; see `read_metadata`."""
    inner = _with_config(model)
    state = to_timm(_vit(inner)) if layout == "timm" else inner.state_dict()
    metadata = {_METADATA_KEY: json.dumps({"layout": layout, "config": describe(inner.config), **(more or {})})}
    return safetensors.torch.save({name: value.contiguous() for name, value in state.items()}, metadata)


def save_model(model: nn.Module, folder: str | PathLike[str]) -> None:
    """Write `config.json` and `model.safetensors`, each atomically."""
    folder = Path(folder)
    make_folder(folder)
    save_weights(model, folder / WEIGHTS)
    write_atomically(folder / CONFIG, (json.dumps(describe(_with_config(model).config), indent=1) + "\n").encode())
    update_checksums(folder, (WEIGHTS, CONFIG))


def load_model(folder: str | PathLike[str]) -> Model:
    """Load a model that `save_model` has written."""
    folder = Path(folder)
    return build_with_weights(read_config(folder), folder / WEIGHTS)


def build_with_weights(
    config: _Settings,
    path: Path,
    builder: Callable[[_Settings], _Built] = build,  # type: ignore[assignment]
) -> _Built:
    """Build a model and load weights that must match it exactly."""
    try:
        model = builder(config)
    except (RuntimeError, TypeError, ValueError, MemoryError) as error:
        raise InputError(f"{path}: its settings describe an impossible model ({first_line(error)})") from None
    load_exact_weights(model, path)
    return model


def load_exact_weights(model: nn.Module, path: Path) -> None:
    """Load weights that must match the model exactly."""
    try:
        state = _read_file(path)
        check_state(state, model.state_dict())
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    model.load_state_dict(state)


def _with_config(model: nn.Module) -> Any:
    """The model without wrappers; it must have a configuration."""
    inner = unwrap(model)
    if not hasattr(getattr(inner, "config", None), "kind"):
        raise InputError(f"model: found {type(inner).__name__}, expected a ViT or a CNN")
    return inner


def _vit(model: nn.Module) -> ViT:
    inner = _with_config(model)
    if not isinstance(inner, ViT):
        raise InputError(f"model: found {type(inner).__name__}, expected a ViT")
    return inner


def _read(source: str | PathLike[str]) -> Checkpoint:
    text = os.fspath(source)
    path = _download(text.removeprefix(HUB)) if text.startswith(HUB) else Path(text)
    path = path / WEIGHTS if path.is_dir() else path
    state, metadata = _read_file(path), read_metadata(path)
    checkpoint = read_layout(state) if metadata.get("layout") != "vitreous" else Checkpoint(state)
    if "config" in metadata:  # our files store the flattened patch projection; the configuration has grid and patch
        config = config_from(metadata["config"])
        if isinstance(config, ViTConfig) and config.tokens == "patch":
            checkpoint.grid = config.token_grid
            checkpoint.state[KERNEL] = checkpoint.state[KERNEL].reshape(kernel_shape(config))
    return checkpoint


def read_metadata(path: Path) -> dict[str, Any]:
    """Metadata of a `.safetensors` file that Vitreous has written; empty for other files."""
    if path.suffix != ".safetensors":
        return {}
    try:
        with safe_open(path, "pt") as file:
            metadata = parse_json((file.metadata() or {}).get(_METADATA_KEY, "{}"))
    except Exception as error:
        raise InputError(f"the file is damaged or not of the type of its suffix ({first_line(error)})") from None
    if not isinstance(metadata, dict):
        return {}
    if "task" in metadata or "checksum" in metadata:  # an exported run
        check_metadata(metadata)
        verify_own_checksum(path)
    return metadata


def read_config(folder: Path) -> Config:
    """Configuration of the model in a folder."""
    return read_settings(folder, config_from)


def read_settings(folder: Path, parse: Callable[[Mapping[str, Any]], _Settings]) -> _Settings:
    """Values of `config.json` in a folder, converted by `parse`."""
    path = folder / CONFIG
    values = read_json(path)
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected a JSON object of model settings")
    try:
        return parse(values)
    except (InputError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InputError(f"{path}: {first_line(error)}") from None


def _read_file(path: Path) -> State:
    """Tensors by name; no code in the file is executed."""
    if not path.is_file():
        raise InputError(f"no such file, nor a folder with a {WEIGHTS}")
    check_choice("file type", path.suffix, _READERS)
    verify_checksum(path)
    try:
        return _READERS[path.suffix](path)
    except InputError:
        raise
    except Exception as error:  # damaged files make the readers raise exceptions of any type
        raise InputError(f"the file is damaged or not of the type of its suffix ({first_line(error)})") from None


def _read_npz(path: Path) -> State:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {name: torch.from_numpy(np.asarray(arrays[name])) for name in arrays}


def _read_torch(path: Path) -> State:
    content = torch.load(path, map_location="cpu", weights_only=True)
    for wrapper in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise InputError("expected a mapping from names to tensors")
    return dict(content)


_READERS: dict[str, Callable[[Path], State]] = {
    ".safetensors": safetensors.torch.load_file,
    ".npz": _read_npz,
    ".pt": _read_torch,
    ".pth": _read_torch,
    ".bin": _read_torch,
}


def _download(text: str) -> Path:
    """Download `owner/name[/file][@revision]` from the hub into the cache of huggingface_hub."""
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError:
        raise InputError("the hub needs an extra: pip install 'vitreous[hub]'") from None
    repository, _, revision = text.partition("@")
    if "/" not in repository:
        raise InputError(f"expected {HUB}owner/name, optionally followed by /file and @revision")
    owner, name, *file = repository.split("/", 2)
    try:
        return Path(hf_hub_download(f"{owner}/{name}", file[0] if file else WEIGHTS, revision=revision or None))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise InputError(f"cannot be downloaded from the hub ({first_line(error)})") from None
