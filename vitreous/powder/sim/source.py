"""Simulated patterns as training data: new ones at every step, fixed ones for validation and test."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from vitreous.data.simulated import fixed_samples
from vitreous.data.source import Source, consecutive_parts
from vitreous.powder.bragg import two_theta_from_q
from vitreous.powder.cell import free_parameters, full_cell, targets
from vitreous.powder.grid import POINTS, Q_AXIS
from vitreous.powder.sim.crystals import Device
from vitreous.powder.sim.effects import Effects
from vitreous.powder.sim.measurement import random_patterns
from vitreous.powder.sim.space_groups import SYSTEMS

_CHUNK = 256
ALL = "all"
"""In place of a crystal system: equally many crystals of each, with all six parameters of their cells."""


def q_grid() -> Tensor:
    """The grid `(POINTS,)` in 1/Å."""
    return Q_AXIS.spacing * torch.arange(POINTS, dtype=torch.float64)


def to_q(patterns: Tensor, effects: Effects) -> Tensor:
    """Patterns `(B, points)` on the simulator's grid in 2θ to `(B, 1, POINTS)` on the grid in q."""
    low, part, measured = _interpolation(effects, patterns.device)
    return (torch.lerp(patterns[:, low], patterns[:, low + 1], part) * measured).unsqueeze(1)


@lru_cache(maxsize=16)
def _interpolation(effects: Effects, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """For each point in q: the point in 2θ before it, the fraction of the step to the next, and 0 if not measured."""
    first, last = effects.two_theta
    angle = two_theta_from_q(q_grid(), effects.wavelength)
    place = (angle - first) / ((last - first) / effects.points)
    measured = (place >= 0) & (place <= effects.points - 1) & (angle < 180)
    low = place.clamp(0, effects.points - 2).floor()
    part = (place - low).clamp(0, 1)
    return low.long().to(device), part.float().to(device), measured.float().to(device)


def simulate_samples(system: str, effects: Effects, count: int, device: Device) -> tuple[Tensor, Tensor]:
    """Patterns on the grid in q `(count, 1, POINTS)` and the free parameters of their cells `(count, k)`."""
    if system != ALL:
        patterns, crystals = random_patterns(system, count, effects, device)
        return to_q(patterns, effects), free_parameters(system, crystals.cell)
    counts = equal_counts(count)
    parts = [simulate_samples(name, effects, n, device) for name, n in zip(SYSTEMS, counts, strict=True) if n]
    cells = [full_cell(name, part[1]) for name, part in zip(SYSTEMS, parts, strict=False)]
    order = torch.randperm(count, device=device)
    return torch.cat([part[0] for part in parts])[order], torch.cat(cells)[order]


def equal_counts(count: int) -> list[int]:
    """Numbers of samples of each crystal system that add up to `count` and differ by one at most."""
    return [len(part) for part in np.array_split(np.arange(count), len(SYSTEMS))]


def fixed_patterns(system: str, effects: Effects, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`simulate_samples` as arrays of float32, determined by the seed."""
    return fixed_samples(lambda chunk: simulate_samples(system, effects, chunk, "cpu"), count, seed, _CHUNK)


def powder_source(
    system: str, effects: Effects | None = None, train: int = 1024, validation: int = 512, test: int = 2000
) -> Source:
    """Patterns of random crystals of a system or of `ALL`, by default from a laboratory diffractometer.

    The targets are the free parameters of the system, or all six. The `train` samples determine the scaling; training
    itself draws new ones at every step.
    """
    effects = effects or Effects()
    names = targets("triclinic" if system == ALL else system)
    x, y = fixed_patterns(system, effects, train + validation + test, seed=20240)
    return Source(
        f"simulated {system} powders", x, y, (Q_AXIS,), ("intensity",), (), names,
        consecutive_parts(train, validation, test),
        fresh=lambda count, device: simulate_samples(system, effects, count, device),
    )  # fmt: skip
