"""How fast patterns are simulated.

    python -m benchmarks.powder_speed                  # real structures on the CPU, pymatgen in the next column
    python -m benchmarks.powder_speed --device cuda    # random crystals with every effect on, on a GPU

A real structure goes from its atoms to a whole profile of 4500 points with every effect of the instrument; pymatgen's
XRDCalculator computes the lines alone, so its column leaves out the profile.
"""

import statistics
import time
from dataclasses import replace
from typing import Literal

import torch
import tyro
from rich.console import Console
from rich.table import Table

from vitreous.sim.groups import SYSTEMS
from vitreous.sim.powder import Effects, measure
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
    ours: list[float] = []
    theirs: list[float] = []
    for turn in range(rounds + 1):
        for mineral, peer in zip(chosen, peers, strict=True):
            start = time.perf_counter()
            measure(as_lines(mineral, _EFFECTS.s_max), _EFFECTS)
            middle = time.perf_counter()
            calculator.get_pattern(peer, two_theta_range=(0, 90))
            if turn:  # the first warms up
                ours.append(middle - start)
                theirs.append(time.perf_counter() - middle)
    table = Table(title=f"{len(chosen)} minerals, {torch.get_num_threads()} threads: patterns a second")
    for heading in ("", "vitreous, whole profile", "pymatgen, lines alone", "ratio"):
        table.add_column(heading, justify="right")
    ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
    table.add_row(
        "median", f"{1 / statistics.median(ours):.0f}", f"{1 / statistics.median(theirs):.0f}", f"{ratio:.1f}"
    )
    table.add_row(
        "mean", f"{len(ours) / sum(ours):.0f}", f"{len(ours) / sum(theirs):.0f}", f"{sum(theirs) / sum(ours):.1f}"
    )
    Console(width=120).print(table)


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
