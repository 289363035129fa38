"""Which temperature a microstate has (S2.9): sources to train on, and the best that anyone can do.

p(s | T) = exp(-E(s) / T) / Z(T), so nothing but the energy of a microstate says anything about its temperature. All the
best classifier needs besides are the ratios of Z at neighbouring temperatures, and those can be measured.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from vitreous.data.source import Axis, Source, Target, in_order
from vitreous.errors import InputError, check_choice
from vitreous.sim.ising import SWEEPS, Lattice, energy, microstates
from vitreous.track import track

SIZE = 64
SYSTEMS = {
    "periodic": Lattice(SIZE),
    "antiferromagnetic": Lattice(SIZE, ferromagnetic=False),
    "skewed": Lattice(SIZE, "skewed"),
    "antiperiodic": Lattice(SIZE, "antiperiodic"),
}
"""The four systems of the source's table."""
TEMPERATURES = (1.5, 1.7, 1.9, 2.1, 2.25, 2.4, 2.6, 2.85, 3.15, 3.5)
"""Classes, in |J| / k, on both sides of 2.269: so far apart that 98 in 100 microstates of 64 × 64 spins can be told."""

_CHUNK = {"cpu": 64, "cuda": 2048}  # microstates at a time
_AXES = (Axis("row"), Axis("column"))


def ising_source(
    system: str = "periodic", train: int = 200, validation: int = 50, test: int = 500, sweeps: int = SWEEPS
) -> Source:
    """Microstates of ten temperatures: so many of each to train, validate and test on, the same for every model.

    They are simulated on a GPU if there is one, in seconds; on a CPU core in minutes. Each has its own random numbers.
    """
    counts = train, validation, test
    y = np.concatenate([np.repeat(np.arange(len(TEMPERATURES)), count) for count in counts])
    spins = _simulated(system, tuple(np.asarray(TEMPERATURES)[y].tolist()), sweeps)
    names = tuple(f"T = {temperature:g}" for temperature in TEMPERATURES)
    parts = in_order(*(len(TEMPERATURES) * count for count in counts))
    return Source(f"Ising spins, {system}", spins, y, _AXES, ("spin",), names, (), parts)


def temperature_source(
    system: str = "periodic", train: int = 3000, validation: int = 1000, test: int = 2000, sweeps: int = SWEEPS
) -> Source:
    """Microstates of any temperature between the lowest and the highest of `TEMPERATURES`, likewise."""
    drawn = np.random.default_rng(1944).uniform(TEMPERATURES[0], TEMPERATURES[-1], train + validation + test)
    spins = _simulated(system, tuple(drawn.tolist()), sweeps)
    parts = in_order(train, validation, test)
    targets = (Target("temperature", "|J|/k"),)
    return Source(f"Ising spins, {system}", spins, drawn[:, None], _AXES, ("spin",), (), targets, parts)


@lru_cache(maxsize=8)
def _simulated(system: str, temperatures: tuple[float, ...], sweeps: int) -> NDArray[np.int8]:
    """Microstates `(n, 1, SIZE, SIZE)` at these temperatures, by a seed of their own."""
    check_choice("system", system, SYSTEMS)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = []
    with torch.random.fork_rng():
        torch.manual_seed(1925 + list(SYSTEMS).index(system))  # or antiferromagnets were ferromagnets turned
        chunks = torch.tensor(temperatures, device=device).split(_CHUNK[device])
        for chunk in track(chunks, f"{len(temperatures):,} microstates"):
            found.append(microstates(chunk, SYSTEMS[system], sweeps).cpu())
    spins: NDArray[np.int8] = torch.cat(found).unsqueeze(1).numpy()
    spins.setflags(write=False)  # it is shared
    return spins


def energies(source: Source, system: str) -> NDArray[np.float64]:
    """Of each microstate of a source, `(n,)`, in |J|."""
    lattice = SYSTEMS[system]
    chunks = torch.arange(len(source)).split(_CHUNK["cuda"])
    found = [energy(torch.tensor(source.x[rows.numpy(), 0]), lattice).double() for rows in chunks]
    return torch.cat(found).numpy() * lattice.size**2


def log_ratios(
    energy: NDArray[np.float64], label: NDArray[np.intp], temperatures: Sequence[float]
) -> NDArray[np.float64]:
    """ln Z(T_k+1) / Z(T_k) of neighbouring temperatures, from microstates of both (Bennett 1976).

    It is the offset with which the probability of the hotter one, a logistic function of the energy of known slope,
    adds up to as many microstates as are hotter.

    Args:
        energy: `(n,)`, in |J|.
        label: `(n,)`, numbers of the temperatures.
        temperatures: `(K,)`, rising, in |J| / k.
    """
    found = []
    for cold, (low, high) in enumerate(pairwise(temperatures)):
        both = (label == cold) | (label == cold + 1)
        hotter = label[both] == cold + 1
        if hotter.all() or not hotter.any():
            raise InputError(f"label: found no microstates at {high if not hotter.any() else low:g}, expected some")
        slope = (1 / low - 1 / high) * energy[both] + np.log(hotter.sum() / (~hotter).sum())
        found.append(brentq(lambda z: expit(slope - z).sum() - hotter.sum(), slope.min() - 99, slope.max() + 99))  # noqa: B023
    return np.array(found)


def best_answers(source: Source, system: str) -> NDArray[np.intp]:
    """The likeliest temperature of each microstate of a source, `(n,)`: no classifier is right more often."""
    assert source.y is not None
    energy = energies(source, system)
    log_z = np.concatenate([[0.0], np.cumsum(log_ratios(energy, source.y, TEMPERATURES))])
    likely: NDArray[np.intp] = (-energy[:, None] / np.array(TEMPERATURES) - log_z).argmax(1)
    return likely
