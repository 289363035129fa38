"""Bravais lattices: symmetries are recognised, and conventional cells come back in their standard setting."""

import math
import time
from typing import Any

import numpy as np
import pytest
import torch

from tests.powder.lattices import POINTS, ROTATIONS, TYPES, Cells, draw, other_bases, primitives, strained
from tools.make_bravais_table import symmetries_of_reduced_cells
from vitreous.core.errors import InputError
from vitreous.powder.bravais import TABLE, Bravais, bravais
from vitreous.powder.cell import cells_of, free_parameters, metrics_of, volumes
from vitreous.powder.lattice import niggli, primitive, same_lattice


def back(found: Bravais) -> Cells:
    return primitive(found.conventional[None], found.centring)[0]


@pytest.mark.parametrize(("system", "centring"), TYPES)
def test_a_lattice_is_recognised_from_any_primitive_cell(
    system: str, centring: str, random: np.random.Generator
) -> None:
    conventional = draw(system, 60, random)
    cells = strained(other_bases(primitive(conventional, centring), random), 1e-5, random)
    for cell, wanted in zip(cells, conventional, strict=True):
        found = bravais(cell, 1e-4)
        assert (found.system, found.centring) == (system, centring)
        assert found.strain < 2e-5
        assert same_lattice(back(found), cell, 1e-4)
        np.testing.assert_allclose(volumes([found.conventional]), volumes([wanted]), rtol=1e-4)
        if system == "orthorhombic":
            wanted[: 2 if centring == "C" else 3].sort()
        if system not in ("monoclinic", "triclinic"):
            np.testing.assert_allclose(found.conventional, wanted, rtol=1e-4)


@pytest.mark.parametrize(("system", "centring"), TYPES[:-1])
def test_a_lattice_distorted_by_two_percent_has_lost_its_symmetry(
    system: str, centring: str, random: np.random.Generator
) -> None:
    conventional = draw(system, 60, random) * np.array([1.02, 1, 0.98, 1.02, 1.02, 1.02])
    for cell in primitive(conventional, centring):
        assert ROTATIONS[bravais(cell).system] < ROTATIONS[system]


@pytest.mark.parametrize(("system", "centring"), TYPES)
def test_the_transformation_leads_from_the_given_cell_to_the_conventional_one(
    system: str, centring: str, random: np.random.Generator
) -> None:
    for cell in other_bases(primitive(draw(system, 20, random), centring), random):
        found = bravais(cell)
        columns = found.transformation
        assert round(np.linalg.det(columns)) == POINTS[found.centring]
        moved = cells_of((columns.T @ metrics_of([cell])[0] @ columns)[None])[0]
        np.testing.assert_allclose(moved, found.conventional, rtol=4 * found.strain + 1e-6)


@pytest.mark.parametrize("centring", ["P", "C"])
def test_monoclinic_axes_are_the_shortest_that_the_centring_allows(centring: str, random: np.random.Generator) -> None:
    i, j = (part.ravel() for part in np.meshgrid(np.arange(-9, 10), np.arange(-9, 10)))
    for cell in draw("monoclinic", 40, random):
        a, unique, c, _, beta, _ = cell.tolist()
        lengths = np.sqrt((i * a) ** 2 + (j * c) ** 2 + 2 * i * j * a * c * math.cos(math.radians(beta)))
        allowed = (i % 2 == 1) & (j % 2 == 0) if centring == "C" else (i != 0) | (j != 0)  # a + b halves to a point
        found = bravais(primitive([cell], centring)[0], 1e-6).conventional
        assert found[0] == pytest.approx(lengths[allowed].min())
        assert found[1] == pytest.approx(unique)
        assert found[4] >= 90
        assert -found[2] * math.cos(math.radians(found[4])) <= found[0] / 2 + 1e-6  # c + a is not shorter than c
        area = a * c * math.sin(math.radians(beta))
        assert found[0] * found[2] * math.sin(math.radians(found[4])) == pytest.approx(area)


@pytest.mark.parametrize(("angle", "centring"), [(60.0, "F"), (90.0, "P"), (math.degrees(math.acos(-1 / 3)), "I")])
def test_rhombohedra_of_three_angles_are_cubic(angle: float, centring: str) -> None:
    found = bravais([4, 4, 4, angle, angle, angle])
    assert (found.system, found.centring) == ("cubic", centring)


def test_of_several_equal_symmetries_the_one_with_the_smallest_strain_is_chosen() -> None:
    found = bravais([4.0, 4.004, 4.02, 90, 90, 90], 0.002)
    assert found.system == "tetragonal"
    assert found.conventional[:3].round(3).tolist() == [4.002, 4.002, 4.02]


def test_the_averaged_cell_lies_between() -> None:
    found = bravais([5.0, 5.004, 8.0, 90.02, 89.99, 90.01])
    assert (found.system, found.centring) == ("tetragonal", "P")
    assert found.conventional.tolist() == pytest.approx([5.002, 5.002, 8, 90, 90, 90], abs=1e-4)
    assert 3e-4 < found.strain < 1e-3


@pytest.mark.parametrize("tolerance", [-1e-3, 0.5, math.nan])
def test_a_tolerance_beyond_sense_is_refused(tolerance: float) -> None:
    with pytest.raises(InputError, match="tolerance: found"):
        bravais([4, 4, 4, 90, 90, 90], tolerance)


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_crystals_have_at_least_the_lattice_of_their_group(step: int, real: Any) -> None:
    cells, centring, systems = (part[::step] for part in real)
    reduced = niggli(primitives(cells, centring))
    found = [bravais(cell) for cell in reduced]
    again = np.array([back(one) for one in found])
    np.testing.assert_allclose(volumes(again), volumes(reduced), rtol=0.006)
    assert all(same_lattice(one, other, 0.003) for one, other in zip(again, reduced, strict=True))
    lower = sum(ROTATIONS[one.system] < ROTATIONS[wanted] for one, wanted in zip(found, systems, strict=True))
    same = np.array([one.system for one in found]) == systems
    conventional = np.array([one.conventional for one in found])
    fixed = same & ~np.isin(systems, ["monoclinic", "triclinic"])
    fixed &= (systems != "trigonal") | (centring == "R")  # rhombohedral axes are not given back
    np.testing.assert_allclose(np.sort(conventional[fixed, :3]), np.sort(cells[fixed, :3]), rtol=0.003)
    plane = same & (systems == "monoclinic") & (centring == "P") & (cells[:, [3, 5]] == 90).all(1)
    known = free_parameters("monoclinic", torch.from_numpy(cells[plane])).numpy()
    np.testing.assert_allclose(conventional[plane][:, [0, 1, 2, 4]], known, rtol=0.003)
    assert lower <= 5  # five entries have a cell that contradicts their group, such as I4/mcm with γ = 120°
    assert same.mean() > 0.96  # the others are metrically higher


def test_one_lattice_is_recognised_within_five_milliseconds() -> None:
    cell = [5.0, 6.1, 7.3, 81.0, 86.0, 77.0]
    bravais(cell)  # makes the table
    times = []
    for _ in range(20):
        start = time.perf_counter()
        bravais(cell)
        times.append(time.perf_counter() - start)
    assert np.median(times) < 5e-3


def test_the_table_of_symmetries_is_that_of_the_rotation_groups() -> None:
    computed = symmetries_of_reduced_cells()
    with np.load(TABLE) as table:
        assert sorted(table.files) == sorted(computed)
        for name in table.files:
            np.testing.assert_array_equal(table[name], computed[name])
