"""Clusters of frozen bonds, which a cluster update flips as a whole: one method for each kind of device.

All methods take frozen bonds `(B, 2, N)` of each spin to its `neighbours` `(2, N)` on the right and below, and return
labels `(B, N)` from 0 to below N. Spins have the same label if and only if they are in the same cluster.
"""

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from vitreous.nn.kernels import kernels

_KERNEL = kernels("gallery.ising.cluster_kernel")
_JUMPS = 3  # label lookups per round of `label_by_propagation`


def label_clusters(frozen: Tensor, neighbours: Tensor) -> Tensor:
    """Label clusters with the fastest method of the device."""
    if frozen.device.type == "cuda" and _KERNEL is not None:
        return _KERNEL.label_clusters(frozen, neighbours)  # type: ignore[no-any-return]
    return (label_by_graph if frozen.device.type == "cpu" else label_by_propagation)(frozen, neighbours)


def label_by_graph(frozen: Tensor, neighbours: Tensor) -> Tensor:
    """Label clusters as the connected components of a sparse graph, on a CPU."""
    batch, _, count = frozen.shape
    bonds = frozen.mT.contiguous()  # (B, N, 2)
    columns = (neighbours.T + torch.arange(0, batch * count, count)[:, None, None])[bonds].int()
    row_ends = F.pad(bonds.sum(2).flatten().cumsum(0), (1, 0)).int()
    ones = np.ones(len(columns), np.int8)
    graph = csr_array((ones, columns.numpy(), row_ends.numpy()), shape=(batch * count, batch * count))
    label = torch.from_numpy(connected_components(graph, directed=False)[1]).long().view(batch, count)
    return label - label[:, :1]


def label_by_propagation(frozen: Tensor, neighbours: Tensor) -> Tensor:
    """Label clusters by their lowest spin index, updating all spins in parallel, on any device."""
    batch, _, count = frozen.shape
    back = torch.empty_like(neighbours).scatter_(1, neighbours, torch.arange(count, device=frozen.device).expand(2, -1))
    directions = [*zip(frozen.unbind(1), neighbours, strict=True)]
    directions += [(bond[:, end], end) for bond, end in zip(frozen.unbind(1), back, strict=True)]
    label = torch.arange(count, device=frozen.device).repeat(batch, 1)
    while True:
        before, lowest = label, label
        for bond, end in directions:
            lowest = torch.where(bond, torch.minimum(lowest, label.index_select(1, end)), lowest)
        # Lower the label of the spin that names the cluster, so that whole clusters merge.
        label = label.scatter_reduce(1, label, lowest, "amin")
        for _ in range(_JUMPS):
            label = label.gather(1, label)
        if torch.equal(label, before):
            return label
