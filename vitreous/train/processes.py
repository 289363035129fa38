"""The device and the processes of a training: one process, or several under `torchrun`."""

import os
from collections.abc import Iterable

from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import distributed, nn
from torch.distributed import PrefixStore, rendezvous  # type: ignore[attr-defined]
from torch.distributed.fsdp import fully_shard

from vitreous.core.errors import InputError
from vitreous.train.config import TrainConfig
from vitreous.train.device import cache_compiled_code, pick_device, pick_precision


def create_accelerator(precision: str = "auto", device: str = "auto") -> Accelerator:
    """The device and the processes to train on; refuses a precision that the device does not have."""
    device = pick_device(device)
    pick_precision(precision, device)
    if device == "cuda":
        cache_compiled_code()
    alone = not distributed.is_initialized()
    AcceleratorState._reset_state(reset_partial_state=alone)  # an earlier run of this process may have had another one
    _rejoin(device == "cpu")
    return Accelerator(cpu=device == "cpu", mixed_precision="no")  # `MixedPrecision` handles it


def _rejoin(cpu: bool) -> None:
    """After torchrun has restarted the processes, meet under a new prefix, apart from addresses of the dead ones."""
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if restarts == "0" or distributed.is_initialized():
        return
    store, rank, world = next(rendezvous("env://"))
    fresh = PrefixStore(f"restart{restarts}", store)
    distributed.init_process_group("gloo" if cpu else None, store=fresh, rank=rank, world_size=world)


def check_batch(settings: TrainConfig, accelerator: Accelerator) -> None:
    """Raise `InputError` unless the processes can share a batch evenly."""
    if settings.batch % (accelerator.num_processes * settings.accumulate):
        raise InputError(
            f"batch: {settings.batch} samples cannot be shared evenly by {accelerator.num_processes} process(es) "
            f"in {settings.accumulate} part(s)"
        )


def compiles(settings: TrainConfig, accelerator: Accelerator) -> bool:
    """Whether the preparation of a batch is compiled: on a GPU, unless compiling is off."""
    return accelerator.device.type == "cuda" and settings.compile in ("auto", "on")


def shard(model: nn.Module) -> None:
    """Share weights, gradients and optimiser states among the processes, block by block (FSDP2).

    This uses torch directly: accelerate's plugin calls the same function but does not support processes without a GPU.
    """
    blocks: Iterable[nn.Module] = getattr(model, "blocks", ())
    for block in blocks:
        fully_shard(block)
    fully_shard(model)
