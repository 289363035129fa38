# mypy: disable-error-code="no-untyped-def, untyped-decorator, import-not-found, no-untyped-call"
"""Attention of short sequences on a GPU, on packed queries, keys and values, with packed gradients.

The kernels of torch are made for long sequences: at a few hundred tokens they have much overhead, their three gradients
must be concatenated, and the gradient of the bias takes another pass. Here the gradient is written in the layout of the
linear layer before it, and its sum over the tokens, the gradient of that layer's bias, is computed in the same pass.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

LONGEST = {16: 512, 32: 512, 64: 256}
"""Number of tokens up to which the kernel is faster, by width of a head."""


@triton.jit
def _load(at, i, channel, step, count):
    """Rows of queries, keys or values; zero beyond the end."""
    return tl.load(at + i[:, None] * step + channel[None, :], mask=i[:, None] < count, other=0.0)


@triton.jit
def _forward(
    qkv, sizes, out, log, count, scale: tl.constexpr, weighted: tl.constexpr, heads: tl.constexpr,
    d: tl.constexpr, rows: tl.constexpr, cols: tl.constexpr,
):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1) % heads
    sample = (tl.program_id(1) // heads).to(tl.int64)
    wide: tl.constexpr = heads * d
    step: tl.constexpr = 3 * wide
    base = qkv + sample * count * step + head * d
    channel = tl.arange(0, d)
    i = block * rows + tl.arange(0, rows)
    q = _load(base, i, channel, step, count)
    top = tl.full([rows], float("-inf"), tl.float32)
    total = tl.zeros([rows], tl.float32)
    mixed = tl.zeros([rows, d], tl.float32)
    for start in range(0, count, cols):
        j = start + tl.arange(0, cols)
        k = _load(base + wide, j, channel, step, count)
        v = _load(base + 2 * wide, j, channel, step, count)
        s = tl.dot(q, tl.trans(k)) * scale
        if weighted:
            s += tl.load(sizes + sample * count + j, mask=j < count, other=0.0)[None, :]
        s = tl.where(j[None, :] < count, s, float("-inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        fall = tl.exp2(top - higher)
        total = total * fall + tl.sum(p, 1)
        mixed = mixed * fall[:, None] + tl.dot(p.to(v.dtype), v)
        top = higher
    mixed = mixed / total[:, None]
    where = out + (sample * count + i[:, None]) * wide + head * d + channel[None, :]
    tl.store(where, mixed.to(out.dtype.element_ty), mask=i[:, None] < count)
    tl.store(log + tl.program_id(1).to(tl.int64) * count + i, top + tl.log2(total), mask=i < count)


@triton.jit
def _backward(
    qkv, out, log, grad_out, grad, sums, count, parts, scale: tl.constexpr, natural: tl.constexpr,
    heads: tl.constexpr, d: tl.constexpr, held: tl.constexpr, passing: tl.constexpr,
):  # fmt: skip
    """The first `parts` programs of a head hold some keys and loop over the queries; the others hold some queries."""
    part = tl.program_id(0)
    head, sample = tl.program_id(1) % heads, (tl.program_id(1) // heads).to(tl.int64)
    wide: tl.constexpr = heads * d
    step: tl.constexpr = 3 * wide
    base = qkv + sample * count * step + head * d
    outs, grad_outs = out + sample * count * wide + head * d, grad_out + sample * count * wide + head * d
    logs = log + tl.program_id(1).to(tl.int64) * count
    grads = grad + sample * count * step + head * d
    channel = tl.arange(0, d)
    if part < parts:
        j = part * held + tl.arange(0, held)
        k = _load(base + wide, j, channel, step, count)
        v = _load(base + 2 * wide, j, channel, step, count)
        dk = tl.zeros([held, d], tl.float32)
        dv = tl.zeros([held, d], tl.float32)
        for start in range(0, count, passing):
            i = start + tl.arange(0, passing)
            q = _load(base, i, channel, step, count)
            g, own, lse = _load_gradient(outs, grad_outs, logs, i, channel, wide, count)
            p = tl.exp2(tl.dot(k, tl.trans(q)) * scale - lse[None, :])  # (keys, queries)
            dv += tl.dot(p.to(g.dtype), g)
            dk += tl.dot((p * (tl.dot(v, tl.trans(g)) - own[None, :])).to(q.dtype), q)
        total = sums + ((sample * parts + part) * 3 + 1) * wide + head * d
        _store(grads + wide, total, dk * natural, j, channel, step, count)
        _store(grads + 2 * wide, total + wide, dv, j, channel, step, count)
    else:
        i = (part - parts) * held + tl.arange(0, held)
        q = _load(base, i, channel, step, count)
        g, own, lse = _load_gradient(outs, grad_outs, logs, i, channel, wide, count)
        dq = tl.zeros([held, d], tl.float32)
        for start in range(0, count, passing):
            j = start + tl.arange(0, passing)
            k = _load(base + wide, j, channel, step, count)
            v = _load(base + 2 * wide, j, channel, step, count)
            p = tl.exp2(tl.dot(q, tl.trans(k)) * scale - lse[:, None])  # (queries, keys)
            dq += tl.dot((p * (tl.dot(g, tl.trans(v)) - own[:, None])).to(k.dtype), k)
        total = sums + (sample * parts + part - parts) * 3 * wide + head * d
        _store(grads, total, dq * natural, i, channel, step, count)


@triton.jit
def _backward_whole(
    qkv, out, log, grad_out, grad, sums, count, parts, scale: tl.constexpr, natural: tl.constexpr, heads: tl.constexpr,
    d: tl.constexpr, held: tl.constexpr, passing: tl.constexpr,
):  # fmt: skip
    """All keys of a head are held while looping over the queries: fewer products, for wide heads."""
    head, sample = tl.program_id(1) % heads, (tl.program_id(1) // heads).to(tl.int64)
    wide: tl.constexpr = heads * d
    step: tl.constexpr = 3 * wide
    base = qkv + sample * count * step + head * d
    outs, grad_outs = out + sample * count * wide + head * d, grad_out + sample * count * wide + head * d
    logs = log + tl.program_id(1).to(tl.int64) * count
    grads, total = grad + sample * count * step + head * d, sums + sample * step + head * d
    channel = tl.arange(0, d)
    j = tl.arange(0, held)
    k = _load(base + wide, j, channel, step, count)
    v = _load(base + 2 * wide, j, channel, step, count)
    dk = tl.zeros([held, d], tl.float32)
    dv = tl.zeros([held, d], tl.float32)
    asked = tl.zeros([d], tl.float32)
    for start in range(0, count, passing):
        i = start + tl.arange(0, passing)
        q = _load(base, i, channel, step, count)
        g, own, lse = _load_gradient(outs, grad_outs, logs, i, channel, wide, count)
        p = tl.exp2(tl.dot(k, tl.trans(q)) * scale - lse[None, :])  # (keys, queries)
        dv += tl.dot(p.to(g.dtype), g)
        ds = (p * (tl.dot(v, tl.trans(g)) - own[None, :])).to(q.dtype)  # keys beyond the end are zero: no harm below
        dk += tl.dot(ds, q)
        dq = tl.dot(tl.trans(ds), k) * natural
        tl.store(grads + i[:, None] * step + channel[None, :], dq.to(grads.dtype.element_ty), mask=i[:, None] < count)
        asked += tl.sum(dq, 0)  # queries beyond the end have no gradient
    tl.store(total + channel, asked)
    _store(grads + wide, total + wide, dk * natural, j, channel, step, count)
    _store(grads + 2 * wide, total + 2 * wide, dv, j, channel, step, count)


@triton.jit
def _load_gradient(outs, grad_outs, logs, i, channel, wide, count):
    """For some queries: output gradient, its product with the output, and log of the softmax denominator."""
    o, g = _load(outs, i, channel, wide, count), _load(grad_outs, i, channel, wide, count)
    own = tl.sum(o.to(tl.float32) * g.to(tl.float32), 1)
    return g, own, tl.load(logs + i, mask=i < count, other=float("inf"))  # beyond the end weights are zero


@triton.jit
def _store(grads, total, values, i, channel, step, count):
    inside = i[:, None] < count
    tl.store(grads + i[:, None] * step + channel[None, :], values.to(grads.dtype.element_ty), mask=inside)
    tl.store(total + channel, tl.sum(tl.where(inside, values, 0.0), 0))


_FORWARD = {"rows": 64, "cols": 64, "num_warps": 4, "num_stages": 3}
_BACKWARD = {  # by width of a head
    16: {"held": 128, "passing": 32, "num_warps": 2, "num_stages": 2},
    32: {"held": 128, "passing": 32, "num_warps": 4, "num_stages": 2},
    64: {"held": 256, "passing": 64, "num_warps": 8, "num_stages": 2},
}
_WHOLE = 256  # tokens that are held at once


@triton_op("vitreous::packed_attention", mutates_args={})
def packed_attention(
    qkv: Tensor, bias: Tensor, heads: int, scale: float, sizes: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`(B, N, 3 D) -> (B, N, D)`, and the log2 of the softmax denominators, `(B, heads, N)`.

    Args:
        qkv: queries, keys and values, with their bias.
        bias: `(3 D)`, already added to `qkv`; passed for its gradient.
        sizes: log2 of how often each key counts, `(B, N)`; None for once. Without gradients.
    """
    batch, count, wide = qkv.shape
    out = qkv.new_empty(batch, count, wide // 3)
    log = qkv.new_empty(batch, heads, count, dtype=torch.float32)
    grid = triton.cdiv(count, _FORWARD["rows"]), batch * heads
    wrap_triton(_forward)[grid](
        qkv, log if sizes is None else sizes, out, log, count, scale * math.log2(math.e), sizes is not None,
        heads=heads, d=wide // 3 // heads, **_FORWARD,
    )  # fmt: skip
    return out, log


@triton_op("vitreous::packed_attention_backward", mutates_args={})
def packed_attention_backward(
    qkv: Tensor, out: Tensor, log: Tensor, grad_out: Tensor, heads: int, scale: float
) -> tuple[Tensor, Tensor]:
    """The gradient `(B, N, 3 D)`, and its sums over parts of the tokens, `(B, parts, 3 D)`."""
    batch, count, wide = qkv.shape
    d = wide // 3 // heads
    settings = _BACKWARD[d]
    whole = settings["held"] == _WHOLE
    parts = triton.cdiv(count, settings["held"])
    grad, sums = torch.empty_like(qkv), qkv.new_empty(batch, parts, wide, dtype=torch.float32)
    wrap_triton(_backward_whole if whole else _backward)[(1 if whole else 2 * parts, batch * heads)](
        qkv, out, log, grad_out.contiguous(), grad, sums, count, parts, scale * math.log2(math.e), scale,
        heads=heads, d=d, **settings,
    )  # fmt: skip
    return grad, sums


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    qkv, bias, ctx.heads, ctx.scale, sizes = inputs
    assert sizes is None or not (qkv.requires_grad or bias.requires_grad)
    ctx.kind = bias.dtype
    ctx.save_for_backward(qkv, *output)


def _grad(ctx: Any, grad_out: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    qkv, out, log = ctx.saved_tensors
    grad, sums = packed_attention_backward(qkv, out, log, grad_out, ctx.heads, ctx.scale)
    return grad, sums.sum((0, 1)).to(ctx.kind), None, None, None


packed_attention.register_autograd(_grad, setup_context=_keep)
