"""Measured peak rates of the machine, and the lower bounds on the time of a step that follow from them."""

import math
from dataclasses import dataclass

import torch

from vitreous.bench.timing import Setting, Step, time_steps
from vitreous.nn.models import Config, build
from vitreous.zoo.cost import count_flops

# Matrix sizes and rounds; on a shared CPU small products are less disturbed.
_SIDES = {"cpu": {512: 40, 2048: 4}, "cuda": {8192: 5}}
_COPIED = {"cpu": 1 << 28, "cuda": 1 << 29}  # bytes; much larger than any cache


@dataclass(frozen=True)
class MachinePeak:
    """Highest measured rates: operations per second of a large matrix product, bytes per second of a copy."""

    flops: float
    bytes: float

    def maximum(self, other: "MachinePeak") -> "MachinePeak":
        """The higher of each rate, of two measurements; the speed of a shared machine drifts."""
        return MachinePeak(max(self.flops, other.flops), max(self.bytes, other.bytes))


def measure_peak(setting: Setting) -> MachinePeak:
    """Multiply large matrices in the precision of the model, and copy a large array (reads and writes count)."""
    device, size = setting.device, _COPIED[setting.device]
    products = [2 * n**3 / _fastest(_product(n, setting), device, rounds) for n, rounds in _SIDES[device].items()]
    source = torch.ones(size // 4, device=device)
    target = torch.zeros_like(source)
    return MachinePeak(max(products), 2 * size / _fastest(lambda: target.copy_(source), device, 5))


def _product(side: int, setting: Setting) -> Step:
    a, b = (torch.randn(side, side, device=setting.device).to(setting.dtype) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out)


def _fastest(step: Step, device: str, rounds: int) -> float:
    """Seconds of the fastest step; on a GPU, of the fastest ten steps."""
    return min(time_steps({"": step}, device, (rounds, rounds), repeats=10 if device == "cuda" else 1, warm=2)[""])


@dataclass(frozen=True)
class Work:
    """Parameters of a model, operations for one sample, and bytes of a step.

    Args:
        fixed: bytes that every step moves: weights; in training also gradients and two moments, read and written.
        bytes: of the input and output of one sample.
    """

    parameters: int
    flops: int
    fixed: int
    bytes: int

    def floors(self, batch: int, peak: MachinePeak) -> tuple[float, float]:
        """Lower bounds in seconds from the operations and from the bytes of a step."""
        moved = self.fixed + batch * self.bytes
        return batch * self.flops / peak.flops, moved / peak.bytes


def count_work(config: Config, train: bool) -> Work:
    """The work of a model, counted with four bytes per number; weights stay in float32 under autocast."""
    with torch.device("meta"):
        parameters = sum(p.numel() for p in build(config).parameters())
    fixed = 4 * parameters * (8 if train else 1)
    return Work(parameters, count_flops(config, train), fixed, 4 * (math.prod(config.input) + config.out))
