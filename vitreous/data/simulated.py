"""Fixed simulated samples: those that set a training's scaling, and its validation and test parts."""

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def fixed_samples(
    simulate: Callable[[int], tuple[Tensor, Tensor]], count: int, seed: int, chunk: int = 0
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Simulate samples and targets that depend on the seed alone, not on earlier random draws.

    `simulate` takes a number of samples and returns them with their targets, on the CPU. Torch's random state is
    restored afterwards. `chunk` samples are simulated at a time; 0 for all at once.
    """
    step = chunk or count
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        parts = [simulate(min(step, count - start)) for start in range(0, count, step)]
    x, y = (torch.cat(each).numpy() for each in zip(*parts, strict=True))
    return x, y
