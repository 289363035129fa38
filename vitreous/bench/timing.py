"""Time steps in alternating rounds of one run, because the speed of a machine drifts; peak rates of the machine."""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

Step = Callable[[], object]
Inputs = Sequence[Tensor | None]
# Matrix sizes and rounds; on a shared CPU small products are less disturbed.
_SIDES = {"cpu": {512: 40, 2048: 4}, "cuda": {8192: 5}}
_COPIED = {"cpu": 1 << 28, "cuda": 1 << 29}  # bytes; much larger than any cache


@dataclass(frozen=True)
class Setting:
    """How models run: device, precision (float32, or bfloat16 by autocast), forward or training step, compiled."""

    device: str = "cpu"
    precision: str = "float32"
    train: bool = False
    compile: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """Data type of matrix products."""
        return torch.bfloat16 if self.precision == "bfloat16" else torch.float32

    def autocast(self) -> torch.autocast:
        """Matrix products in `dtype`; the weights stay in float32."""
        return torch.autocast(self.device, torch.bfloat16, enabled=self.precision == "bfloat16")


def make_step(model: nn.Module, inputs: Inputs, classes: int, setting: Setting) -> Step:
    """A function that runs one forward pass, or one training step with cross-entropy and AdamW."""
    model = model.to(setting.device).train(setting.train)
    run = torch.compile(model, dynamic=False) if setting.compile else model

    def forward() -> None:
        with torch.no_grad(), setting.autocast():
            run(*inputs)

    if not setting.train:
        return forward
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    assert inputs[0] is not None
    y = torch.randint(max(1, classes), (len(inputs[0]),), device=setting.device)

    def train() -> None:
        with setting.autocast():
            loss = nn.functional.cross_entropy(run(*inputs), y)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return train


def time_steps(
    steps: Mapping[str, Step],
    device: str,
    rounds: tuple[int, int] = (10, 10),
    seconds: float = 0.0,
    repeats: int = 1,
    warm: int = 3,
    progress: Callable[[float], None] = lambda share: None,
) -> dict[str, list[float]]:
    """Seconds per step in each round, by name; the order of the steps in a round is random.

    Args:
        rounds: minimum and maximum number of rounds; between them, rounds end after `seconds`.
        seconds: total time.
        repeats: steps that are timed together; a GPU is synchronised after them.
        warm: warm-up steps of each, not timed.
        progress: called with the finished share, from 0 to 1.
    """
    for step in steps.values():
        for _ in range(warm):
            step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    wait: Step = torch.cuda.synchronize if device == "cuda" else lambda: None
    order = random.Random(0)
    begun, (least, most) = time.perf_counter(), rounds
    for done in range(most):
        passed = (time.perf_counter() - begun) / max(seconds, 1e-9)
        if done >= least and passed >= 1:
            break
        progress(max(done / most, min(passed, done / least)))
        for name in order.sample(list(steps), len(steps)):
            wait()
            start = time.perf_counter()
            for _ in range(repeats):
                steps[name]()
            wait()
            times[name].append((time.perf_counter() - start) / repeats)
    return times


def median_ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """Median over the rounds of their time / our time; above 1, ours is faster."""
    return statistics.median(t / o for t, o in zip(theirs, ours, strict=True))


class MachinePeak(NamedTuple):
    """Highest measured rates: operations per second of a large matrix product, bytes per second of a copy."""

    flops: float
    bytes: float


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
