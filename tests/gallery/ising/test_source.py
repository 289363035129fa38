"""Sources of Ising microstates, ratios of partition functions and the best classifier."""

import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
import torch

from tests.gallery.ising.torus import log_z, mean_energy
from vitreous.core.errors import InputError
from vitreous.gallery.ising.simulate import Lattice, energy, microstates
from vitreous.gallery.ising.source import (
    SYSTEMS,
    TEMPERATURES,
    best_answers,
    energies,
    ising_source,
    log_ratios,
    simulate_spins,
    temperature_source,
)

SMALL = 16


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("temperature", [1.5, 2.25, 3.0])
def test_the_mean_energy_agrees_with_the_exact_finite_lattice(system: str, temperature: float) -> None:
    torch.manual_seed(5)
    lattice = replace(SYSTEMS[system], size=SMALL)
    total = energy(microstates(torch.full((400,), temperature), lattice), lattice).double() * SMALL**2
    assert abs(total.mean() - mean_energy(lattice, temperature)) < 4 * total.std() / math.sqrt(400)


def test_cold_antiperiodic_spins_of_full_size_are_near_equilibrium() -> None:
    torch.manual_seed(6)
    lattice = SYSTEMS["antiperiodic"]
    total = energy(microstates(torch.full((64,), TEMPERATURES[0]), lattice), lattice).double() * lattice.size**2
    assert abs(total.mean() - mean_energy(lattice, TEMPERATURES[0])) < (0.2 + 3 / 8) * total.std()


@pytest.mark.parametrize("system", SYSTEMS)
def test_ratios_of_partition_functions_agree_with_the_exact_ones(system: str) -> None:
    torch.manual_seed(7)
    lattice, at = replace(SYSTEMS[system], size=SMALL), (2.0, 2.3, 2.8)
    label = np.repeat(np.arange(3), (600, 300, 600))  # unequal counts, which Bennett's equation allows for
    spins = microstates(torch.tensor(at)[label], lattice)
    ratios = log_ratios(energy(spins, lattice).double().numpy() * SMALL**2, label, at)
    exact = [float(log_z(lattice, 1 / mp.mpf(t))) for t in at]
    np.testing.assert_allclose(ratios, np.diff(exact), atol=0.4)  # of about 30


@pytest.mark.parametrize("system", SYSTEMS)
def test_no_energy_thresholds_beat_the_best_classifier(system: str) -> None:
    source = ising_source(system, train=60, validation=20, test=20, size=SMALL)
    best, energy_of = best_answers(source, system), energies(source, system)
    assert source.y is not None
    right = (best == source.y).mean()
    order = np.argsort(energy_of)
    assert (np.diff(best[order]) >= 0).all()  # the class rises with the energy
    rng = np.random.default_rng(0)
    edges = [energy_of[order][np.searchsorted(best[order], k)] for k in range(1, len(TEMPERATURES))]
    for _ in range(200):
        moved = np.searchsorted(np.sort(edges + rng.normal(0, 20, len(edges))), energy_of, side="right")
        assert (moved == source.y).mean() < right + 0.02  # thresholds come from the physics, not these samples
    assert 0.3 < right < 0.9


def test_every_part_has_the_same_number_of_each_temperature() -> None:
    source = ising_source("skewed", train=5, validation=2, test=3, sweeps=1, size=SMALL)
    assert source.y is not None
    assert source.x.dtype == np.int8
    assert set(np.unique(source.x)) == {-1, 1}
    for part, count in (("train", 5), ("validation", 2), ("test", 3)):
        assert np.bincount(source.y[source.parts[part]]).tolist() == [count] * len(TEMPERATURES)


def test_microstates_are_cached_and_reproducible() -> None:
    first = ising_source("periodic", 2, 2, 2, sweeps=2, size=SMALL).x
    assert ising_source("periodic", 2, 2, 2, sweeps=2, size=SMALL).x is first
    simulate_spins.cache_clear()
    torch.manual_seed(99)
    again = ising_source("periodic", 2, 2, 2, sweeps=2, size=SMALL).x
    assert again is not first
    assert np.array_equal(again, first)


def test_continuous_temperatures_cover_the_whole_range() -> None:
    source = temperature_source("periodic", train=400, validation=20, test=20, sweeps=1, size=SMALL)
    assert source.y is not None
    assert TEMPERATURES[0] < source.y.min() < 1.55
    assert 3.45 < source.y.max() < TEMPERATURES[-1]
    assert source.targets[0].label == "temperature (|J|/k)"


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="system: unknown choice 'open'"):
        ising_source("open", 1, 1, 1)
    with pytest.raises(InputError, match="label: found no microstates at 2, expected some"):
        log_ratios(np.array([1.0, 2.0]), np.array([0, 0]), (1.0, 2.0))


def test_the_skewed_partition_function_counts_all_states_at_infinite_temperature() -> None:
    assert math.isclose(float(log_z(Lattice(4, "skewed"), 0.0)), 16 * math.log(2))
