"""Muon as torch has it, for many small matrices: those of one shape go through the iteration together."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim._muon import _adjust_lr


class Muon(torch.optim.Muon):
    """`torch.optim.Muon` with the same state and the same updates, but in few launches.

    Torch's own takes each matrix by itself, some 20 launches for each, which a GPU spends waiting. On a CPU the
    iteration is in float32, where bfloat16 is slow; matrices that are sharded over processes are gathered for it.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params: list[Tensor] = []
            grads: list[Tensor] = []
            buffers: list[Tensor] = []
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
                stack = stack.to(params[places[0]].dtype) * -_adjust_lr(
                    group["lr"], group["adjust_lr_fn"], torch.Size(shape)
                )
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
