"""How fast patterns are simulated.

    python -m benchmarks.powder_speed                  # real structures on the CPU, pymatgen in the next column
    python -m benchmarks.powder_speed --device cuda    # random crystals with every effect on, on a GPU

A real structure goes from its atoms to a whole profile of 4500 points. pymatgen's XRDCalculator computes lines, whose
profiles are then added up by numpy, all at once; its last column leaves the profile out.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from vitreous.sim.groups import SYSTEMS
from vitreous.sim.powder import CLEAN, Effects, measure
from vitreous.sim.source import simulated
from vitreous.sim.structure import as_lines, expand, minerals

_EFFECTS = replace(Effects(), impurity=(0.0, 0.0))  # which needs a second crystal


def real(count: int, rounds: int) -> None:
    """Minerals spread over the file, each by both, in turn."""
    from pymatgen.analysis.diffraction.xrd import XRDCalculator
    from pymatgen.core import Lattice, Structure

    known = [m for m in minerals() if len(expand(m).elements) <= 200 and (expand(m).occupancy <= 1).all()]
    chosen = known[:: max(1, len(known) // count)][:count]
    calculator = XRDCalculator(wavelength=_EFFECTS.wavelength)
    peers = []
    for mineral in chosen:
        whole = expand(mineral)
        species = [{e: float(o)} for e, o in zip(whole.elements, whole.occupancy, strict=True)]
        peers.append(Structure(Lattice.from_parameters(*whole.cell), species, whole.positions))
    ways: dict[str, Callable[[int], object]] = {
        "ours, profile": lambda i: measure(as_lines(chosen[i], CLEAN.s_max), CLEAN),
        "ours, every effect": lambda i: measure(as_lines(chosen[i], _EFFECTS.s_max), _EFFECTS),
        "pymatgen, profile": lambda i: profile(calculator.get_pattern(peers[i], two_theta_range=(0, 90))),
        "pymatgen, lines": lambda i: calculator.get_pattern(peers[i], two_theta_range=(0, 90)),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for i in range(len(chosen)):
            for name, way in ways.items():
                start = time.perf_counter()
                way(i)
                if turn:  # the first warms up
                    times[name].append(time.perf_counter() - start)
    table = Table(title=f"{len(chosen)} minerals, {torch.get_num_threads()} thread(s)")
    for heading in ("way", "patterns a second (median)", "(mean)", "its time / ours"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    ours = times["ours, profile"]
    for name, taken in times.items():
        ratio = statistics.median(t / o for t, o in zip(taken, ours, strict=True))
        table.add_row(name, f"{1 / statistics.median(taken):.0f}", f"{len(taken) / sum(taken):.0f}", f"{ratio:.2f}")
    Console(width=120).print(table)


def profile(pattern: Any, width: float = 0.08, mixing: float = 0.5) -> NDArray[np.float64]:
    """The lines of a pymatgen pattern as pseudo-Voigt profiles on our grid."""
    x = (CLEAN.angles().numpy() - np.asarray(pattern.x)[:, None]) / width
    lorentz = 2 / np.pi / (1 + 4 * x**2)
    gauss = 2 * np.sqrt(np.log(2) / np.pi) * np.exp(-4 * np.log(2) * x**2)
    shape = mixing * lorentz + (1 - mixing) * gauss
    total: NDArray[np.float64] = np.asarray(pattern.y) @ shape / width
    return total


def random(device: str, batch: int, rounds: int) -> None:
    """Random crystals of every system, every effect on, carried to the grid in scattering vector."""
    table = Table(title=f"random crystals on {device}, every effect on, batches of {batch}")
    for heading in ("system", "patterns a second", "peak memory"):
        table.add_column(heading, justify="left" if heading == "system" else "right")
    for system in SYSTEMS:
        times = []
        for turn in range(rounds + 2):
            start = time.perf_counter()
            simulated(system, Effects(), batch, device)
            if device == "cuda":
                torch.cuda.synchronize()
            if turn > 1:
                times.append(time.perf_counter() - start)
        memory = f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB" if device == "cuda" else ""
        table.add_row(system, f"{batch / statistics.median(times):,.0f}", memory)
    Console(width=120).print(table)


def main(device: Literal["cpu", "cuda"] = "cpu", count: int = 70, batch: int = 0, rounds: int = 5) -> None:
    """Print the tables.

    Args:
        device: where random crystals are simulated; real ones are on the CPU.
        count: minerals.
        batch: random crystals at once; 4096 on a GPU, 256 on a CPU.
        rounds: repetitions, of which the median is shown.
    """
    random(device, batch or (4096 if device == "cuda" else 256), rounds)
    if device == "cpu":
        real(count, rounds)


if __name__ == "__main__":
    tyro.cli(main)
