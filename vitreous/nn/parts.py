"""A function of tokens, a few at a time: its inside is computed again for the gradient and never kept whole."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Part = Callable[[Tensor, slice, Tensor | None], Sequence[Tensor]]
"""From some tokens `(B, n, D)`, their place among all and what all of them share to their outputs."""


def in_parts(
    function: Part,
    x: Tensor,
    shared: Tensor | None,
    step: int,
    joined: bool,
    weights: Sequence[Tensor],
    passed: list[Tensor],
) -> tuple[Tensor, ...]:
    """The function of tokens `(B, N, D)`, `step` of them at a time.

    Args:
        shared: the same for all tokens, with a gradient.
        joined: whether outputs are tokens `(B, n, D)` that are put one after the other; else they are stacked.
        weights: all that has a gradient inside the function.
        passed: by which two such functions of the same tokens, the later one `joined` and sharing what the earlier one
            found, make one gradient of the tokens between them, rather than two to be added.
    """
    given = function, step, joined, passed, x, shared, *weights
    found: tuple[Tensor, ...] = _InParts.apply(*given)  # type: ignore[no-untyped-call]
    return found


class _InParts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        function: Part,
        step: int,
        joined: bool,
        passed: list[Tensor],
        x: Tensor,
        shared: Tensor | None,
        *weights: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.function, ctx.joined, ctx.passed, ctx.weights = function, joined, passed, weights
        ctx.places = [slice(start, min(start + step, x.shape[1])) for start in range(0, x.shape[1], step)]
        ctx.save_for_backward(x, shared)
        if joined:
            out = torch.empty_like(x)
            for place in ctx.places:
                (out[:, place],) = function(x[:, place], place, shared)
            return (out,)
        parts = [function(x[:, place], place, shared) for place in ctx.places]
        return tuple(torch.stack(some) for some in zip(*parts, strict=True))

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        x, shared = ctx.saved_tensors
        whole = torch.zeros_like(x) if ctx.joined or not ctx.passed else ctx.passed.pop()
        rest = [w for w in (shared, *ctx.weights) if w is not None]
        totals = [torch.zeros_like(w) for w in rest]
        for i, place in enumerate(ctx.places):
            part = x[:, place].detach().requires_grad_()
            common = None if shared is None else shared.detach().requires_grad_()
            with torch.enable_grad():
                outs = ctx.function(part, place, common)
            wanted = [g[:, place] if ctx.joined else g[i] for g in given]
            asked = [part, *([] if common is None else [common]), *ctx.weights]
            grads = torch.autograd.grad(outs, asked, wanted, allow_unused=True)
            whole[:, place] += grads[0]
            for total, grad in zip(totals, grads[1:], strict=True):
                if grad is not None:
                    total += grad
        own = [] if shared is None else [totals.pop(0)]
        if ctx.joined:
            ctx.passed.append(whole)
        return None, None, None, None, None if ctx.joined else whole, own[0] if own else None, *totals
