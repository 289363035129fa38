"""Optimisers and learning rate: AdamW, or Muon for matrices; weight decay; layer-wise decay; warm-up and cosine."""

import math
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim._muon import _adjust_lr

from vitreous.core.errors import check_choice

OPTIMISERS = ("adamw", "muon")
FACTOR = "factor"
"""Key of a parameter group: the factor of its learning rate."""
_BLOCK = re.compile(r"(?:^|\.)(?:blocks|stages)\.(\d+)\.")
_LAST = ("head", "pool", "norm")
_OUTER = {"tokenizer", "head", "show"}  # parts whose matrices Muon does not update
_NO_DECAY = ("norm", "bias", "position", "prefix", "query", "scale", "table", "latents")


def decays(name: str, parameter: nn.Parameter) -> bool:
    """Weight decay acts on matrices and kernels, not on norms, biases, positions and learned tokens."""
    return parameter.dim() > 1 and not any(word in name.split(".")[-1] or f"{word}." in name for word in _NO_DECAY)


def create_optimisers(
    model: nn.Module, kind: str, lr: float, weight_decay: float, layer_decay: float = 1.0
) -> list[torch.optim.Optimizer]:
    """AdamW over all parameters, or Muon over the matrices inside the model and AdamW over the rest.

    Muon's updates are scaled to the root mean square of AdamW's, so both take the same learning rate. Each group has a
    `FACTOR` for its learning rate: `layer_decay` to the power of the number of layers above it.
    """
    check_choice("optimiser", kind, OPTIMISERS)
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    above = layers_above([name for name, _ in model.named_parameters()])
    matrices: dict[float, list[nn.Parameter]] = defaultdict(list)
    rest: dict[tuple[float, float], list[nn.Parameter]] = defaultdict(list)
    for name, p in named:
        factor = layer_decay ** above[name]
        # Muon is for matrices between hidden layers; AdamW updates the first and the last
        if kind == "muon" and p.dim() == 2 and not _OUTER.intersection(name.split(".")) and decays(name, p):
            matrices[factor].append(p)
        else:
            rest[factor, weight_decay if decays(name, p) else 0.0].append(p)
    fused = all(p.device.type in ("cuda", "cpu") for _, p in named)
    groups = [{"params": params, "weight_decay": decay, FACTOR: factor} for (factor, decay), params in rest.items()]
    adamw = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), fused=fused)
    if not matrices:
        return [adamw]
    groups = [{"params": params, FACTOR: factor} for factor, params in matrices.items()]
    return [Muon(groups, lr=lr, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"), adamw]


def layers_above(names: list[str]) -> dict[str, int]:
    """Number of layers above each parameter: 0 for head, pool and last norm; the tokenizer is below all blocks."""
    matches = {name: _BLOCK.search(name) for name in names}
    depth = 1 + max((int(match[1]) for match in matches.values() if match), default=-1)
    return {
        name: depth - int(match[1]) if match else 0 if name.split(".")[0] in _LAST else depth + 1
        for name, match in matches.items()
    }


def learning_rate_factor(step: float, steps: int, warmup: float, final: float = 0.01) -> float:
    """Factor of the learning rate at a step: a linear warm-up over a share of the steps, then a cosine to `final`."""
    rise = max(1, round(warmup * steps))
    if step < rise:
        return (step + 1) / rise
    done = (step - rise) / max(1, steps - rise)
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


class Muon(torch.optim.Muon):
    """`torch.optim.Muon` with the same state and updates; matrices of one shape go through the iteration together.

    Torch's own takes each matrix by itself, some 20 launches for each, which a GPU spends waiting. On a CPU the
    iteration is in float32, where bfloat16 is slow; matrices that are sharded over processes are gathered for it.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params, grads, buffers = list[Tensor](), list[Tensor](), list[Tensor]()
            self._init_group(group, params, grads, buffers)
            if not params:
                continue
            torch._foreach_lerp_(buffers, grads, 1 - group["momentum"])
            updates = torch._foreach_lerp(grads, buffers, group["momentum"]) if group["nesterov"] else buffers
            torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
            alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
            for i, update in enumerate(updates):
                alike[tuple(update.shape)].append(i)
            for shape, places in alike.items():
                stack = torch.stack([_whole(updates[i]) for i in places])
                stack = orthogonal(stack, group["ns_coefficients"], group["ns_steps"], group["eps"])
                lr = _adjust_lr(group["lr"], group["adjust_lr_fn"], torch.Size(shape))
                stack = stack.to(params[places[0]].dtype) * -lr
                changes = [_like(new, params[i]) for i, new in zip(places, stack, strict=True)]
                torch._foreach_add_([params[i] for i in places], changes)
        return loss


def orthogonal(stack: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """The quintic Newton-Schulz iteration towards the nearest semi-orthogonal matrices, `(n, rows, columns)`."""
    a, b, c = coefficients
    tall = stack.shape[1] > stack.shape[2]
    x = stack.mT if tall else stack
    x = x.float() if x.device.type == "cpu" else x.bfloat16()
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def _whole(matrix: Tensor) -> Tensor:
    return matrix.full_tensor() if isinstance(matrix, DTensor) else matrix


def _like(matrix: Tensor, param: Tensor) -> Tensor:
    """Shared among the processes as the parameter is."""
    if not isinstance(param, DTensor):
        return matrix
    return distribute_tensor(matrix, param.device_mesh, param.placements, src_data_rank=None)
