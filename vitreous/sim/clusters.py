# mypy: disable-error-code="no-untyped-def, untyped-decorator, import-not-found, no-untyped-call"
"""Clusters of frozen bonds on a GPU: one program a lattice, whose names stay in the cache that is next to it."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_JUMPS = 4


@triton.jit
def _named(frozen, neighbours, label, count: tl.constexpr, once: tl.constexpr, jumps: tl.constexpr):
    """Name every spin by the lowest place of its cluster.

    Each bond hangs the higher of its two names under the lower; then every spin goes some way up from its name. A name
    is always a place of the same cluster and never rises, so what neighbours read or write meanwhile does no harm; when
    no bond has two names any more, all are done.
    """
    sample = tl.program_id(0).to(tl.int64)
    names, bonds = label + sample * count, frozen + sample * 2 * count
    for start in range(0, count, once):
        i = start + tl.arange(0, once)
        tl.store(names + i, i, mask=i < count)
    tl.debug_barrier()
    changing = 1
    while changing > 0:
        changing = 0
        for start in range(0, 2 * count, once):
            bond = start + tl.arange(0, once)
            there = tl.load(bonds + bond, mask=bond < 2 * count, other=0) != 0
            one = tl.load(names + bond % count, mask=there, other=0)
            other = tl.load(names + tl.load(neighbours + bond, mask=there, other=0), mask=there, other=0)
            two = there & (one != other)
            tl.atomic_min(names + tl.maximum(one, other), tl.minimum(one, other), mask=two, sem="relaxed")
            changing = tl.maximum(changing, tl.max(two.to(tl.int32), 0))
        tl.debug_barrier()
        for start in range(0, count, once):
            i = start + tl.arange(0, once)
            name = tl.load(names + i, mask=i < count, other=0)
            for _ in range(jumps):
                name = tl.load(names + name, mask=i < count, other=0)
            tl.store(names + i, name, mask=i < count)
        tl.debug_barrier()


def named(frozen: Tensor, neighbours: Tensor) -> Tensor:
    """The lowest place in the cluster of each spin, `(B, N)`, of frozen bonds `(B, 2, N)` to `neighbours` `(2, N)`."""
    batch, _, count = frozen.shape
    label = torch.empty(batch, count, dtype=torch.int32, device=frozen.device)
    once = min(4096, triton.next_power_of_2(count))
    bonds = frozen.contiguous().view(torch.int8)
    with torch.cuda.device_of(frozen):
        _named[(batch,)](bonds, neighbours.int(), label, count=count, once=once, jumps=_JUMPS, num_warps=8)
    return label.long()
