"""GELU in bfloat16: exact to its precision, with less arithmetic than the error function."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# Abramowitz and Stegun 7.1.26: erf to 1.5e-7 from one exponential, which the gradient uses too.
_P = 0.3275911
_A = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def gelu(x: Tensor) -> Tensor:
    """x Φ(x)."""
    if torch.compiler.is_compiling() and x.device.type == "cuda" and x.dtype == torch.bfloat16:
        fast: Tensor = _Gelu.apply(x)  # type: ignore[no-untyped-call]
        return fast
    return F.gelu(x)


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        wide = x.float()
        return (wide * normal(wide)[0]).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grad_out: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        wide = x.float()
        below, density = normal(wide)
        grad: Tensor = grad_out[0].float() * (below + wide * density)
        return grad.to(x.dtype)


def normal(x: Tensor) -> tuple[Tensor, Tensor]:
    """Cumulative distribution Φ(x) and density φ(x) of the normal distribution."""
    bell = torch.exp(-0.5 * x * x)
    t = 1 / (1 + _P * math.sqrt(0.5) * x.abs())
    tail = t * (_A[0] + t * (_A[1] + t * (_A[2] + t * (_A[3] + t * _A[4])))) * bell  # 1 - erf(|x| / √2)
    return torch.where(x < 0, 0.5 * tail, 1 - 0.5 * tail), bell * (1 / math.sqrt(2 * math.pi))
