"""Ising spins agree with Onsager's solution, with sums over all states and with symmetry."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.gallery.ising.exact import correlation_length, heat_capacity, onsager_energy, onsager_magnetisation
from vitreous.gallery.ising.simulate import Lattice, energy, ground_states, magnetisation, microstates

LATTICES = [(b, f) for b in ("periodic", "skewed", "antiperiodic") for f in (True, False)]


@pytest.mark.parametrize("temperature", [1.5, 2.0, 2.6, 4.0])
def test_energy_and_magnetisation_agree_with_onsager(temperature: float) -> None:
    torch.manual_seed(0)
    lattice = Lattice(32)
    spins = microstates(torch.full((200,), temperature), lattice)
    energies = energy(spins, lattice)
    assert (
        abs(energies.mean() - onsager_energy(temperature)) < 4 * energies.std() / math.sqrt(200) + 2e-3
    )  # and the effect of the finite size
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
def test_small_lattices_agree_with_the_sum_over_all_states(boundary: str, ferromagnetic: bool) -> None:
    torch.manual_seed(1)
    lattice = Lattice(4, boundary, ferromagnetic)
    spins = microstates(torch.full((6000,), 2.2), lattice, sweeps=30)
    energies = energy(spins, lattice)
    assert abs(energies.mean() - _exact(lattice, 2.2)) < 4 * energies.std() / math.sqrt(6000)


def test_an_antiferromagnet_is_a_ferromagnet_with_every_other_spin_flipped() -> None:
    torch.manual_seed(3)
    spins = torch.randint(2, (5, 6, 6)) * 2 - 1
    index = torch.arange(6)
    flipped = spins * (1 - 2 * ((index[:, None] + index) % 2))
    torch.testing.assert_close(energy(spins, Lattice(6)), energy(flipped, Lattice(6, ferromagnetic=False)))
    torch.testing.assert_close(
        magnetisation(spins, Lattice(6)), magnetisation(flipped, Lattice(6, ferromagnetic=False))
    )


def test_a_skewed_row_continues_in_the_next_row() -> None:
    neighbours, _ = Lattice(5, "skewed").bonds()
    assert neighbours[0, 4] == 5
    assert neighbours[0, 24] == 0


def test_an_antiperiodic_lattice_pays_for_bonds_across_its_edges() -> None:
    up = torch.ones(1, 8, 8)
    assert energy(up, Lattice(8)) == -2
    assert energy(up, Lattice(8, "antiperiodic")) == -2 + 2 * 16 / 64


def test_cold_spins_form_one_cluster_and_hot_spins_become_random() -> None:
    torch.manual_seed(4)
    rows = 200
    cold, hot = (microstates(torch.full((rows,), t), Lattice(8), sweeps=1).flatten(1).float() for t in (1e-3, 1e6))
    assert bool((cold.abs().sum(1) == cold.sum(1).abs()).all())
    assert abs(float(hot.mean())) < 4 / math.sqrt(rows * 64)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_invalid_temperatures_are_refused(temperature: float) -> None:
    with pytest.raises(InputError, match="expected a finite one above zero"):
        microstates(torch.tensor([2.0, temperature]), Lattice(4))


@pytest.mark.parametrize("invalid", [{"size": 1}, {"size": 4, "boundary": "open"}])
def test_invalid_lattices_are_refused(invalid: dict[str, int | str]) -> None:
    with pytest.raises(InputError):
        Lattice(**invalid)  # type: ignore[arg-type]


def test_equal_seeds_give_equal_spins() -> None:
    def simulate() -> Tensor:
        torch.manual_seed(7)
        return microstates(torch.linspace(1, 4, 6), Lattice(8), sweeps=5)

    assert torch.equal(simulate(), simulate())


@pytest.mark.parametrize(
    ("boundary", "ferromagnetic", "lowest_energy"),
    [
        ("periodic", True, -2),
        ("periodic", False, -2),
        ("skewed", True, -2),  # no checkerboard fits a skewed lattice
        ("antiperiodic", True, -2 + 32 / 64),
        ("antiperiodic", False, -2 + 32 / 64),
    ],
)
def test_ground_states_have_the_lowest_energy(boundary: str, ferromagnetic: bool, lowest_energy: float) -> None:
    lattice = Lattice(8, boundary, ferromagnetic)
    assert (energy(ground_states(50, lattice), lattice) == lowest_energy).all()


def test_the_domain_wall_of_an_antiperiodic_lattice_lies_anywhere() -> None:
    torch.manual_seed(9)
    spins = ground_states(4000, Lattice(6, "antiperiodic"))
    broken = (spins[:, :, :-1] != spins[:, :, 1:]).float().mean(0)
    assert (broken - 1 / 6).abs().max() < 5 * math.sqrt(1 / 6 / 4000)  # one of the six bonds along every row


def test_correlations_decay_with_the_exact_correlation_length() -> None:
    torch.manual_seed(10)
    spins = microstates(torch.full((600,), 2.8), Lattice(32), sweeps=20).float()
    columns = spins.mean(1)  # their correlations are a single exponential
    along = [float((columns * columns.roll(step, 1)).mean()) for step in (0, 2)]
    assert 2 / math.log(along[0] / along[1]) == pytest.approx(correlation_length(2.8), rel=0.06)


def test_the_heat_capacity_is_the_variance_of_the_energy() -> None:
    torch.manual_seed(11)
    spins = microstates(torch.full((800,), 3.0), Lattice(24), sweeps=20)
    spread = float((energy(spins, Lattice(24)) * 24**2).double().var()) / 3.0**2 / 24**2
    assert spread == pytest.approx(heat_capacity(3.0), rel=4 * math.sqrt(2 / 800))
