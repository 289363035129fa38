"""Lists of lines: in their own units, explained by the lattice that comes with them, of all systems."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from vitreous.powder.reciprocal import reflection_basis
from vitreous.powder.reduction import quadratic_from_lengths
from vitreous.powder.sim.line_lists import (
    MAX_LINES,
    MIN_LINES,
    ListEffects,
    as_lists,
    list_source,
    random_lists,
    random_lists_of_system,
)
from vitreous.powder.sim.space_groups import SYSTEMS, centring, groups_of_system


@pytest.fixture(scope="module")
def drawn() -> tuple[Tensor, Tensor]:
    torch.manual_seed(3)
    return random_lists(600)


def misses(x: Tensor, y: Tensor) -> Tensor:
    """How far each line is from the nearest of its lattice, in units of the list's own 1/d; NaN where there is none."""
    basis = reflection_basis("triclinic", "P", (6, 6, 6))
    calculated = (quadratic_from_lengths(y[:, :6].double()) @ basis.T).clamp(min=0).sqrt()
    place = x[:, 0].double()
    miss = torch.stack([(p[:, None] - c).abs().amin(1) for p, c in zip(place, calculated, strict=True)])
    return miss.masked_fill(place == 0, torch.nan)


def test_lists_are_ascending_and_in_units_of_their_reference(drawn: tuple[Tensor, Tensor]) -> None:
    x, y = drawn
    assert x.shape == (600, 4, MAX_LINES)
    assert y.shape == (600, 8)
    assert x.isfinite().all()
    assert y.isfinite().all()
    assert (y[:, :6] > 0).all()
    there = x[:, 0] > 0
    assert (there.diff(dim=1).sum(1) <= 1).all()  # no line after the end
    rising = x[:, 0].diff(dim=1) >= 0  # rounded angles may be equal
    assert rising[there[:, 1:]].all()
    last = (there.sum(1) - 1).clamp(max=19)
    assert (x[:, 0].gather(1, last[:, None]) == 1).all()
    assert (there.sum(1) >= MIN_LINES).float().mean() > 0.9
    assert (x[:, :, -1][there[:, -1]][:, 1] <= 0.5).all()


def test_most_lines_are_near_one_of_their_lattice(drawn: tuple[Tensor, Tensor]) -> None:
    miss = misses(*drawn)
    reference = miss[~miss.isnan()]
    assert (reference < 5e-3).float().mean() > 0.8
    shuffled = misses(drawn[0], drawn[1].roll(1, 0))
    assert (shuffled[~shuffled.isnan()] < 5e-3).float().mean() < 0.6


OFF, TINY = (0.0, 0.0), (1e-9, 1e-9)
IDEAL = ListEffects(
    mixed=0.0, zero=TINY, displacement=TINY, lost=OFF, error=TINY, rounded=0.0, resolution=TINY, clean=1.0, short=0.0
)


def test_without_errors_every_line_is_one_of_its_lattice() -> None:
    miss = misses(*random_lists(400, effects=IDEAL))
    assert (miss[:, :12].nan_to_num(0) < 2e-4).float().mean() > 0.995  # the box of 6 misses a few lines of long cells


def test_shifts_move_the_lines_as_they_say() -> None:
    torch.manual_seed(4)
    lists = random_lists_of_system("cubic", 60, effects=replace(IDEAL, zero=(0.1, 0.1), displacement=(0.1, 0.1)))
    first, sine = (lists.lists[:, row, 0].double() for row in (0, 3))
    wavelength = 2 * sine / (first * lists.units)
    theta = sine.arcsin()
    shift = wavelength * (lists.shifts[:, 0] + lists.shifts[:, 1] * theta.cos())
    true_s = 2 / wavelength * (theta - torch.deg2rad(shift) / 2).sin()
    squares = true_s.square() / lists.inverse[:, 0, 0].double()  # of primitive reciprocal vectors
    moved = (first * lists.units).square() / lists.inverse[:, 0, 0].double()

    def off(values: Tensor) -> Tensor:  # from multiples of a third: h² + k² + l² of P, I and F lattices
        return (3 * values - (3 * values).round()).abs()

    assert (off(squares) < 2e-3).float().mean() > 0.95
    assert off(squares).median() < 0.1 * off(moved).median()


def test_up_to_the_stated_share_of_lines_is_foreign() -> None:
    torch.manual_seed(4)
    miss = misses(*random_lists(200, effects=replace(IDEAL, clean=0.0, foreign=0.4)))[:, :20]
    foreign = (miss > 3e-3).sum(1) / (~miss.isnan()).sum(1)
    assert 0.08 < foreign.mean() < 0.25
    assert foreign.max() > 0.3


def test_half_of_the_lists_have_no_intensities(drawn: tuple[Tensor, Tensor]) -> None:
    assert 0.4 < (drawn[0][:, 1] == 0).all(1).float().mean() < 0.6


def test_a_seed_determines_the_lists() -> None:
    torch.manual_seed(5)
    first = random_lists(40)
    torch.manual_seed(5)
    assert all(torch.equal(a, b) for a, b in zip(first, random_lists(40), strict=True))


def test_short_lists_are_padded() -> None:
    x, unit = as_lists(torch.tensor([[0.1, 0.2, 0.4]]), torch.tensor([[1.0, 0.5, 0.1]]), torch.tensor([1.5]))
    assert unit.tolist() == pytest.approx([0.4])
    torch.testing.assert_close(x[0, 0, :3], torch.tensor([0.25, 0.5, 1.0]))
    torch.testing.assert_close(x[0, 3, :3], torch.tensor([0.075, 0.15, 0.3]))
    assert (x[0, :, 3:] == 0).all()


def test_a_source_trains_on_new_lists_and_tests_on_the_same() -> None:
    source, again = list_source(64, 32, 32), list_source(64, 32, 32)
    assert (source.x == again.x).all()
    assert source.fresh is not None
    assert source.fresh(16, torch.device("cpu"))[0].shape == (16, 4, MAX_LINES)


def test_every_group_has_a_centring_of_its_system() -> None:
    allowed = {
        "triclinic": "P", "monoclinic": "PC", "orthorhombic": "PACIF", "tetragonal": "PI", "trigonal": "PR",
        "hexagonal": "P", "cubic": "PIF",
    }  # fmt: skip
    for system in SYSTEMS:
        assert {centring(n) for n in groups_of_system(system)} == set(allowed[system])
