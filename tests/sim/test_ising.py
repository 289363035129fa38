"""Ising spins against Onsager's solution, sums over all states, and what symmetry demands."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from vitreous.errors import InputError
from vitreous.sim.ising import (
    CRITICAL,
    Lattice,
    _clusters,
    _connected,
    correlation_length,
    energy,
    heat_capacity,
    lowest,
    magnetisation,
    metropolis,
    microstates,
    onsager_energy,
    onsager_magnetisation,
    swendsen_wang,
)  # fmt: skip

LATTICES = [(b, f) for b in ("periodic", "skewed", "antiperiodic") for f in (True, False)]


def test_the_critical_temperature() -> None:
    assert abs(CRITICAL - 2.269185) < 1e-6


@pytest.mark.parametrize("temperature", [1.5, 2.0, 2.6, 4.0])
def test_energy_and_magnetisation_are_onsagers(temperature: float) -> None:
    torch.manual_seed(0)
    lattice = Lattice(32)
    spins = microstates(torch.full((200,), temperature), lattice)
    found = energy(spins, lattice)
    assert (
        abs(found.mean() - onsager_energy(temperature)) < 4 * found.std() / math.sqrt(200) + 2e-3
    )  # and what 32 × 32 lack
    if temperature < 2.1:
        assert abs(magnetisation(spins, lattice).abs().mean() - onsager_magnetisation(temperature)) < 5e-3


def _exact(lattice: Lattice, temperature: float) -> float:
    """Mean energy per spin, by the sum over all states."""
    count = lattice.size**2
    states = torch.tensor(list(itertools.product([-1, 1], repeat=count)), dtype=torch.float32)
    each = energy(states.view(-1, lattice.size, lattice.size), lattice).double() * count
    weight = torch.softmax(-each / temperature, 0)
    return float((weight * each).sum() / count)


@pytest.mark.parametrize(("boundary", "ferromagnetic"), LATTICES)
def test_small_lattices_are_as_the_sum_over_all_states_says(boundary: str, ferromagnetic: bool) -> None:
    torch.manual_seed(1)
    lattice = Lattice(4, boundary, ferromagnetic)
    spins = microstates(torch.full((6000,), 2.2), lattice, sweeps=30)
    found = energy(spins, lattice)
    assert abs(found.mean() - _exact(lattice, 2.2)) < 4 * found.std() / math.sqrt(6000)


@pytest.mark.parametrize("boundary", ["periodic", "antiperiodic"])
def test_single_flips_lead_to_the_same_as_clusters(boundary: str) -> None:
    torch.manual_seed(2)
    lattice = Lattice(4, boundary)
    spins = torch.ones(6000, 16)
    for _ in range(60):
        spins = metropolis(spins, torch.full((6000,), 2.5), lattice)
    found = energy(spins.view(-1, 4, 4), lattice)
    assert abs(found.mean() - _exact(lattice, 2.5)) < 4 * found.std() / math.sqrt(6000)


def test_an_antiferromagnet_is_a_ferromagnet_with_every_other_spin_turned() -> None:
    torch.manual_seed(3)
    spins = torch.randint(2, (5, 6, 6)) * 2 - 1
    place = torch.arange(6)
    turned = spins * (1 - 2 * ((place[:, None] + place) % 2))
    torch.testing.assert_close(energy(spins, Lattice(6)), energy(turned, Lattice(6, ferromagnetic=False)))
    torch.testing.assert_close(magnetisation(spins, Lattice(6)), magnetisation(turned, Lattice(6, ferromagnetic=False)))


def test_the_right_neighbour_of_the_last_in_a_skewed_row_is_the_first_of_the_next() -> None:
    neighbours, _ = Lattice(5, "skewed").bonds()
    assert neighbours[0, 4] == 5
    assert neighbours[0, 24] == 0


def test_an_antiperiodic_lattice_has_a_wall_in_its_lowest_state() -> None:
    up = torch.ones(1, 8, 8)
    assert energy(up, Lattice(8)) == -2
    assert energy(up, Lattice(8, "antiperiodic")) == -2 + 2 * 16 / 64


def test_cold_spins_stay_in_one_cluster_and_hot_ones_forget() -> None:
    torch.manual_seed(4)
    rows = 200
    cold = swendsen_wang(torch.ones(rows, 64), torch.full((rows,), 1e-3), Lattice(8))
    assert bool((cold.abs().sum(1) == cold.sum(1).abs()).all())
    hot = swendsen_wang(torch.ones(rows, 64), torch.full((rows,), 1e6), Lattice(8))
    assert abs(float(hot.mean())) < 4 / math.sqrt(rows * 64)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_temperatures_that_are_none_are_told_in_one_line(temperature: float) -> None:
    both, lattice = torch.tensor([2.0, temperature]), Lattice(4)
    with pytest.raises(InputError, match="expected a finite one above zero"):
        microstates(both, lattice)
    for update in (metropolis, swendsen_wang):
        with pytest.raises(InputError, match="expected a finite one above zero"):
            update(torch.ones(2, 16), both, lattice)


@pytest.mark.parametrize("wrong", [{"size": 1}, {"size": 4, "boundary": "open"}])
def test_lattices_that_are_none_are_told_in_one_line(wrong: dict[str, int | str]) -> None:
    with pytest.raises(InputError):
        Lattice(**wrong)  # type: ignore[arg-type]


def test_a_seed_decides_all() -> None:
    def drawn() -> Tensor:
        torch.manual_seed(7)
        return microstates(torch.linspace(1, 4, 6), Lattice(8), sweeps=5)

    assert torch.equal(drawn(), drawn())


@pytest.mark.parametrize(("boundary", "ferromagnetic"), LATTICES)
def test_both_ways_to_find_clusters_find_the_same(boundary: str, ferromagnetic: bool) -> None:
    torch.manual_seed(8)
    neighbours, _ = Lattice(12, boundary, ferromagnetic).bonds()
    frozen = torch.rand(20, 2, 144) < torch.linspace(0.1, 0.9, 20)[:, None, None]
    one, other = _connected(frozen, neighbours), _clusters(frozen, neighbours)
    assert torch.equal(one[:, :, None] == one[:, None], other[:, :, None] == other[:, None])
    assert 0 <= int(one.min()) <= int(one.max()) < 144


@pytest.mark.parametrize(
    ("boundary", "lowest_energy"), [("periodic", -2), ("skewed", -2), ("antiperiodic", -2 + 32 / 64)]
)
@pytest.mark.parametrize("ferromagnetic", [True, False])
def test_spins_start_in_states_of_lowest_energy(boundary: str, lowest_energy: float, ferromagnetic: bool) -> None:
    if boundary == "skewed" and not ferromagnetic:
        pytest.skip("a skewed row breaks the chequers")
    lattice = Lattice(8, boundary, ferromagnetic)
    assert (energy(lowest(50, lattice), lattice) == lowest_energy).all()


def test_the_wall_of_an_antiperiodic_lattice_starts_anywhere() -> None:
    torch.manual_seed(9)
    spins = lowest(4000, Lattice(6, "antiperiodic"))
    broken = (spins[:, :, :-1] != spins[:, :, 1:]).float().mean(0)
    assert (broken - 1 / 6).abs().max() < 5 * math.sqrt(1 / 6 / 4000)  # one of the six bonds along every row


def test_correlations_are_as_long_as_the_exact_length_says() -> None:
    torch.manual_seed(10)
    spins = microstates(torch.full((600,), 2.8), Lattice(32), sweeps=20).float()
    columns = spins.mean(1)  # whose correlations fall by one exponential
    along = [float((columns * columns.roll(step, 1)).mean()) for step in (0, 2)]
    assert 2 / math.log(along[0] / along[1]) == pytest.approx(correlation_length(2.8), rel=0.06)


def test_the_correlation_length_diverges_and_is_half_as_long_in_the_dual_cold() -> None:
    assert correlation_length(CRITICAL + 1e-6) > 1e5
    assert correlation_length(CRITICAL - 1e-6) > 1e5
    for hot in (2.4, 3.0, 4.0):
        cold = 2 / math.asinh(1 / math.sinh(2 / hot))  # Kramers and Wannier
        assert correlation_length(cold) == pytest.approx(correlation_length(hot) / 2)


def test_the_heat_capacity_is_the_spread_of_the_energy() -> None:
    torch.manual_seed(11)
    spins = microstates(torch.full((800,), 3.0), Lattice(24), sweeps=20)
    spread = float((energy(spins, Lattice(24)) * 24**2).double().var()) / 3.0**2 / 24**2
    assert spread == pytest.approx(heat_capacity(3.0), rel=4 * math.sqrt(2 / 800))


def test_the_exact_laws_hold_at_the_critical_point_and_near_zero() -> None:
    assert onsager_energy(CRITICAL) == pytest.approx(-math.sqrt(2), abs=1e-12)
    assert onsager_energy(CRITICAL + 1e-7) == pytest.approx(-math.sqrt(2), abs=1e-5)
    assert onsager_energy(1e-3) == pytest.approx(-2)
    assert onsager_magnetisation(1e-3) == pytest.approx(1)
    assert heat_capacity(1e-2) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("law", [onsager_energy, onsager_magnetisation, heat_capacity, correlation_length])
@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_no_law_holds_at_temperatures_that_are_none(law: Callable[[float], float], temperature: float) -> None:
    with pytest.raises(InputError, match="expected a finite one above zero"):
        law(temperature)
