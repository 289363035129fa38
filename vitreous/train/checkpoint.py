"""Checkpoints: the state of a training between two steps, from any number of processes, in one file and back.

One safetensors file holds weights, average, optimisers and counters, so that it is replaced whole or not at all.
"""

import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict as states

from vitreous.core.atomic import make_folder, write_atomically
from vitreous.core.checksums import NO_CHECKSUM, add_checksum, check_metadata, verify_own_checksum
from vitreous.core.errors import InputError
from vitreous.core.json_text import parse_json
from vitreous.run.folder import LAST as LAST
from vitreous.run.folder import check_types

_STATE = {"done": int, "best": (int, float, type(None)), "stale": int, "numbers": dict, "config": dict}
_FULL = states.StateDictOptions(full_state_dict=True)
_FULL_ON_CPU = states.StateDictOptions(full_state_dict=True, cpu_offload=True)


def gather_weights(model: nn.Module) -> dict[str, Any]:
    """The whole state of a model on the CPU of the main process, also if it is sharded; every process must call it."""
    return states.get_model_state_dict(model, options=_FULL_ON_CPU)


def gather(
    model: nn.Module, optimisers: list[torch.optim.Optimizer], average: dict[str, Any]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All tensors by name, and the optimisers' numbers; every process must call it."""
    tensors = {f"model/{name}": value for name, value in gather_weights(model).items()}
    tensors |= {f"average/{name}": value for name, value in average.items()}
    numbers: dict[str, Any] = {}
    for i, optimiser in enumerate(optimisers):
        full: dict[str, Any] = states.get_optimizer_state_dict(model, optimiser, options=_FULL_ON_CPU)
        for name, state in full.get("state", {}).items():  # empty except on the main process
            for key, value in state.items():
                (tensors if isinstance(value, Tensor) else numbers)[f"optimiser{i}/{name}/{key}"] = value
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}, numbers


def write(folder: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Replace the folder's last checkpoint."""
    path = folder / LAST
    make_folder(path.parent)
    metadata = {"vitreous": json.dumps(state), "checksum": NO_CHECKSUM}
    write_atomically(path, add_checksum(safetensors.torch.save(tensors, metadata)))


def read(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and state of the last checkpoint in a run folder."""
    state = read_state(folder)
    return safetensors.torch.load_file(folder / LAST), state


def read_state(folder: Path) -> dict[str, Any]:
    """Counters, settings and fingerprint of the last checkpoint in a run folder, which is verified."""
    path = folder / LAST
    if not path.is_file():
        raise InputError(f"{folder}: has no checkpoint to resume from ({LAST} is missing)")
    try:
        verify_own_checksum(path)
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
        check_metadata(metadata)
        state: dict[str, Any] = parse_json(metadata["vitreous"])
        check_types(state, _STATE)
        return state
    except (SafetensorError, ValueError, KeyError, TypeError, OSError, AttributeError):
        raise InputError(f"{path}: is damaged; delete it to start again") from None


def restore(
    tensors: dict[str, Tensor], numbers: dict[str, Any], model: nn.Module, optimisers: list[torch.optim.Optimizer]
) -> None:
    """Load a checkpoint into the model and its optimisers."""
    load_weights(model, tensors, "model/")
    for i, optimiser in enumerate(optimisers):
        empty = states.get_optimizer_state_dict(model, optimiser, options=_FULL)
        state: dict[str, dict[str, Any]] = {}
        for place, value in (_under(tensors, f"optimiser{i}/") | _under(numbers, f"optimiser{i}/")).items():
            name, _, key = place.rpartition("/")
            state.setdefault(name, {})[key] = value
        full: dict[str, Any] = {"state": state, "param_groups": empty["param_groups"]}
        states.set_optimizer_state_dict(model, optimiser, full, options=_FULL)


def load_weights(model: nn.Module, tensors: dict[str, Tensor], prefix: str) -> None:
    """Load the tensors under a prefix into the model, also if it is sharded."""
    states.set_model_state_dict(model, _under(tensors, prefix), options=_FULL)


def _under(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
