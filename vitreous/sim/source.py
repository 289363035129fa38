"""Simulated patterns as a source to train on: new ones at every step, fixed ones to validate and test on."""

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from vitreous.data.source import Source, in_order
from vitreous.powder.cell import free, targets
from vitreous.sim.drawn import drawn
from vitreous.sim.grid import POINTS, Q_AXIS
from vitreous.sim.powder import Effects, random_patterns

_CHUNK = 256


def q_grid() -> Tensor:
    """The grid `(POINTS,)` in 1/Å."""
    return Q_AXIS.spacing * torch.arange(POINTS, dtype=torch.float64)


def to_q(patterns: Tensor, effects: Effects) -> Tensor:
    """Patterns `(B, points)` on the simulator's grid in 2θ to `(B, 1, POINTS)` on the grid in q."""
    low, part, seen = _places(effects, patterns.device)
    moved = torch.lerp(patterns[:, low], patterns[:, low + 1], part) * seen
    return moved.unsqueeze(1)


@lru_cache(maxsize=16)
def _places(effects: Effects, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    first, last = effects.two_theta
    sine = q_grid() * effects.wavelength / (4 * math.pi)
    angle = torch.rad2deg(2 * torch.arcsin(sine.clamp(max=1)))
    place = (angle - first) / ((last - first) / effects.points)
    seen = (place >= 0) & (place <= effects.points - 1) & (sine <= 1)
    low = place.clamp(0, effects.points - 2).floor()
    part = (place - low).clamp(0, 1)
    return low.long().to(device), part.float().to(device), seen.float().to(device)


def simulated(system: str, effects: Effects, count: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Patterns on the grid in q `(count, 1, POINTS)` and the free parameters of their cells `(count, k)`."""
    patterns, crystals = random_patterns(system, count, effects, device)
    return to_q(patterns, effects), free(system, crystals.cell)


def fixed(system: str, effects: Effects, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The same, always the same for a seed, as arrays of float32."""
    x, y = drawn(lambda some: simulated(system, effects, some, "cpu"), count, seed, _CHUNK)
    return x, y.astype(np.float32, copy=False)


def powder_source(
    system: str, effects: Effects | None = None, train: int = 1024, validation: int = 512, test: int = 2000
) -> Source:
    """Patterns of random crystals of a system.

    Args:
        system: one of the seven crystal systems; targets are its free parameters.
        effects: of the measurement; the default is a laboratory diffractometer.
        train: samples that set the scales; training itself draws new ones at every step.
        validation, test: samples that stay the same.
    """
    effects = effects or Effects()
    x, y = fixed(system, effects, train + validation + test, seed=20240)
    return Source(
        f"simulated {system} powders", x, y, (Q_AXIS,), ("intensity",), (), targets(system),
        in_order(train, validation, test), fresh=lambda count, device: simulated(system, effects, count, device),
    )  # fmt: skip
