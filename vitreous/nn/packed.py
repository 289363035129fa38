# mypy: disable-error-code="no-untyped-def, untyped-decorator, import-not-found, no-untyped-call"
"""Attention of short sequences on a GPU, from the packed queries, keys and values and back to packed gradients.

The kernels that torch has are made for long sequences: at some hundred tokens they spend most of their time on what
surrounds the products, and their three gradients must be put together before the next product. Here a program holds
all keys of a head in reach, the gradient needs no preparation and no sum over programs, and it is written where the
linear layer before it wants it.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

LONGEST = {16: 512, 32: 512, 64: 256}
"""Tokens up to which this pays, for widths of a head."""


@triton.jit
def _forward(
    qkv,
    out,
    log,
    count,
    scale: tl.constexpr,
    heads: tl.constexpr,
    d: tl.constexpr,
    rows: tl.constexpr,
    cols: tl.constexpr,
):
    block, head = tl.program_id(0), tl.program_id(1) % heads
    sample = (tl.program_id(1) // heads).to(tl.int64)
    step: tl.constexpr = 3 * heads * d
    base = qkv + sample * count * step + head * d
    e = tl.arange(0, d)
    i = block * rows + tl.arange(0, rows)
    q = tl.load(base + i[:, None] * step + e[None, :], mask=i[:, None] < count, other=0.0)
    top = tl.full([rows], float("-inf"), tl.float32)
    total = tl.zeros([rows], tl.float32)
    mixed = tl.zeros([rows, d], tl.float32)
    for start in range(0, count, cols):
        j = start + tl.arange(0, cols)
        there = j[:, None] < count
        k = tl.load(base + heads * d + j[:, None] * step + e[None, :], mask=there, other=0.0)
        v = tl.load(base + 2 * heads * d + j[:, None] * step + e[None, :], mask=there, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where(j[None, :] < count, s, float("-inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        fall = tl.exp2(top - higher)
        total = total * fall + tl.sum(p, 1)
        mixed = mixed * fall[:, None] + tl.dot(p.to(v.dtype), v)
        top = higher
    mixed = mixed / total[:, None]
    where = out + (sample * count + i[:, None]) * (heads * d) + head * d + e[None, :]
    tl.store(where, mixed.to(out.dtype.element_ty), mask=i[:, None] < count)
    tl.store(log + tl.program_id(1).to(tl.int64) * count + i, top + tl.log2(total), mask=i < count)


@triton.jit
def _backward(
    qkv, out, log, given, grad, count, scale: tl.constexpr, natural: tl.constexpr, heads: tl.constexpr,
    d: tl.constexpr, keys: tl.constexpr, rows: tl.constexpr,
):  # fmt: skip
    """All keys of a head are held at once, with the sums of their gradients, while the queries pass by."""
    head, sample = tl.program_id(0) % heads, (tl.program_id(0) // heads).to(tl.int64)
    step: tl.constexpr = 3 * heads * d
    wide: tl.constexpr = heads * d
    base = qkv + sample * count * step + head * d
    outs = out + sample * count * wide + head * d
    gives = given + sample * count * wide + head * d
    logs = log + tl.program_id(0).to(tl.int64) * count
    grads = grad + sample * count * step + head * d
    e = tl.arange(0, d)
    j = tl.arange(0, keys)
    there = j[:, None] < count
    k = tl.load(base + wide + j[:, None] * step + e[None, :], mask=there, other=0.0)
    v = tl.load(base + 2 * wide + j[:, None] * step + e[None, :], mask=there, other=0.0)
    dk = tl.zeros([keys, d], tl.float32)
    dv = tl.zeros([keys, d], tl.float32)
    for start in range(0, count, rows):
        i = start + tl.arange(0, rows)
        inside = i[:, None] < count
        q = tl.load(base + i[:, None] * step + e[None, :], mask=inside, other=0.0)
        o = tl.load(outs + i[:, None] * wide + e[None, :], mask=inside, other=0.0)
        g = tl.load(gives + i[:, None] * wide + e[None, :], mask=inside, other=0.0)
        lse = tl.load(logs + i, mask=i < count, other=float("inf"))  # weights of queries beyond the end are zero
        own = tl.sum(o.to(tl.float32) * g.to(tl.float32), 1)
        p = tl.exp2(tl.dot(k, tl.trans(q)) * scale - lse[None, :])  # (keys, queries)
        dv += tl.dot(p.to(g.dtype), g)
        ds = (p * (tl.dot(v, tl.trans(g)) - own[None, :])).to(q.dtype)  # keys beyond the end are zero: no harm below
        dk += tl.dot(ds, q)
        dq = tl.dot(tl.trans(ds), k)
        tl.store(grads + i[:, None] * step + e[None, :], (dq * natural).to(grad.dtype.element_ty), mask=inside)
    tl.store(grads + wide + j[:, None] * step + e[None, :], (dk * natural).to(grad.dtype.element_ty), mask=there)
    tl.store(grads + 2 * wide + j[:, None] * step + e[None, :], dv.to(grad.dtype.element_ty), mask=there)


_FORWARD = {"rows": 64, "cols": 64, "num_warps": 4, "num_stages": 3}
_BACKWARD = {16: (32, 4, 1), 32: (32, 8, 1), 64: (64, 8, 2)}  # queries at a time, warps and stages, by width


@triton_op("vitreous::packed_attention", mutates_args={})
def packed_attention(qkv: Tensor, heads: int, scale: float) -> tuple[Tensor, Tensor]:
    """`(B, N, 3 D) -> (B, N, D)`, and the logarithm to base 2 of what each softmax divides by, `(B, heads, N)`."""
    batch, count, wide = qkv.shape
    out = qkv.new_empty(batch, count, wide // 3)
    log = qkv.new_empty(batch, heads, count, dtype=torch.float32)
    grid = triton.cdiv(count, _FORWARD["rows"]), batch * heads
    wrap_triton(_forward)[grid](
        qkv, out, log, count, scale * math.log2(math.e), heads=heads, d=wide // 3 // heads, **_FORWARD
    )
    return out, log


@triton_op("vitreous::packed_attention_backward", mutates_args={})
def packed_attention_backward(qkv: Tensor, out: Tensor, log: Tensor, given: Tensor, heads: int, scale: float) -> Tensor:
    """The gradient `(B, N, 3 D)`."""
    batch, count, wide = qkv.shape
    grad = torch.empty_like(qkv)
    d = wide // 3 // heads
    rows, warps, stages = _BACKWARD[d]
    wrap_triton(_backward)[(batch * heads,)](
        qkv, out, log, given.contiguous(), grad, count, scale * math.log2(math.e), scale, heads=heads, d=d,
        keys=max(16, triton.next_power_of_2(count)), rows=rows, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return grad


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    qkv, ctx.heads, ctx.scale = inputs
    ctx.save_for_backward(qkv, *output)


def _grad(ctx: Any, given: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
    qkv, out, log = ctx.saved_tensors
    return packed_attention_backward(qkv, out, log, given, ctx.heads, ctx.scale), None, None


packed_attention.register_autograd(_grad, setup_context=_keep)
