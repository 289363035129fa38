"""The state of a training between two steps: gathered from any number of processes, in one file, and back.

One safetensors file holds weights, average, optimisers and counters, so that it is replaced whole or not at all.
"""

import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from vitreous.atomic import write_atomically
from vitreous.errors import InputError

LAST = Path("last") / "state.safetensors"
_FULL = StateDictOptions(full_state_dict=True, cpu_offload=True)


def weights(model: nn.Module) -> dict[str, Any]:
    """The whole state of a model on the CPU of the main process, however it is shared; every process must call it."""
    found: dict[str, Any] = get_model_state_dict(model, options=_FULL)
    return found


def gather(
    model: nn.Module, optimisers: list[torch.optim.Optimizer], average: dict[str, Any]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All tensors by name, and the optimisers' numbers; every process must call it."""
    tensors = {f"model/{name}": value for name, value in weights(model).items()}
    tensors |= {f"average/{name}": value for name, value in average.items()}
    numbers: dict[str, Any] = {}
    for i, optimiser in enumerate(optimisers):
        found: dict[str, Any] = get_optimizer_state_dict(model, optimiser, options=_FULL)
        for name, state in found.get("state", {}).items():  # empty but on the main process
            for key, value in state.items():
                if isinstance(value, Tensor):
                    tensors[f"optimiser{i}/{name}/{key}"] = value
                else:
                    numbers[f"optimiser{i}/{name}/{key}"] = value
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}, numbers


def write(folder: Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Replace the folder's last state by this one."""
    path = folder / LAST
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, safetensors.torch.save(tensors, {"vitreous": json.dumps(about)}))


def read(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The last state of a run folder."""
    path = folder / LAST
    if not path.is_file():
        raise InputError(f"{folder}: has nothing to resume from ({LAST} is missing)")
    try:
        with safe_open(path, "pt") as file:
            about = json.loads(file.metadata()["vitreous"])
        return safetensors.torch.load_file(path), about
    except (SafetensorError, ValueError, KeyError, TypeError, OSError):
        raise InputError(f"{path}: is damaged; delete it to start again") from None


def scatter(
    tensors: dict[str, Tensor], numbers: dict[str, Any], model: nn.Module, optimisers: list[torch.optim.Optimizer]
) -> None:
    """Put a state back into the model and its optimisers."""
    put(model, tensors, "model/")
    for i, optimiser in enumerate(optimisers):
        empty = get_optimizer_state_dict(model, optimiser, options=StateDictOptions(full_state_dict=True))
        state: dict[str, dict[str, Any]] = {}
        for place, value in (_under(tensors, f"optimiser{i}/") | _under(numbers, f"optimiser{i}/")).items():
            name, _, key = place.rpartition("/")
            state.setdefault(name, {})[key] = value
        full: dict[str, Any] = {"state": state, "param_groups": empty["param_groups"]}
        set_optimizer_state_dict(model, optimiser, full, options=StateDictOptions(full_state_dict=True))


def put(model: nn.Module, tensors: dict[str, Tensor], prefix: str) -> None:
    """Put the tensors whose names begin so into the model, however it is shared."""
    set_model_state_dict(model, _under(tensors, prefix), options=StateDictOptions(full_state_dict=True))


def _under(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
