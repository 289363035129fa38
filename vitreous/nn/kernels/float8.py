"""FP8 matrix multiplication on GPUs that support it: twice as fast as bfloat16.

Inputs and gradients are scaled row by row, weights by output, so that the largest value of each row is the largest of
the format. The conversion of a row takes a pass over it, which pays if the product is wide: for the input of a layer
with more outputs than inputs, and for the gradient of a layer with fewer. All other products, including the gradient of
the weights, are in bfloat16; weights keep the precision in which they are stored.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.core.errors import InputError

_LARGEST = 448.0  # largest value of float8_e4m3fn
_WIDER = 2  # ratio of outputs to inputs from which FP8 pays


def check_float8(device: str) -> None:
    """Raise `InputError` unless a device supports FP8 matrix multiplication."""
    if device != "cuda":
        raise InputError(f"precision: float8 needs a GPU, but this would run on the {device}; use float32 instead")
    if torch.cuda.get_device_capability() < (8, 9):
        chip = torch.cuda.get_device_name()
        raise InputError(f"precision: float8 needs compute capability 8.9, which {chip} has not; use bfloat16 instead")


def float8_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`(..., K), (N, K) -> (..., N)` in bfloat16; K and N must be multiples of 16. The bias gets no gradient."""
    out: Tensor = _Product.apply(x.reshape(-1, x.shape[-1]), weight, bias)  # type: ignore[no-untyped-call]
    return out.reshape(*x.shape[:-1], -1)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x = x.to(torch.bfloat16)
        ctx.save_for_backward(x, weight)
        return _product(x, weight, None if bias is None else bias.to(torch.bfloat16))

    @staticmethod
    def backward(ctx: Any, *grad_out: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        (g,) = grad_out
        return _product(g, weight.t()), (g.t() @ x).to(weight.dtype), None


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`(M, K), (N, K) -> (M, N)`, in FP8 if the result is wide enough."""
    outputs, inputs = weight.shape
    if outputs < _WIDER * inputs:
        return F.linear(x, weight.to(x.dtype), bias)
    (a, a_scale), (b, b_scale) = _scaled(x), _scaled(weight)
    return torch._scaled_mm(
        a, b.contiguous().t(), a_scale, b_scale.t().contiguous(), bias, out_dtype=torch.bfloat16, use_fast_accum=True
    )


def _scaled(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows in FP8, and the scale `(rows, 1)` of each."""
    wide = x.float()
    most = wide.abs().amax(1, keepdim=True).clamp(min=1e-12)
    return (wide * (_LARGEST / most)).to(torch.float8_e4m3fn), most / _LARGEST
