"""GPU kernels where there is no GPU: Triton's interpreter runs them, in a process of its own."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

interpreted = pytest.mark.skipif(
    find_spec("triton") is None, reason="triton is not installed; it comes with torch for CUDA"
)


def in_triton(program: str) -> str:
    """What a program prints, the last line alone; its complaints if it fails."""
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True
    )
    return done.stdout.strip() or done.stderr
