"""Where a model runs and in which precision, from the words of the command line."""

import os
from pathlib import Path

import torch

from vitreous.errors import InputError, check_choice
from vitreous.nn.float8 import check_float8

DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("auto", "float32", "bfloat16", "float8")


def keep_compiled() -> None:
    """Let what torch compiles for a GPU lie where the next run finds it, rather than in a folder for passing things."""
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
