"""Detection, on a CPU, of operations that a CUDA graph cannot capture."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

SYNCHRONIZING = {  # copies of constants to the device, and reads of values from it
    torch.ops.aten.lift_fresh.default,
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.nonzero.default,
}

INDEXING = {torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default}  # a boolean index has an unknown size


class SynchronizingOps(TorchDispatchMode):
    """Records the operations that a CUDA graph cannot capture."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        indices = args[1] if function in INDEXING else ()
        is_mask = any(index is not None and index.dtype == torch.bool for index in indices)
        if function in SYNCHRONIZING or is_mask:
            self.names.append(str(function))
        return function(*args, **(kwargs or {}))
