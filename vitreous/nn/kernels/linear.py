"""Linear layers of a block, with fused GELU and FP8 matrix multiplication on GPUs."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.nn.kernels import kernels, multiplies_in_bfloat16
from vitreous.nn.kernels.float8 import float8_product
from vitreous.nn.kernels.gelu import gelu

_FUSED = kernels("nn.kernels.bias_gelu")


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
        if not multiplies_in_bfloat16(x):
            return gelu(self(x))
        if not torch.is_grad_enabled():  # FP8 with a separate GELU takes as long
            out: Tensor = _linear_gelu(x, self.weight, self.bias)
        elif _FUSED is None:
            out = gelu(self(x))
        else:
            out = _FUSED.bias_gelu(self.product(x), self.bias)
        return out


def use_float8(model: nn.Module, on: bool = True) -> None:
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
