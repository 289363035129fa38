"""Ising microstates as sources for training, and the best possible classifier of their temperature (S2.9).

Since p(s | T) = exp(-E(s) / T) / Z(T), the energy of a microstate holds all information about its temperature. The best
classifier needs only the energy and the ratios of Z at neighbouring temperatures, which are estimated from samples.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from vitreous.core.errors import InputError, check_choice
from vitreous.core.terminal import track
from vitreous.data.source import Axis, Source, Target, consecutive_parts
from vitreous.gallery.ising.simulate import SWEEPS, Lattice, energy, microstates

SIZE = 64
SYSTEMS = {
    "periodic": Lattice(SIZE),
    "antiferromagnetic": Lattice(SIZE, ferromagnetic=False),
    "skewed": Lattice(SIZE, "skewed"),
    "antiperiodic": Lattice(SIZE, "antiperiodic"),
}
"""The four systems of the table in S2.9."""
TEMPERATURES = (1.5, 1.7, 1.9, 2.1, 2.25, 2.4, 2.6, 2.85, 3.15, 3.5)
"""Classes, in |J| / k, below and above 2.269, spaced so that 98 % of microstates of 64 × 64 spins can be classified."""

_CHUNK = {"cpu": 64, "cuda": 2048}  # microstates simulated at a time
_AXES = (Axis("row"), Axis("column"))


def ising_source(
    system: str = "periodic",
    train: int = 200,
    validation: int = 50,
    test: int = 500,
    sweeps: int = SWEEPS,
    size: int = SIZE,
) -> Source:
    """Microstates of ten temperatures, always the same ones.

    The simulation uses a GPU if there is one and takes seconds there, minutes on a CPU core.

    Args:
        system: one of `SYSTEMS`.
        train, validation, test: microstates of each temperature in each part.
        sweeps: cluster updates of each.
        size: spins along each axis.
    """
    counts = train, validation, test
    y = np.concatenate([np.repeat(np.arange(len(TEMPERATURES)), count) for count in counts])
    spins = simulate_spins(system, tuple(np.asarray(TEMPERATURES)[y].tolist()), sweeps, size)
    classes = tuple(f"T = {temperature:g}" for temperature in TEMPERATURES)
    parts = consecutive_parts(*(len(TEMPERATURES) * count for count in counts))
    return Source(f"Ising spins, {system}", spins, y, _AXES, ("spin",), classes, (), parts)


def temperature_source(
    system: str = "periodic",
    train: int = 3000,
    validation: int = 1000,
    test: int = 2000,
    sweeps: int = SWEEPS,
    size: int = SIZE,
) -> Source:
    """Microstates of temperatures drawn uniformly from the range of `TEMPERATURES`; arguments as of `ising_source`."""
    y = np.random.default_rng(1944).uniform(TEMPERATURES[0], TEMPERATURES[-1], train + validation + test)
    spins = simulate_spins(system, tuple(y.tolist()), sweeps, size)
    targets, parts = (Target("temperature", "|J|/k"),), consecutive_parts(train, validation, test)
    return Source(f"Ising spins, {system}", spins, y[:, None], _AXES, ("spin",), (), targets, parts)


@lru_cache(maxsize=8)
def simulate_spins(system: str, temperatures: tuple[float, ...], sweeps: int, size: int) -> NDArray[np.int8]:
    """Microstates `(n, 1, size, size)` at these temperatures, with a fixed seed; cached."""
    check_choice("system", system, SYSTEMS)
    lattice = replace(SYSTEMS[system], size=size)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.random.fork_rng():
        # One seed per system: with equal seeds, antiferromagnets would be ferromagnets with every other spin flipped.
        torch.manual_seed(1925 + list(SYSTEMS).index(system))
        chunks = torch.tensor(temperatures, device=device).split(_CHUNK[device])
        title = f"{len(temperatures):,} microstates"
        parts = [microstates(chunk, lattice, sweeps).cpu() for chunk in track(chunks, title)]
    spins: NDArray[np.int8] = torch.cat(parts).unsqueeze(1).numpy()
    spins.setflags(write=False)  # the cache shares it
    return spins


def energies(source: Source, system: str) -> NDArray[np.float64]:
    """Energy of each microstate of a source, `(n,)`, in |J|."""
    lattice = replace(SYSTEMS[system], size=source.input[-1])
    chunks = torch.arange(len(source)).split(_CHUNK["cuda"])
    parts = [energy(torch.tensor(source.x[rows.numpy(), 0]), lattice).double() for rows in chunks]
    return torch.cat(parts).numpy() * lattice.size**2


def log_ratios(
    energy: NDArray[np.float64], label: NDArray[np.intp], temperatures: Sequence[float]
) -> NDArray[np.float64]:
    """ln Z(T_k+1) / Z(T_k) of neighbouring temperatures, estimated from microstates of both (Bennett 1976).

    Given the energy `(n,)` in |J|, the probability of the higher temperature is a logistic function of known slope. Its
    offset is chosen so that the probabilities add up to the number of microstates at the higher temperature. Labels
    `(n,)` are indices into the rising temperatures.
    """
    offsets = []
    for cold, (low, high) in enumerate(pairwise(temperatures)):
        both = (label == cold) | (label == cold + 1)
        hotter = label[both] == cold + 1
        if hotter.all() or not hotter.any():
            raise InputError(f"label: found no microstates at {high if not hotter.any() else low:g}, expected some")
        slope = (1 / low - 1 / high) * energy[both] + np.log(hotter.sum() / (~hotter).sum())
        offsets.append(_logistic_offset(slope, hotter.sum()))
    return np.array(offsets)


def _logistic_offset(slope: NDArray[np.float64], total: int) -> float:
    """The offset z for which Σ expit(slope - z) = total."""
    return float(brentq(lambda z: expit(slope - z).sum() - total, slope.min() - 99, slope.max() + 99))


def best_answers(source: Source, system: str) -> NDArray[np.intp]:
    """The most likely class of each microstate of a source, `(n,)`: no classifier has a higher accuracy."""
    assert source.y is not None
    energy = energies(source, system)
    log_z = np.concatenate([[0.0], np.cumsum(log_ratios(energy, source.y, TEMPERATURES))])
    best: NDArray[np.intp] = (-energy[:, None] / np.array(TEMPERATURES) - log_z).argmax(1)
    return best
