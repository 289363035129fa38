"""The linear layers of a block, with what a GPU computes faster together with the product or in fewer bits."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitreous.gpu import kernels, multiplies_in_bfloat16
from vitreous.nn.float8 import float8_product
from vitreous.nn.gelu import gelu

_FUSED = kernels("nn.bias_gelu")


class Linear(nn.Linear):
    """A linear layer, alone or followed by GELU."""

    eight = False
    """Whether products of its input and of its gradient are in eight bits, on a GPU; see `in_eight_bits`."""

    def forward(self, x: Tensor, learns: bool = True) -> Tensor:
        """`learns` is False where another computes the gradient of the bias."""
        if not self.eight:
            return F.linear(x, self.weight, self.bias if learns else self.bias.detach())
        if not learns:
            return float8_product(x, self.weight, self.bias)
        out = self.product(x)
        return out + self.bias.to(out.dtype)

    def product(self, x: Tensor) -> Tensor:
        """Without the bias."""
        return float8_product(x, self.weight) if self.eight else F.linear(x, self.weight)

    def gelu(self, x: Tensor) -> Tensor:
        """With GELU."""
        if not multiplies_in_bfloat16(x):
            return gelu(self(x))
        if not torch.is_grad_enabled():  # in which eight bits and a pass for GELU would take as long
            out: Tensor = _linear_gelu(x, self.weight, self.bias)
        elif _FUSED is None:
            out = gelu(self(x))
        else:
            out = _FUSED.bias_gelu(self.product(x), self.bias)
        return out


def in_eight_bits(model: nn.Module, on: bool = True) -> None:
    """Let the linear layers of a model's blocks multiply in eight bits, where their widths allow it."""
    for layer in model.modules():
        if isinstance(layer, Linear):
            layer.eight = on and layer.in_features % 16 == 0 and layer.out_features % 16 == 0


@torch.library.custom_op("vitreous::linear_gelu", mutates_args=())
def _linear_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A linear layer with GELU inside the product's kernel, in bfloat16 and without gradients.

    The kernel has GELU by tanh, which is off by 5e-4 at most: less than the rounding of its result.
    """
    x, weight, bias = (part.to(torch.bfloat16) for part in (x, weight, bias))
    out = torch._addmm_activation(bias, x.reshape(-1, x.shape[-1]), weight.t(), use_gelu=True)
    return out.reshape(*x.shape[:-1], -1)


@_linear_gelu.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(*x.shape[:-1], len(weight), dtype=torch.bfloat16)
