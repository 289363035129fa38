"""Speed of the powder simulator.

    python -m benchmarks.powder_speed                  # real structures on the CPU, compared with pymatgen
    python -m benchmarks.powder_speed --device cuda    # random crystals with all effects, on a GPU

A real structure goes from its atoms to a profile of 4500 points. pymatgen's XRDCalculator computes lines, whose
profiles are summed with NumPy; its last row omits the profile.
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

from vitreous.powder.lineshape import GAUSS_HEIGHT, LORENTZ_HEIGHT, lorentz_and_gauss
from vitreous.powder.sim.effects import CLEAN, Effects
from vitreous.powder.sim.measurement import measure
from vitreous.powder.sim.source import simulate_samples
from vitreous.powder.sim.space_groups import SYSTEMS
from vitreous.powder.sim.structure import expand, simulator_lines
from vitreous.powder.sim.structure_files import minerals

_EFFECTS = replace(Effects(), impurity=(0.0, 0.0))  # an impurity needs a second crystal


def real(count: int, rounds: int) -> None:
    """Simulate minerals spread over the file with both programs in turn."""
    from pymatgen.analysis.diffraction.xrd import XRDCalculator
    from pymatgen.core import Lattice, Structure

    small = [m for m in minerals() if len(expand(m).elements) <= 200 and (expand(m).occupancy <= 1).all()]
    chosen = small[:: max(1, len(small) // count)][:count]
    calculator = XRDCalculator(wavelength=_EFFECTS.wavelength)
    peers = []
    for mineral in chosen:
        whole = expand(mineral)
        species = [{e: float(o)} for e, o in zip(whole.elements, whole.occupancy, strict=True)]
        peers.append(Structure(Lattice.from_parameters(*whole.cell), species, whole.positions))
    methods: dict[str, Callable[[int], object]] = {
        "ours, profile": lambda i: measure(simulator_lines(chosen[i], CLEAN.s_max), CLEAN),
        "ours, all effects": lambda i: measure(simulator_lines(chosen[i], _EFFECTS.s_max), _EFFECTS),
        "pymatgen, profile": lambda i: profile(calculator.get_pattern(peers[i], two_theta_range=(0, 90))),
        "pymatgen, lines": lambda i: calculator.get_pattern(peers[i], two_theta_range=(0, 90)),
    }
    times: dict[str, list[float]] = {name: [] for name in methods}
    for turn in range(rounds + 1):
        for i in range(len(chosen)):
            for name, method in methods.items():
                start = time.perf_counter()
                method(i)
                if turn:  # the first round warms up
                    times[name].append(time.perf_counter() - start)
    table = Table(title=f"{len(chosen)} minerals, {torch.get_num_threads()} thread(s)")
    for heading in ("method", "patterns per second (median)", "(mean)", "its time / ours"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    ours = times["ours, profile"]
    for name, taken in times.items():
        ratio = statistics.median(t / o for t, o in zip(taken, ours, strict=True))
        table.add_row(name, f"{1 / statistics.median(taken):.0f}", f"{len(taken) / sum(taken):.0f}", f"{ratio:.2f}")
    Console(width=120).print(table)


def profile(pattern: Any, width: float = 0.08, mixing: float = 0.5) -> NDArray[np.float64]:
    """The lines of a pymatgen pattern as pseudo-Voigt profiles on our grid."""
    x = (CLEAN.angles().numpy() - np.asarray(pattern.x)[:, None]) / width
    lorentz, gauss = lorentz_and_gauss(x)
    shape = mixing * LORENTZ_HEIGHT * lorentz + (1 - mixing) * GAUSS_HEIGHT * gauss
    total: NDArray[np.float64] = np.asarray(pattern.y) @ shape / width
    return total


def random(device: str, batch: int, rounds: int) -> None:
    """Simulate random crystals of every system with all effects, interpolated to the grid in q."""
    table = Table(title=f"random crystals on {device}, all effects, batches of {batch}")
    for heading in ("system", "patterns per second", "peak memory"):
        table.add_column(heading, justify="left" if heading == "system" else "right")
    for system in SYSTEMS:
        times = []
        for turn in range(rounds + 2):
            start = time.perf_counter()
            simulate_samples(system, Effects(), batch, device)
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
        device: of random crystals; real structures run on the CPU.
        count: number of minerals.
        batch: random crystals in a batch; by default 4096 on a GPU, 256 on a CPU.
        rounds: repetitions; the table shows the median.
    """
    random(device, batch or (4096 if device == "cuda" else 256), rounds)
    if device == "cpu":
        real(count, rounds)


if __name__ == "__main__":
    tyro.cli(main)
