"""What only a GPU has: kernels of our own, written in Triton, which comes with torch for CUDA."""

from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor


def kernels(name: str) -> ModuleType | None:
    """A module of ours that needs Triton, or None where there is no GPU."""
    try:
        return import_module(f"vitreous.{name}") if torch.cuda.is_available() else None
    except ImportError:
        return None


def multiplies_in_bfloat16(x: Tensor) -> bool:
    """Whether products with `x` are taken in bfloat16, on a GPU."""
    if x.device.type != "cuda":
        return False
    kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x.dtype
    return kind == torch.bfloat16
