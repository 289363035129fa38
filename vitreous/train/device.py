"""The device and the precision that a model runs in, from the words of the command line."""

import os
from pathlib import Path

import torch

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
