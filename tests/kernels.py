"""GPU kernels in a process of their own: on a GPU, or by Triton's interpreter where there is none."""

from importlib.util import find_spec

import pytest
import torch

from tests.users import python

interpreted = pytest.mark.skipif(
    find_spec("triton") is None, reason="triton is not installed; it comes with torch for CUDA"
)


def in_triton(program: str, gpu: bool = False) -> str:
    """What a program prints; without the interpreter where it asks for a GPU and there is one."""
    alone = gpu and torch.cuda.is_available()
    return python(program, **({} if alone else {"TRITON_INTERPRET": "1"})).strip()
