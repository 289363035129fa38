"""Microstates as sources, the ratios of their partition functions, and the best classifier."""

import math
from collections.abc import Iterator
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
import torch

from tests.torus import log_z, mean_energy
from vitreous.errors import InputError
from vitreous.sim import temperatures
from vitreous.sim.ising import Lattice, energy, microstates
from vitreous.sim.temperatures import (
    SYSTEMS,
    TEMPERATURES,
    best_answers,
    energies,
    ising_source,
    log_ratios,
    temperature_source,
)

SMALL = 16


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lattices of 16 × 16."""
    for name, lattice in SYSTEMS.items():
        monkeypatch.setitem(SYSTEMS, name, replace(lattice, size=SMALL))
    temperatures._simulated.cache_clear()
    yield
    temperatures._simulated.cache_clear()


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("temperature", [1.5, 2.25, 3.0])
def test_the_mean_energy_is_the_exact_one_of_the_finite_lattice(system: str, temperature: float) -> None:
    torch.manual_seed(5)
    lattice = replace(SYSTEMS[system], size=SMALL)
    found = energy(microstates(torch.full((400,), temperature), lattice), lattice).double() * SMALL**2
    assert abs(found.mean() - mean_energy(lattice, temperature)) < 4 * found.std() / math.sqrt(400)


def test_cold_antiperiodic_spins_of_full_size_are_in_equilibrium_but_for_a_fifth_of_a_deviation() -> None:
    torch.manual_seed(6)
    lattice = SYSTEMS["antiperiodic"]
    found = energy(microstates(torch.full((64,), TEMPERATURES[0]), lattice), lattice).double() * lattice.size**2
    assert abs(found.mean() - mean_energy(lattice, TEMPERATURES[0])) < (0.2 + 3 / 8) * found.std()


@pytest.mark.parametrize("system", SYSTEMS)
def test_ratios_of_partition_functions_are_the_exact_ones(system: str) -> None:
    torch.manual_seed(7)
    lattice, at = replace(SYSTEMS[system], size=SMALL), (2.0, 2.3, 2.8)
    label = np.repeat(np.arange(3), (600, 300, 600))  # Bennett's equation knows how many there are
    spins = microstates(torch.tensor(at)[label], lattice)
    found = log_ratios(energy(spins, lattice).double().numpy() * SMALL**2, label, at)
    exact = [float(log_z(lattice, 1 / mp.mpf(t))) for t in at]
    np.testing.assert_allclose(found, np.diff(exact), atol=0.4)  # of about 30


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("system", SYSTEMS)
def test_no_threshold_on_the_energy_is_better_than_the_best_answers(system: str) -> None:
    source = ising_source(system, train=60, validation=20, test=20)
    found, known = best_answers(source, system), energies(source, system)
    assert source.y is not None
    right = (found == source.y).mean()
    order = np.argsort(known)
    assert (np.diff(found[order]) >= 0).all()  # hotter with every quantum of energy
    rng = np.random.default_rng(0)
    edges = [known[order][np.searchsorted(found[order], k)] for k in range(1, len(TEMPERATURES))]
    for _ in range(200):
        moved = np.searchsorted(np.sort(edges + rng.normal(0, 20, len(edges))), known, side="right")
        assert (moved == source.y).mean() < right + 0.02  # the thresholds are of the physics, not of these microstates
    assert 0.3 < right < 0.9


@pytest.mark.usefixtures("small")
def test_a_source_has_as_many_of_each_temperature_in_every_part() -> None:
    source = ising_source("skewed", train=5, validation=2, test=3, sweeps=1)
    assert source.y is not None
    assert source.x.dtype == np.int8
    assert set(np.unique(source.x)) == {-1, 1}
    for part, count in (("train", 5), ("validation", 2), ("test", 3)):
        assert np.bincount(source.y[source.parts[part]]).tolist() == [count] * len(TEMPERATURES)


@pytest.mark.usefixtures("small")
def test_microstates_are_simulated_once_and_repeat_with_the_seed() -> None:
    first = ising_source("periodic", 2, 2, 2, sweeps=2).x
    assert ising_source("periodic", 2, 2, 2, sweeps=2).x is first
    temperatures._simulated.cache_clear()
    torch.manual_seed(99)
    again = ising_source("periodic", 2, 2, 2, sweeps=2).x
    assert again is not first
    assert np.array_equal(again, first)


@pytest.mark.usefixtures("small")
def test_any_temperature_between_the_first_and_the_last_may_be_asked() -> None:
    source = temperature_source("periodic", train=400, validation=20, test=20, sweeps=1)
    assert source.y is not None
    assert TEMPERATURES[0] < source.y.min() < 1.55
    assert 3.45 < source.y.max() < TEMPERATURES[-1]
    assert source.targets[0].label == "temperature (|J|/k)"


def test_mistakes_are_told_in_one_line() -> None:
    with pytest.raises(InputError, match="system: unknown choice 'open'"):
        ising_source("open", 1, 1, 1)
    with pytest.raises(InputError, match="label: found no microstates at 2, expected some"):
        log_ratios(np.array([1.0, 2.0]), np.array([0, 0]), (1.0, 2.0))


def test_lattices_of_a_skewed_torus_are_counted_once() -> None:
    assert math.isclose(float(log_z(Lattice(4, "skewed"), 0.0)), 16 * math.log(2))
