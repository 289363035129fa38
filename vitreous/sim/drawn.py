"""Simulated samples that stay the same: what a training is scaled by, validated and tested on."""

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def drawn(
    draw: Callable[[int], tuple[Tensor, Tensor]], count: int, seed: int, at_once: int = 0
) -> tuple[NDArray[Any], NDArray[Any]]:
    """So many samples and their targets, always the same for a seed, whatever was drawn before.

    Args:
        draw: makes as many as it is told, on the CPU.
        at_once: how many it makes at a time; 0 for all.
    """
    step = at_once or count
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        parts = [draw(min(step, count - start)) for start in range(0, count, step)]
    x, y = (torch.cat(each).numpy() for each in zip(*parts, strict=True))
    return x, y
