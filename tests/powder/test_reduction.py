"""Reductions: Niggli cells equal gemmi's from any basis; Selling's vectors and the lattice from six lengths."""

import math
import time
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.powder.lattices import BORDERS, draw, other_bases, primitives, reduced_by
from tests.powder.test_cell import cells
from vitreous.core.errors import InputError
from vitreous.powder.cell import cells_of, metrics_of, reciprocal_metric
from vitreous.powder.lattice import distinct, niggli, primitive
from vitreous.powder.reciprocal import cell_from_reciprocal
from vitreous.powder.reduction import (
    is_niggli_reduced,
    niggli_reduction,
    quadratic_from_lengths,
    selling_superbase,
    superbase_lengths,
)
from vitreous.powder.sim.crystals import random_cells
from vitreous.powder.sim.space_groups import SYSTEMS


def test_reduced_cells_are_gemmis(gemmi: Any, random: np.random.Generator) -> None:
    cells = draw("triclinic", 3000, random)
    np.testing.assert_allclose(niggli(cells), reduced_by(gemmi, cells), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("centring", "cell"), BORDERS)
def test_reduced_cells_on_the_borders_are_gemmis_from_any_basis(
    centring: str, cell: tuple[float, ...], gemmi: Any, random: np.random.Generator
) -> None:
    conventional = np.array([cell], dtype=np.float64)
    wanted = reduced_by(gemmi, conventional, centring)
    bases = other_bases(np.repeat(primitive(conventional, centring), 200, axis=0), random)
    np.testing.assert_allclose(niggli(bases), np.repeat(wanted, 200, axis=0), rtol=0, atol=1e-6)


def test_reduced_cells_of_all_crystals_are_gemmis(gemmi: Any, real: Any) -> None:
    cells, centring, _ = real
    found = niggli(primitives(cells, centring))
    for letter in np.unique(centring):
        rows = centring == letter
        np.testing.assert_allclose(found[rows], reduced_by(gemmi, cells[rows], str(letter)), rtol=0, atol=1e-6)


def test_reducing_undoes_any_change_of_basis(random: np.random.Generator) -> None:
    cells = draw("triclinic", 1000, random)
    np.testing.assert_allclose(niggli(other_bases(cells, random)), niggli(cells), rtol=0, atol=1e-6)
    np.testing.assert_allclose(niggli(niggli(cells)), niggli(cells), rtol=0, atol=1e-9)


def test_very_skew_cells_are_reduced() -> None:
    many = np.array([[1, 0, 0], [57, 1, 0], [-43, 91, 1]], dtype=np.float64)
    cell = np.array([[5.0, 6.0, 7.0, 80.0, 85.0, 75.0]])
    skew = cells_of(many.T @ metrics_of(cell) @ many)
    np.testing.assert_allclose(niggli(skew), niggli(cell), rtol=0, atol=1e-5)


def test_transformations_keep_the_sense_and_lead_to_the_reduced_cells(random: np.random.Generator) -> None:
    cells = draw("triclinic", 500, random)
    reduced, columns = niggli_reduction(metrics_of(cells))
    assert columns.dtype == np.int64
    np.testing.assert_array_equal(np.rint(np.linalg.det(columns)), 1)
    changed = columns.transpose(0, 2, 1) @ metrics_of(cells) @ columns
    np.testing.assert_allclose(cells_of(changed), cells_of(reduced), atol=1e-8)


def test_ten_thousand_cells_are_reduced_within_a_second(random: np.random.Generator) -> None:
    cells = draw("triclinic", 10_000, random)
    start = time.perf_counter()
    niggli(cells)
    assert time.perf_counter() - start < 1


def test_no_cells_are_reduced_to_none() -> None:
    assert niggli(np.empty((0, 6))).shape == (0, 6)
    assert distinct(np.empty((0, 6))).tolist() == []


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([[4, 5, 6, 90, 90, 90], [4, 5, 6, 40, 40, 100]], "found 4 5 6 40 40 100 in row 1, expected a valid unit cell"),
        ([[4, 5, math.nan, 90, 90, 90]], "found 4 5 nan"),
        ([[4, 5, math.inf, 90, 90, 90]], "found 4 5 inf"),
        ([[-4, 5, 6, 90, 90, 90]], "found -4 5 6"),
        ([4, 5, 6, 90, 90, 90], r"found an array of shape \(6,\), expected \(B, 6\)"),
    ],
)
def test_what_is_no_cell_is_told(cells: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        niggli(cells)


def test_is_reduced_agrees_with_gemmi(gemmi) -> None:  # type: ignore[no-untyped-def]
    skew = cells(300)
    reduced = []
    for cell in skew.tolist():
        vector = gemmi.GruberVector(gemmi.UnitCell(*cell), None)
        vector.niggli_reduce()
        reduced.append(vector.cell_parameters())
    near = cells(1500, 80, 100)  # of which some happen to be reduced
    near[:, :3] = near[:, :3].sort(dim=1).values
    several = torch.cat([skew, torch.tensor(reduced, dtype=torch.float64), near])
    wanted = [gemmi.GruberVector(gemmi.UnitCell(*cell), None).is_niggli(1e-6) for cell in several.tolist()]
    assert is_niggli_reduced(several).tolist() == wanted
    assert all(wanted[300:600])
    assert 100 < sum(wanted[600:]) < 1400


@pytest.mark.parametrize(
    "cell",
    [(4, 4, 4, 90, 90, 90), (3, 3, 5, 90, 90, 120), (4, 4, 4, 60, 60, 60), (4, 4, 4, 109.4712, 109.4712, 109.4712)],
)
def test_lattices_on_the_border_count_as_reduced(cell: tuple[float, ...]) -> None:
    assert is_niggli_reduced(torch.tensor([cell], dtype=torch.float64)).item()


def unimodular(count: int) -> Tensor:
    """Other bases of a lattice `(count, 3, 3)`."""
    steps = torch.randint(-2, 3, (count, 3))
    lower, upper = torch.eye(3).repeat(count, 1, 1), torch.eye(3).repeat(count, 1, 1)
    lower[:, 1, 0], lower[:, 2, 1], upper[:, 0, 2] = steps.unbind(1)
    return (lower @ upper).double()


@pytest.mark.parametrize("system", SYSTEMS)
def test_four_vectors_sum_to_zero_shortest_first_with_no_acute_angle(system: str) -> None:
    gram = selling_superbase(reciprocal_metric(random_cells(system, 200).double()))
    own = gram.diagonal(dim1=1, dim2=2)
    assert (own.diff(dim=1) >= 0).all()
    assert gram.sum(1).abs().max() < 1e-12
    assert (gram - torch.diag_embed(own)).max() < 1e-7


def test_the_lattice_comes_back() -> None:
    cells = random_cells("triclinic", 300).double()
    factors = quadratic_from_lengths(superbase_lengths(reciprocal_metric(cells)))
    np.testing.assert_allclose(niggli(cell_from_reciprocal("triclinic", factors).numpy()), cells.numpy(), rtol=1e-9)


def test_any_basis_of_a_lattice_gives_the_same_lengths() -> None:
    inverse = reciprocal_metric(random_cells("triclinic", 300).double())
    turned = unimodular(300)
    other = superbase_lengths(turned @ inverse @ turned.mT)
    torch.testing.assert_close(other, superbase_lengths(inverse), atol=1e-10, rtol=1e-8)
