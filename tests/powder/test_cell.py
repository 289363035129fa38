"""Cells: metrics equal gemmi's, free parameters come back, and invalid cells are reported."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.powder.cell import (
    NAMES,
    check_cell,
    free_parameters,
    full_cell,
    metric_tensor,
    reciprocal_metric,
    targets,
)
from vitreous.powder.sim.space_groups import SYSTEMS

FREE = {
    "triclinic": 6, "monoclinic": 4, "orthorhombic": 3, "tetragonal": 2, "trigonal": 2, "hexagonal": 2, "cubic": 1
}  # fmt: skip


@pytest.fixture(scope="module")
def gemmi():  # type: ignore[no-untyped-def]
    return pytest.importorskip("gemmi")


def cells(count: int, low: float = 65.0, high: float = 115.0) -> Tensor:
    """Any angles within these limits leave a cell."""
    lengths = torch.empty(count, 3, dtype=torch.float64).uniform_(2, 25)
    return torch.cat([lengths, torch.empty(count, 3, dtype=torch.float64).uniform_(low, high)], dim=1)


def monoclinic(count: int) -> Tensor:
    cell = cells(count)
    cell[:, 3], cell[:, 5] = 90, 90
    cell[:, 4].uniform_(25, 155)
    return cell


def test_one_over_d_squared_equals_gemmis(gemmi) -> None:  # type: ignore[no-untyped-def]
    several, hkl = cells(30), torch.randint(-9, 10, (30, 3))
    inverse = reciprocal_metric(several)
    for cell, index, own in zip(several, hkl, inverse, strict=True):
        wanted = gemmi.UnitCell(*cell.tolist()).calculate_1_d2(index.tolist())
        assert float(index.double() @ own @ index.double()) == pytest.approx(wanted, rel=1e-9)


def test_metric_gives_the_volume_and_the_lengths_of_gemmi(gemmi) -> None:  # type: ignore[no-untyped-def]
    several = cells(20)
    for cell, own in zip(several, metric_tensor(several), strict=True):
        peer = gemmi.UnitCell(*cell.tolist())
        assert math.sqrt(torch.linalg.det(own)) == pytest.approx(peer.volume, rel=1e-9)
        corner = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
        place = peer.orthogonalize(gemmi.Fractional(*corner.tolist()))
        assert math.sqrt(corner @ own @ corner) == pytest.approx(place.length(), rel=1e-9)


def test_single_precision_keeps_its_digits_in_the_inverse() -> None:
    flat = torch.tensor([[3.0, 25.0, 30.0, 88.0, 62.0, 119.0]])  # a metric of large condition
    exact = reciprocal_metric(flat.double())
    torch.testing.assert_close(reciprocal_metric(flat).double(), exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize("system", SYSTEMS)
def test_free_parameters_make_the_cell_and_come_back(system: str) -> None:
    known = {"monoclinic": [4.0, 7.0, 9.0, 97.0], "orthorhombic": [4.0, 6.5, 9.0]}
    count = FREE[system]
    values = torch.tensor([known.get(system, [4.0, 5.0, 9.0, 80.0, 85.0, 75.0][:count])])
    cell = full_cell(system, values)
    assert cell.shape == (1, 6)
    assert torch.equal(free_parameters(system, cell)[0].isfinite(), torch.ones(count, dtype=torch.bool))
    torch.testing.assert_close(free_parameters(system, cell), values, atol=1e-4, rtol=0)
    assert len(targets(system)) == count
    check_cell(cell[0].tolist())


@pytest.mark.parametrize(
    ("system", "values", "cell"),
    [
        ("cubic", [4.0], [4, 4, 4, 90, 90, 90]),
        ("hexagonal", [3.0, 5.0], [3, 3, 5, 90, 90, 120]),
        ("trigonal", [3.0, 5.0], [3, 3, 5, 90, 90, 120]),
        ("tetragonal", [3.0, 5.0], [3, 3, 5, 90, 90, 90]),
        ("orthorhombic", [3.0, 5.0, 7.0], [3, 5, 7, 90, 90, 90]),
        ("monoclinic", [3.0, 5.0, 7.0, 99.0], [3, 5, 7, 90, 99, 90]),
        ("triclinic", [3.0, 5.0, 7.0, 81.0, 82.0, 83.0], [3, 5, 7, 81, 82, 83]),
    ],
)
def test_a_system_fixes_what_is_not_free(system: str, values: list[float], cell: list[float]) -> None:
    assert full_cell(system, torch.tensor([values]))[0].tolist() == cell


def test_lengths_are_regressed_by_their_logarithm_and_angles_are_not() -> None:
    found = targets("triclinic")
    assert tuple(target.name for target in found) == NAMES
    assert [(target.unit, target.log) for target in found] == [("Å", True)] * 3 + [("°", False)] * 3


def test_the_order_of_orthorhombic_axes_does_not_matter() -> None:
    for axes in itertools.permutations([4.0, 6.5, 9.0]):
        assert free_parameters("orthorhombic", torch.tensor([[*axes, 90, 90, 90]])).tolist() == [[4.0, 6.5, 9.0]]


def short_vectors(a: float, c: float, beta: float) -> list[float]:
    """Squares of the twelve shortest vectors of a plane lattice, by trying."""
    i, j = np.meshgrid(np.arange(-40, 41), np.arange(-40, 41))
    square = (i * a) ** 2 + (j * c) ** 2 + 2 * i * j * a * c * math.cos(math.radians(beta))
    return np.sort(square.ravel())[1:13].tolist()


def test_monoclinic_reduction_keeps_the_lattice_of_the_plane() -> None:
    before = monoclinic(100)
    after = free_parameters("monoclinic", before)
    assert torch.equal(after[:, 1], before[:, 1])
    area = before[:, 0] * before[:, 2] * torch.deg2rad(before[:, 4]).sin()
    torch.testing.assert_close(after[:, 0] * after[:, 2] * torch.deg2rad(after[:, 3]).sin(), area)
    for (a, _, c, _, beta, _), (x, _, z, angle) in zip(before.tolist(), after.tolist(), strict=True):
        assert short_vectors(x, z, angle) == pytest.approx(short_vectors(a, c, beta), rel=1e-8)


def test_monoclinic_axes_are_the_two_shortest_at_an_obtuse_angle() -> None:
    before = monoclinic(100)
    a, _, c, beta = free_parameters("monoclinic", before).unbind(1)
    assert (a <= c).all()
    assert (beta >= 90).all()
    assert (beta <= 120 + 1e-9).all()
    shortest = torch.tensor([short_vectors(*cell)[0] ** 0.5 for cell in before[:, [0, 2, 4]].tolist()])
    torch.testing.assert_close(a, shortest.double(), atol=1e-6, rtol=0)


def test_every_monoclinic_description_of_a_lattice_gives_the_same_parameters() -> None:
    a, c, product = 5.0, 8.0, 40 * math.cos(math.radians(103))
    wanted = free_parameters("monoclinic", torch.tensor([[a, 6.0, c, 90, 103, 90]], dtype=torch.float64))
    for p, q, r, s in ((1, 0, 1, 1), (0, 1, -1, 0), (2, 1, 1, 1), (1, 0, -3, 1), (3, 2, 4, 3), (1, 0, 0, -1)):
        x, z = (math.sqrt((i * a) ** 2 + (j * c) ** 2 + 2 * i * j * product) for i, j in ((p, q), (r, s)))
        inner = p * r * a * a + q * s * c * c + (p * s + q * r) * product
        beta = math.degrees(math.acos(inner / (x * z)))
        other = torch.tensor([[x, 6.0, z, 90, beta, 90]], dtype=torch.float64)
        torch.testing.assert_close(free_parameters("monoclinic", other), wanted, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ((4, 5, 6, 90, 90), r"cell: found 5 number\(s\), expected a b c"),
        ((4, 5, math.nan, 90, 90, 90), "cell: found 4 5 nan 90 90 90, expected finite numbers"),
        ((4, 5, 6, 90, 90, math.inf), "expected finite numbers"),
        ((0.5, 5, 6, 90, 90, 90), "found lengths 0.5 5 6, expected 1 to 200 Å"),
        ((4, 5, 201, 90, 90, 90), "found lengths 4 5 201, expected 1 to 200 Å"),
        ((-4, 5, 6, 90, 90, 90), "found lengths -4 5 6"),
        ((4, 5, 6, 40, 40, 100), "found angles 40 40 100°, expected"),
        ((4, 5, 6, 120, 120, 120), "found angles 120 120 120°"),
        ((4, 5, 6, 90, 180, 90), "found angles 90 180 90°"),
        ((4, 5, 6, -90, 90, 90), "found angles -90 90 90°"),
    ],
)
def test_an_invalid_cell_is_reported_in_one_line(cell: tuple[float, ...], message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        check_cell(cell)
    assert "\n" not in str(fault.value)


def test_a_valid_cell_passes() -> None:
    for cell in cells(50).tolist():
        check_cell(cell)


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(InputError, match="system: unknown choice 'rhombic'; expected one of: triclinic"):
        targets("rhombic")
