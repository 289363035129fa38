"""GPU kernels written in Triton, which is part of torch for CUDA, and the layers that use them."""

from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor


def kernels(name: str) -> ModuleType | None:
    """A module of this package that needs Triton; None without a GPU."""
    try:
        return import_module(f"vitreous.{name}") if torch.cuda.is_available() else None
    except ImportError:
        return None


def multiplies_in_bfloat16(x: Tensor) -> bool:
    """Whether matrix multiplication with `x` runs in bfloat16 on a GPU."""
    if x.device.type != "cuda":
        return False
    kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x.dtype
    return kind == torch.bfloat16
