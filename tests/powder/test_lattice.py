"""Lattices: primitive cells, derivative lattices, and whether two cells describe one lattice."""

import itertools
import math

import numpy as np
import pytest

from tests.powder.lattices import (
    POINTS,
    TYPES,
    Cells,
    draw,
    other_bases,
    strained,
)
from vitreous.core.errors import InputError
from vitreous.powder.cell import cells_of, metrics_of, volumes
from vitreous.powder.lattice import derivatives, distinct, niggli, primitive, same_lattice, voronoi_lengths


@pytest.mark.parametrize(("centring", "points"), POINTS.items())
def test_a_primitive_cell_has_the_volume_of_one_point(centring: str, points: int) -> None:
    cell = [[4.0, 4.0, 9.0, 90.0, 90.0, 120.0 if centring == "R" else 90.0]]
    np.testing.assert_allclose(volumes(primitive(cell, centring)), volumes(cell) / points)


def test_an_unknown_centring_is_refused() -> None:
    with pytest.raises(InputError, match="centring: unknown choice 'Q'; expected one of: P, A"):
        primitive([[4, 4, 4, 90, 90, 90]], "Q")


def test_voronoi_lengths_are_the_shortest_of_their_classes(random: np.random.Generator) -> None:
    cells = niggli(draw("triclinic", 100, random))
    vectors = np.array([v for v in itertools.product(range(-3, 4), repeat=3) if any(v)])
    lengths = np.sqrt(np.einsum("ni,bij,nj->bn", vectors, metrics_of(cells), vectors))
    classes = vectors % 2 @ np.array([4, 2, 1])
    wanted = np.stack([lengths[:, classes == k].min(1) for k in range(1, 8)], axis=1)
    np.testing.assert_allclose(voronoi_lengths(cells), wanted)


@pytest.mark.parametrize(("system", "centring"), TYPES)
def test_a_lattice_is_the_same_in_any_basis_and_a_little_strained(
    system: str, centring: str, random: np.random.Generator
) -> None:
    cells = primitive(draw(system, 30, random), centring)
    moved = strained(other_bases(cells, random), 5e-4, random)
    assert all(same_lattice(cell, other, 1e-3) for cell, other in zip(cells, moved, strict=True))


def test_a_strained_lattice_is_another(random: np.random.Generator) -> None:
    cells = draw("triclinic", 50, random)
    moved = strained(cells, 0.02, random)
    assert not any(same_lattice(cell, other, 1e-3) for cell, other in zip(cells, moved, strict=True))


def test_a_flip_between_reduced_forms_leaves_the_lattice_the_same() -> None:
    near = [[5.0, 6.0, 7.0, 90 + sign * 0.01, 90.01, 90.01] for sign in (-1, 1)]  # of type II and of type I
    one, other = niggli(near)
    assert np.abs(one - other).max() > 0.01
    assert same_lattice(one, other, 1e-3)
    for angle in (60.0, 90.0, math.degrees(math.acos(-1 / 3))):
        assert same_lattice([5, 5, 5] + 3 * [angle - 0.005], [5, 5.001, 5.002] + 3 * [angle + 0.005], 1e-3)


def test_the_same_seven_lengths_arranged_otherwise_are_another_lattice() -> None:
    def superbase(p: float, q: float, r: float) -> Cells:
        """Four vectors with sum 0 and squares 100 to 103, and squares p, q, r of their sums in pairs."""
        x, y, z = (r - 203) / 2, (q - 204) / 2, (p - 205) / 2
        return cells_of(np.array([[[101, x, y], [x, 102, z], [y, z, 103]]], dtype=np.float64))

    one, other = superbase(130, 135, 141), superbase(135, 130, 141)
    np.testing.assert_allclose(np.sort(voronoi_lengths(one)), np.sort(voronoi_lengths(other)))
    assert not same_lattice(one[0], other[0], 1e-3)
    assert same_lattice(one[0], one[0], 1e-3)


def test_the_best_ranked_cell_of_each_lattice_is_kept(random: np.random.Generator) -> None:
    cells = draw("triclinic", 40, random)
    several = np.concatenate([cells, strained(other_bases(cells, random), 1e-4, random), cells[::-1]])
    assert distinct(several, 1e-3).tolist() == list(range(40))
    assert distinct(several[::-1], 1e-3).tolist() == list(range(40))


def test_a_lattice_without_symmetry_has_7_13_and_35_derivatives_of_index_2_3_and_4() -> None:
    cell = np.array([5.0, 6.1, 7.3, 81.0, 86.0, 77.0])
    ratios = np.rint(12 * volumes(derivatives(cell)) / volumes([cell])) / 12
    assert ratios.tolist() == [1 / 4] * 35 + [1 / 3] * 13 + [1 / 2] * 7 + [2.0] * 7 + [3.0] * 13 + [4.0] * 35
    assert len(derivatives(cell, up_to=2)) == 14
    assert derivatives(cell, up_to=1).shape == (0, 6)


@pytest.mark.parametrize(("centring", "counts"), [("P", (3, 3, 9)), ("F", (2, 3, 7)), ("I", (2, 3, 7))])
def test_derivatives_of_cubic_lattices_are_as_many_as_hart_and_forcade_count(
    centring: str, counts: tuple[int, ...]
) -> None:
    cell = primitive([[4, 4, 4, 90, 90, 90]], centring)
    ratios = np.rint(volumes(derivatives(cell[0])) / volumes(cell)).astype(int)
    assert tuple((ratios == index).sum() for index in (2, 3, 4)) == counts


def test_a_lattice_is_among_the_derivatives_of_its_derivatives() -> None:
    cell = np.array([5.0, 6.1, 7.3, 81.0, 86.0, 77.0])
    for other in derivatives(cell)[::9]:
        assert len(distinct(np.concatenate([derivatives(other), cell[None]]), 1e-6)) == len(derivatives(other))
