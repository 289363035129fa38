"""The device, the precision and the processes of a training, from the words of the command line."""

import os
from collections.abc import Iterable
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import distributed, nn
from torch.distributed import PrefixStore, rendezvous  # type: ignore[attr-defined]
from torch.distributed.fsdp import fully_shard

from vitreous.core.errors import InputError, check_choice
from vitreous.nn.kernels.linear import check_float8

DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("auto", "float32", "bfloat16", "float8")


def cache_compiled_code() -> None:
    """Let torch store compiled GPU code in the user's cache, where the next run finds it, not in a temporary folder."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(caches).expanduser() / "vitreous" / "compiled"))


def pick_device(device: str) -> str:
    """cpu or cuda; auto takes a GPU where there is one."""
    check_choice("device", device, DEVICES)
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device: no CUDA device is available; use cpu or auto")
    return "cpu" if device == "cpu" or not torch.cuda.is_available() else "cuda"


def pick_precision(precision: str, device: str) -> str:
    """float32, bfloat16 or float8; auto is bfloat16 on a GPU that has it, float32 elsewhere."""
    check_choice("precision", precision, PRECISIONS)
    if precision == "float8":
        check_float8(device)
    if precision != "auto":
        return precision
    return "bfloat16" if device == "cuda" and torch.cuda.is_bf16_supported() else "float32"


def create_accelerator(precision: str = "auto", device: str = "auto") -> Accelerator:
    """The device and the processes to train on; refuses a precision that the device does not have."""
    device = pick_device(device)
    pick_precision(precision, device)
    if device == "cuda":
        cache_compiled_code()
    alone = not distributed.is_initialized()
    AcceleratorState._reset_state(reset_partial_state=alone)  # an earlier run of this process may have had another one
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if restarts != "0" and alone:  # restarted by torchrun: meet under a new prefix, apart from addresses of the dead
        store, rank, world = next(rendezvous("env://"))
        store = PrefixStore(f"restart{restarts}", store)
        distributed.init_process_group("gloo" if device == "cpu" else None, store=store, rank=rank, world_size=world)
    return Accelerator(cpu=device == "cpu", mixed_precision="no")  # `MixedPrecision` handles it


def shard(model: nn.Module) -> None:
    """Share weights, gradients and optimiser states among the processes, block by block (FSDP2).

    This uses torch directly: accelerate's plugin calls the same function but does not support processes without a GPU.
    """
    blocks: Iterable[nn.Module] = getattr(model, "blocks", ())
    for block in blocks:
        fully_shard(block)
    fully_shard(model)
