"""All methods find the same clusters of frozen bonds."""

import pytest
import torch

from tests.kernels import in_triton, interpreted
from vitreous.gallery.ising.simulate import Lattice, label_by_graph, label_by_propagation

_CHECK = """
import torch
from vitreous.gallery.ising.cluster_kernel import label_clusters
from vitreous.gallery.ising.simulate import Lattice, label_by_propagation

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
for size, boundary in ((2, "periodic"), (5, "skewed"), (12, "antiperiodic"), (70, "periodic")):
    neighbours, _ = Lattice(size, boundary).bonds(device)
    frozen = torch.rand(6, 2, size**2, device=device) < torch.linspace(0.1, 0.9, 6, device=device)[:, None, None]
    assert torch.equal(label_clusters(frozen, neighbours), label_by_propagation(frozen, neighbours)), (size, boundary)
print("equal")
"""


@interpreted
def test_the_kernel_labels_clusters_by_their_lowest_index() -> None:
    assert in_triton(_CHECK, gpu=True) == "equal"


@pytest.mark.parametrize("boundary", ["periodic", "skewed", "antiperiodic"])
@pytest.mark.parametrize("ferromagnetic", [True, False])
def test_graph_and_propagation_find_the_same_clusters(boundary: str, ferromagnetic: bool) -> None:
    torch.manual_seed(8)
    neighbours, _ = Lattice(12, boundary, ferromagnetic).bonds()
    frozen = torch.rand(20, 2, 144) < torch.linspace(0.1, 0.9, 20)[:, None, None]
    one, other = label_by_graph(frozen, neighbours), label_by_propagation(frozen, neighbours)
    assert torch.equal(one[:, :, None] == one[:, None], other[:, :, None] == other[:, None])
    assert 0 <= int(one.min()) <= int(one.max()) < 144
