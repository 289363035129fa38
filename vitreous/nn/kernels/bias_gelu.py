# mypy: disable-error-code="no-untyped-def, untyped-decorator, import-not-found, no-untyped-call"
"""Bias and GELU in one pass on a GPU; the backward pass also sums the gradient of the bias.

Φ is computed as in `vitreous.nn.kernels.linear`.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton


@triton.jit
def _normal(x):
    """Cumulative distribution and density of the normal distribution."""
    bell = tl.exp2(x * x * -0.7213475204444817)  # exp(-x² / 2)
    t = 1 / (1 + 0.2316418882 * tl.abs(x))
    tail = t * (0.127414796 + t * (-0.142248368 + t * (0.7107068705 + t * (-0.7265760135 + t * 0.5307027145)))) * bell
    return tl.where(x < 0, tail, 1 - tail), bell * 0.3989422804014327


@triton.jit
def _forward(x, bias, out, count, wide, rows: tl.constexpr, cols: tl.constexpr, once: tl.constexpr):
    n = tl.program_id(1) * cols + tl.arange(0, cols)
    b = tl.load(bias + n, mask=n < wide, other=0.0).to(tl.float32)
    for start in range(0, rows, once):
        m = tl.program_id(0).to(tl.int64) * rows + start + tl.arange(0, once)
        inside = (m[:, None] < count) & (n[None, :] < wide)
        place = m[:, None] * wide + n[None, :]
        z = tl.load(x + place, mask=inside, other=0.0).to(tl.float32) + b[None, :]
        tl.store(out + place, (z * _normal(z)[0]).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _backward(x, bias, grad_out, grad, sums, count, wide, rows: tl.constexpr, cols: tl.constexpr, once: tl.constexpr):
    n = tl.program_id(1) * cols + tl.arange(0, cols)
    b = tl.load(bias + n, mask=n < wide, other=0.0).to(tl.float32)
    total = tl.zeros([once, cols], tl.float32)
    for start in range(0, rows, once):
        m = tl.program_id(0).to(tl.int64) * rows + start + tl.arange(0, once)
        inside = (m[:, None] < count) & (n[None, :] < wide)
        place = m[:, None] * wide + n[None, :]
        z = tl.load(x + place, mask=inside, other=0.0).to(tl.float32) + b[None, :]
        below, density = _normal(z)
        values = tl.load(grad_out + place, mask=inside, other=0.0).to(tl.float32) * (below + z * density)
        tl.store(grad + place, values.to(grad.dtype.element_ty), mask=inside)
        total += values
    tl.store(sums + tl.program_id(0) * wide + n, tl.sum(total, 0), mask=n < wide)


def _tile(wide: int) -> dict[str, int]:
    """Tiles of 2,048 numbers with as few rows as possible."""
    cols = min(1024, triton.next_power_of_2(wide))
    return {"rows": 64, "cols": cols, "once": min(64, 2048 // cols), "num_warps": 4}


@triton_op("vitreous::bias_gelu", mutates_args={})
def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """GELU(x + bias) of `(..., D)` and `(D)`."""
    x = x.contiguous()
    count, wide = x.numel() // x.shape[-1], x.shape[-1]
    out, tile = torch.empty_like(x), _tile(wide)
    grid = triton.cdiv(count, tile["rows"]), triton.cdiv(wide, tile["cols"])
    wrap_triton(_forward)[grid](x, bias, out, count, wide, **tile)
    return out


@triton_op("vitreous::bias_gelu_backward", mutates_args={})
def bias_gelu_backward(x: Tensor, bias: Tensor, grad_out: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient `(..., D)`, and its sums over parts of the rows, `(parts, D)`."""
    x, grad_out = x.contiguous(), grad_out.contiguous()
    count, wide = x.numel() // x.shape[-1], x.shape[-1]
    tile = _tile(wide)
    parts = triton.cdiv(count, tile["rows"])
    grad, sums = torch.empty_like(x), x.new_empty(parts, wide, dtype=torch.float32)
    wrap_triton(_backward)[(parts, triton.cdiv(wide, tile["cols"]))](x, bias, grad_out, grad, sums, count, wide, **tile)
    return grad, sums


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _grad(ctx: Any, grad_out: Tensor) -> tuple[Tensor, Tensor]:
    x, bias = ctx.saved_tensors
    grad, sums = bias_gelu_backward(x, bias, grad_out)
    return grad, sums.sum(0).to(bias.dtype)


bias_gelu.register_autograd(_grad, setup_context=_keep)
