"""Selling's reduction: what it promises of its vectors, and the lattice that comes back from six lengths."""

import numpy as np
import pytest
import torch
from torch import Tensor

from vitreous.powder import superbase
from vitreous.powder.cell import reciprocal
from vitreous.powder.lattice import niggli
from vitreous.powder.search import cell_of
from vitreous.sim.crystals import random_cells
from vitreous.sim.groups import SYSTEMS


def unimodular(count: int) -> Tensor:
    """Other bases of a lattice `(count, 3, 3)`."""
    steps = torch.randint(-2, 3, (count, 3))
    lower, upper = torch.eye(3).repeat(count, 1, 1), torch.eye(3).repeat(count, 1, 1)
    lower[:, 1, 0], lower[:, 2, 1], upper[:, 0, 2] = steps.unbind(1)
    return (lower @ upper).double()


@pytest.mark.parametrize("system", SYSTEMS)
def test_four_vectors_sum_to_zero_shortest_first_with_no_acute_angle(system: str) -> None:
    gram = superbase.superbase(reciprocal(random_cells(system, 200).double()))
    own = gram.diagonal(dim1=1, dim2=2)
    assert (own.diff(dim=1) >= 0).all()
    assert gram.sum(1).abs().max() < 1e-12
    assert (gram - torch.diag_embed(own)).max() < 1e-7


def test_the_lattice_comes_back() -> None:
    cells = random_cells("triclinic", 300).double()
    factors = superbase.of_lengths(superbase.lengths(reciprocal(cells)))
    np.testing.assert_allclose(niggli(cell_of("triclinic", factors).numpy()), cells.numpy(), rtol=1e-9)


def test_any_basis_of_a_lattice_gives_the_same_lengths() -> None:
    inverse = reciprocal(random_cells("triclinic", 300).double())
    turned = unimodular(300)
    other = superbase.lengths(turned @ inverse @ turned.mT)
    torch.testing.assert_close(other, superbase.lengths(inverse), atol=1e-10, rtol=1e-8)
