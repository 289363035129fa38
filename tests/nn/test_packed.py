"""The GPU kernel of short sequences, run by Triton's interpreter where there is no GPU."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

_CHECK = """
import torch
import torch.nn.functional as F
from vitreous.nn.packed import packed_attention

for batch, count, heads, d in ((2, 37, 2, 16), (1, 130, 2, 32), (1, 64, 1, 64)):
    torch.manual_seed(count)
    qkv = torch.randn(batch, count, 3 * heads * d, requires_grad=True)
    q, k, v = qkv.unflatten(-1, (3, heads, d)).permute(2, 0, 3, 1, 4).unbind(0)
    wanted = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    found, _ = packed_attention(qkv, heads, d**-0.5)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    given = torch.randn_like(wanted)
    ours, theirs = (torch.autograd.grad(out, qkv, given)[0] for out in (found, wanted))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
print("equal")
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed; it comes with torch for CUDA")
def test_the_kernel_and_its_gradient_are_those_of_attention() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CHECK], env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True
    )
    assert done.stdout.strip() == "equal", done.stderr
