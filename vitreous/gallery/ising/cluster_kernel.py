# mypy: disable-error-code="no-untyped-def, untyped-decorator, import-not-found, no-untyped-call"
"""Triton kernel that labels clusters of frozen bonds: one program per lattice, whose labels fit into the L1 cache."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_JUMPS = 4


@triton.jit
def _label_kernel(frozen, neighbours, label, count: tl.constexpr, block: tl.constexpr, jumps: tl.constexpr):
    """Label every spin by the lowest spin index of its cluster.

    Each bond attaches the higher of its two labels to the lower one; then every spin follows its label a few steps. A
    label is always a spin of the same cluster and never rises, so concurrent reads and writes do no harm. The kernel
    ends when no bond joins two labels.
    """
    sample = tl.program_id(0).to(tl.int64)
    labels, bonds = label + sample * count, frozen + sample * 2 * count
    for start in range(0, count, block):
        i = start + tl.arange(0, block)
        tl.store(labels + i, i, mask=i < count)
    tl.debug_barrier()
    changing = 1
    while changing > 0:
        changing = 0
        for start in range(0, 2 * count, block):
            bond = start + tl.arange(0, block)
            active = tl.load(bonds + bond, mask=bond < 2 * count, other=0) != 0
            one = tl.load(labels + bond % count, mask=active, other=0)
            other = tl.load(labels + tl.load(neighbours + bond, mask=active, other=0), mask=active, other=0)
            differ = active & (one != other)
            tl.atomic_min(labels + tl.maximum(one, other), tl.minimum(one, other), mask=differ, sem="relaxed")
            changing = tl.maximum(changing, tl.max(differ.to(tl.int32), 0))
        tl.debug_barrier()
        for start in range(0, count, block):
            i = start + tl.arange(0, block)
            current = tl.load(labels + i, mask=i < count, other=0)
            for _ in range(jumps):
                current = tl.load(labels + current, mask=i < count, other=0)
            tl.store(labels + i, current, mask=i < count)
        tl.debug_barrier()


def label_clusters(frozen: Tensor, neighbours: Tensor) -> Tensor:
    """The lowest spin index in the cluster of each spin, `(B, N)`; see `vitreous.gallery.ising.simulate`."""
    batch, _, count = frozen.shape
    label = torch.empty(batch, count, dtype=torch.int32, device=frozen.device)
    block = min(4096, triton.next_power_of_2(count))
    bonds = frozen.contiguous().view(torch.int8)
    with torch.cuda.device_of(frozen):
        _label_kernel[(batch,)](bonds, neighbours.int(), label, count=count, block=block, jumps=_JUMPS, num_warps=8)
    return label.long()
