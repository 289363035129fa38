"""Apply a function to a few tokens at a time; its intermediate values are recomputed for the backward pass."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

ChunkFunction = Callable[[Tensor, slice, Tensor | None], Sequence[Tensor]]
"""From some tokens `(B, n, D)`, their slice of all tokens, and a shared tensor to the outputs."""


def in_chunks(
    function: ChunkFunction,
    x: Tensor,
    shared: Tensor | None,
    step: int,
    joined: bool,
    weights: Sequence[Tensor],
    handover: list[Tensor],
) -> tuple[Tensor, ...]:
    """Apply a function to tokens `(B, N, D)`, `step` of them at a time.

    Args:
        shared: passed to every call, with a gradient.
        joined: whether outputs are tokens `(B, n, D)` to concatenate; otherwise they are stacked.
        weights: all tensors inside the function that need a gradient.
        handover: an empty list that two calls on the same tokens share, the later one `joined` and with the result of
            the earlier one as `shared`. The gradient of the tokens is then accumulated in place instead of added.
    """
    arguments = function, step, joined, handover, x, shared, *weights
    outputs: tuple[Tensor, ...] = _InChunks.apply(*arguments)  # type: ignore[no-untyped-call]
    return outputs


class _InChunks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        function: ChunkFunction,
        step: int,
        joined: bool,
        handover: list[Tensor],
        x: Tensor,
        shared: Tensor | None,
        *weights: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.function, ctx.joined, ctx.handover, ctx.weights = function, joined, handover, weights
        ctx.chunks = [slice(start, min(start + step, x.shape[1])) for start in range(0, x.shape[1], step)]
        ctx.save_for_backward(x, shared)
        if joined:
            out = torch.empty_like(x)
            for chunk in ctx.chunks:
                (out[:, chunk],) = function(x[:, chunk], chunk, shared)
            return (out,)
        parts = [function(x[:, chunk], chunk, shared) for chunk in ctx.chunks]
        return tuple(torch.stack(part) for part in zip(*parts, strict=True))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        x, shared = ctx.saved_tensors
        grad_x = torch.zeros_like(x) if ctx.joined or not ctx.handover else ctx.handover.pop()
        rest = [w for w in (shared, *ctx.weights) if w is not None]
        totals = [torch.zeros_like(w) for w in rest]
        for i, chunk in enumerate(ctx.chunks):
            part = x[:, chunk].detach().requires_grad_()
            common = None if shared is None else shared.detach().requires_grad_()
            with torch.enable_grad():
                outs = ctx.function(part, chunk, common)
            grad_outs = [g[:, chunk] if ctx.joined else g[i] for g in grad_outputs]
            inputs = [part, *([] if common is None else [common]), *ctx.weights]
            grads = torch.autograd.grad(outs, inputs, grad_outs, allow_unused=True)
            grad_x[:, chunk] += grads[0]
            for total, grad in zip(totals, grads[1:], strict=True):
                if grad is not None:
                    total += grad
        grad_shared = [] if shared is None else [totals.pop(0)]
        if ctx.joined:
            ctx.handover.append(grad_x)
        grad_tokens = None if ctx.joined else grad_x
        return None, None, None, None, grad_tokens, grad_shared[0] if grad_shared else None, *totals
