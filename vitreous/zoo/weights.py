"""Weight files in and out: safetensors, `weights_only` torch files, Google's `.npz`, our folders, the hub."""

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from vitreous.errors import InputError, check_choice
from vitreous.nn import PatchTokenizer, ViT, ViTConfig
from vitreous.zoo.adapt import fit
from vitreous.zoo.layouts import KERNEL, Checkpoint, State, read_layout, to_timm

HUB = "hf-hub:"
CONFIG, WEIGHTS = "config.json", "model.safetensors"


def load_weights(model: ViT, source: str | PathLike[str], verbose: bool = True) -> list[str]:
    """Load a checkpoint into a model, adapting what another resolution, class or channel count asks for (S1.6).

    Args:
        model: changed only if everything fits.
        source: a `.safetensors`, `.npz`, `.pt`, `.pth` or `.bin` file in timm's, transformers' or Google's layout,
            a folder written by `save_model`, or `hf-hub:owner/name` for the Hugging Face hub.
        verbose: print what was adapted.

    Returns:
        What was adapted, a line each.
    """
    try:
        state, notes = fit(_read(source), model)
    except InputError as fault:
        raise InputError(f"{source}: {fault}") from None
    model.load_state_dict(state)
    if verbose:
        for note in notes or ["every weight as it is"]:
            print(f"{source}: {note}")
    return notes


def save_weights(model: ViT, path: str | PathLike[str], layout: str = "vitreous") -> None:
    """Write a `.safetensors` file under our names or, with `layout="timm"`, under timm's."""
    check_choice("layout", layout, ("vitreous", "timm"))
    state = to_timm(model) if layout == "timm" else model.state_dict()
    write_atomically(Path(path), safetensors.torch.save({k: v.contiguous() for k, v in state.items()}))


def save_model(model: ViT, folder: str | PathLike[str]) -> None:
    """Write `config.json` and `model.safetensors`, each whole or not at all."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_weights(model, folder / WEIGHTS)
    write_atomically(folder / CONFIG, (json.dumps(model.config.to_dict(), indent=1) + "\n").encode())


def load_model(folder: str | PathLike[str]) -> ViT:
    """The model that `save_model` wrote."""
    model = ViT(read_config(Path(folder)))
    load_weights(model, folder, verbose=False)
    return model


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the file and move into place, so that a fault leaves what was there before."""
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as fault:
        Path(beside).unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written ({fault.strerror})") from None


def _read(source: str | PathLike[str]) -> Checkpoint:
    text = os.fspath(source)
    path = _download(text.removeprefix(HUB)) if text.startswith(HUB) else Path(text)
    if (path / CONFIG).is_file():
        return _read_folder(path)
    return read_layout(_read_file(path))


def _read_folder(folder: Path) -> Checkpoint:
    """Our own layout; the config beside the weights says what the flat patch projection was cut from."""
    with torch.device("meta"):
        tokenizer = ViT(read_config(folder)).tokenizer
    state = _read_file(folder / WEIGHTS)
    if KERNEL not in state or not isinstance(tokenizer, PatchTokenizer):
        return Checkpoint(state)
    if state[KERNEL].numel() != tokenizer.kernel.numel():
        raise InputError(f"{KERNEL} is {tuple(state[KERNEL].shape)} where {CONFIG} makes it {tuple(tokenizer.kernel)}")
    return Checkpoint(state | {KERNEL: state[KERNEL].reshape(tokenizer.kernel)}, grid=tokenizer.shape)


def read_config(folder: Path) -> ViTConfig:
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
        return ViTConfig.from_dict(values)
    except (InputError, TypeError) as fault:
        raise InputError(f"{path}: {fault}") from None


def _read_file(path: Path) -> State:
    """Tensors by name; nothing in the file is ever executed."""
    if not path.is_file():
        raise InputError("no such file, nor a folder written by save_model")
    check_choice("file type", path.suffix, _READERS)
    try:
        return _READERS[path.suffix](path)
    except InputError:
        raise
    except Exception as fault:  # on damaged bytes the readers raise whatever they stumble over
        raise InputError(f"the file is damaged or not what its name says ({_first_line(fault)})") from None


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


def _download(repo: str) -> Path:
    """The weight file of a hub repository, fetched into huggingface_hub's cache."""
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError:
        raise InputError("the hub needs an extra: pip install 'vitreous[hub]'") from None
    name, _, revision = repo.partition("@")
    try:
        return Path(hf_hub_download(name, WEIGHTS, revision=revision or None))
    except (HfHubHTTPError, HFValidationError, OSError) as fault:
        raise InputError(f"cannot be fetched from the hub ({_first_line(fault)})") from None


def _first_line(fault: Exception) -> str:
    return next(iter(str(fault).splitlines()), type(fault).__name__)
