"""What the machine can do at best, measured, and the two times that no step can be shorter than."""

import math
from dataclasses import dataclass

import torch

from vitreous.bench.race import Setting, Step, race
from vitreous.nn.models import Config, build
from vitreous.zoo.cost import flops

# Sides of the matrices that are multiplied, and how often: where others use a CPU too, small products fit in between.
_SIDES = {"cpu": {512: 40, 2048: 4}, "cuda": {8192: 5}}
_COPIED = {"cpu": 1 << 28, "cuda": 1 << 29}  # bytes, far more than a cache holds


@dataclass(frozen=True)
class Ceilings:
    """The fastest that was seen of each: operations a second of a large matrix product, bytes a second of a copy."""

    flops: float
    bytes: float

    def or_better(self, other: "Ceilings") -> "Ceilings":
        """The higher of each: measured before and after, since a machine that others use drifts."""
        return Ceilings(max(self.flops, other.flops), max(self.bytes, other.bytes))


def measure_ceilings(setting: Setting) -> Ceilings:
    """Multiply two large matrices in the precision of the model, and copy a large array; both ways count."""
    products = [
        2 * side**3 / _fastest(_product(side, setting), setting.device, rounds)
        for side, rounds in _SIDES[setting.device].items()
    ]
    size = _COPIED[setting.device]
    source = torch.ones(size // 4, device=setting.device)
    target = torch.zeros_like(source)
    return Ceilings(max(products), 2 * size / _fastest(lambda: target.copy_(source), setting.device, 5))


def _product(side: int, setting: Setting) -> Step:
    a, b = (torch.randn(side, side, device=setting.device).to(setting.dtype) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out)


def _fastest(step: Step, device: str, rounds: int) -> float:
    """Seconds of the fastest of so many steps; on a GPU, of so many tens."""
    return min(race({"": step}, device, (rounds, rounds), repeats=10 if device == "cuda" else 1, warm=2)[""])


@dataclass(frozen=True)
class Work:
    """What a step of any batch must compute and move.

    Args:
        parameters: of the model.
        flops: operations for one sample.
        fixed: bytes that every step moves: the weights. Training reads and writes weights, gradients and two moments.
        bytes: more for one sample: its input and its output.
    """

    parameters: int
    flops: int
    fixed: int
    bytes: int

    def floors(self, batch: int, ceilings: Ceilings) -> tuple[float, float]:
        """Seconds that the operations and the bytes of a step take at the least."""
        moved = self.fixed + batch * self.bytes
        return batch * self.flops / ceilings.flops, moved / ceilings.bytes


def work_of(config: Config, train: bool) -> Work:
    """Counted, not measured; numbers have four bytes, as weights do also under autocast."""
    with torch.device("meta"):
        parameters = sum(p.numel() for p in build(config).parameters())
    fixed = 4 * parameters * (8 if train else 1)
    return Work(parameters, flops(config, train), fixed, 4 * (math.prod(config.input) + config.out))
