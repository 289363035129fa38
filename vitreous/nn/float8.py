"""Products of eight bits on a GPU that has them: half the time of bfloat16, for rows that bring their own scale.

Inputs and gradients are scaled row by row, weights by output, so that each row's largest value is the largest that the
format has. Weights keep their precision where they are stored, and so does their gradient, a product in bfloat16.
"""

from typing import Any

import torch
from torch import Tensor

from vitreous.errors import InputError

_LARGEST = 448.0  # of float8_e4m3fn


def check_float8(device: str) -> None:
    """Raise `InputError` unless a device multiplies in eight bits."""
    if device != "cuda":
        raise InputError(f"precision: float8 needs a GPU, but this would run on the {device}; use float32 instead")
    if torch.cuda.get_device_capability() < (8, 9):
        chip = torch.cuda.get_device_name()
        raise InputError(f"precision: float8 needs compute capability 8.9, which {chip} has not; use bfloat16 instead")


def float8_product(x: Tensor, weight: Tensor) -> Tensor:
    """`(..., K), (N, K) -> (..., N)` in bfloat16; K and N must be multiples of 16."""
    out: Tensor = _Product.apply(x.reshape(-1, x.shape[-1]), weight)  # type: ignore[no-untyped-call]
    return out.reshape(*x.shape[:-1], -1)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        x = x.to(torch.bfloat16)
        ctx.save_for_backward(x, weight)
        return _multiply(_scaled(x), _scaled(weight))

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        (g,) = given
        return _multiply(_scaled(g), _scaled(weight.t())), (g.t() @ x).to(weight.dtype)


def _scaled(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows in eight bits, and the factor `(rows, 1)` that each was divided by."""
    wide = x.float()
    most = wide.abs().amax(1, keepdim=True).clamp(min=1e-12)
    return (wide * (_LARGEST / most)).to(torch.float8_e4m3fn), most / _LARGEST


def _multiply(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> Tensor:
    """`(M, K), (N, K) -> (M, N)`."""
    (x, x_scale), (w, w_scale) = a, b
    return torch._scaled_mm(
        x, w.contiguous().t(), x_scale, w_scale.t().contiguous(), out_dtype=torch.bfloat16, use_fast_accum=True
    )
