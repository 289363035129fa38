"""Linear layers of a block, with fused GELU and FP8 matrix multiplication on GPUs that support it.

FP8 is twice as fast as bfloat16. Inputs and gradients are scaled row by row, weights by output, so that the largest
value of each row is the largest of the format. The conversion of a row takes a pass over it, which pays if the product
is wide: for the input of a layer with more outputs than inputs, and for the gradient of a layer with fewer. All other
products, including the gradient of the weights, are in bfloat16; weights keep the precision in which they are stored.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.nn.kernels import kernels, multiplies_in_bfloat16

_FUSED = kernels("nn.kernels.bias_gelu")
_LARGEST = 448.0  # largest value of float8_e4m3fn
_WIDER = 2  # ratio of outputs to inputs from which FP8 pays
# Abramowitz and Stegun 7.1.26: erf to 1.5e-7 from one exponential, which the gradient uses too.
_P = 0.3275911
_A = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


class Linear(nn.Linear):
    """A linear layer, alone or followed by GELU."""

    float8 = False
    """Whether matrix multiplication is in FP8, on a GPU; see `Execution.float8`."""

    def forward(self, x: Tensor, learns: bool = True) -> Tensor:
        """`learns` is False if another function computes the gradient of the bias."""
        if not self.float8:
            return F.linear(x, self.weight, self.bias if learns else self.bias.detach())
        if not learns:
            return float8_product(x, self.weight, self.bias)
        out = self.product(x)
        return out + self.bias.to(out.dtype)

    def product(self, x: Tensor) -> Tensor:
        """The matrix product, without the bias."""
        return float8_product(x, self.weight) if self.float8 else F.linear(x, self.weight)

    def gelu(self, x: Tensor) -> Tensor:
        """The layer followed by GELU."""
        fused = multiplies_in_bfloat16(x)
        if fused and not torch.is_grad_enabled():  # FP8 with a separate GELU takes as long
            out: Tensor = _linear_gelu(x, self.weight, self.bias)
        elif fused and _FUSED is not None:
            out = _FUSED.bias_gelu(self.product(x), self.bias)
        else:
            out = gelu(self(x))
        return out


def use_float8(model: nn.Module, on: bool) -> None:
    """Switch FP8 matrix multiplication on or off in all `Linear` layers whose widths are multiples of 16."""
    for layer in model.modules():
        if isinstance(layer, Linear):
            layer.float8 = on and layer.in_features % 16 == 0 and layer.out_features % 16 == 0


@torch.library.custom_op("vitreous::linear_gelu", mutates_args=())
def _linear_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A linear layer fused with GELU, in bfloat16 and without gradients.

    The kernel uses the tanh approximation of GELU, whose error of at most 5e-4 is below the rounding of bfloat16.
    """
    x, weight, bias = (part.to(torch.bfloat16) for part in (x, weight, bias))
    out = torch._addmm_activation(bias, x.reshape(-1, x.shape[-1]), weight.t(), use_gelu=True)
    return out.reshape(*x.shape[:-1], -1)


@_linear_gelu.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(*x.shape[:-1], len(weight), dtype=torch.bfloat16)


def gelu(x: Tensor) -> Tensor:
    """x Φ(x); compiled in bfloat16 exact to its precision, with less arithmetic than the error function."""
    fast = torch.compiler.is_compiling() and x.device.type == "cuda" and x.dtype == torch.bfloat16
    out: Tensor = _Gelu.apply(x) if fast else F.gelu(x)  # type: ignore[no-untyped-call]
    return out


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
