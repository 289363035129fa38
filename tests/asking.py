"""Operations that a CUDA graph cannot hold, noticed on a CPU."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ASKING = {  # constants that are copied to the device, and values that are read from it
    torch.ops.aten.lift_fresh.default,
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.nonzero.default,
}

CHOOSING = {torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default}  # by a mask: how many does it choose?


class Asked(TorchDispatchMode):
    """Keeps the operations that a CUDA graph cannot hold."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        chosen = args[1] if function in CHOOSING else ()
        if function in ASKING or any(index is not None and index.dtype == torch.bool for index in chosen):
            self.found.append(str(function))
        return function(*args, **(kwargs or {}))
