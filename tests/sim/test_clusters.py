"""The GPU's way to find clusters finds what the others do."""

from tests.kernels import in_triton, interpreted

_CHECK = """
import torch
from vitreous.sim.clusters import named
from vitreous.sim.ising import Lattice, _clusters

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
for size, boundary in ((2, "periodic"), (5, "skewed"), (12, "antiperiodic"), (70, "periodic")):
    neighbours, _ = Lattice(size, boundary).bonds(device)
    frozen = torch.rand(6, 2, size**2, device=device) < torch.linspace(0.1, 0.9, 6, device=device)[:, None, None]
    assert torch.equal(named(frozen, neighbours), _clusters(frozen, neighbours)), (size, boundary)
print("equal")
"""


@interpreted
def test_the_kernel_names_clusters_by_their_lowest_place() -> None:
    assert in_triton(_CHECK, gpu=True) == "equal"
