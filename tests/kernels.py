"""GPU kernels in a process of their own: on a GPU, or by Triton's interpreter where there is none."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

interpreted = pytest.mark.skipif(
    find_spec("triton") is None, reason="triton is not installed; it comes with torch for CUDA"
)


def in_triton(program: str, gpu: bool = False) -> str:
    """What a program prints, or its complaints if it fails; without the interpreter where it asks for a GPU."""
    interpreter = {} if gpu and torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=os.environ | interpreter, capture_output=True, text=True)
    return done.stdout.strip() or done.stderr
