"""Steps to be timed, and a race between them: alternating rounds in one run, since a machine's speed drifts."""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Step = Callable[[], object]
Inputs = Sequence[Tensor | None]


@dataclass(frozen=True)
class Setting:
    """How models are run: cpu or cuda; float32, or bfloat16 by autocast; a forward, or a training step; compiled."""

    device: str = "cpu"
    precision: str = "float32"
    train: bool = False
    compile: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """Of the matrix products."""
        return torch.bfloat16 if self.precision == "bfloat16" else torch.float32

    def autocast(self) -> torch.autocast:
        """The products in `dtype`; the weights stay in float32."""
        return torch.autocast(self.device, torch.bfloat16, enabled=self.precision == "bfloat16")


def make_step(model: nn.Module, inputs: Inputs, classes: int, setting: Setting) -> Step:
    """One forward, or one forward, cross-entropy, backward and AdamW."""
    model = model.to(setting.device).train(setting.train)
    run = torch.compile(model, dynamic=False) if setting.compile else model
    return _training_step(model, run, inputs, classes, setting) if setting.train else _forward(run, inputs, setting)


def _forward(run: Callable[..., Tensor], inputs: Inputs, setting: Setting) -> Step:
    def step() -> None:
        with torch.no_grad(), setting.autocast():
            run(*inputs)

    return step


def _training_step(
    model: nn.Module, run: Callable[..., Tensor], inputs: Inputs, classes: int, setting: Setting
) -> Step:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    assert inputs[0] is not None
    y = torch.randint(max(1, classes), (len(inputs[0]),), device=setting.device)

    def step() -> None:
        with setting.autocast():
            loss = nn.functional.cross_entropy(run(*inputs), y)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


def race(
    steps: Mapping[str, Step],
    device: str,
    rounds: tuple[int, int] = (10, 10),
    seconds: float = 0.0,
    repeats: int = 1,
    warm: int = 3,
    told: Callable[[float], None] = lambda share: None,
) -> dict[str, list[float]]:
    """Seconds that each step takes in each round; the order of a round is drawn anew.

    Args:
        rounds: the fewest and the most; between them, until `seconds` have passed.
        repeats: steps that are timed together, after which a GPU is waited for.
        warm: steps of each beforehand, not timed.
        told: hears how much of the race is over, from 0 to 1.
    """
    names = list(steps)
    for name in names:
        for _ in range(warm):
            steps[name]()
    times: dict[str, list[float]] = {name: [] for name in names}
    order = random.Random(0)
    begun, (least, most) = time.perf_counter(), rounds
    for done in range(most):
        passed = (time.perf_counter() - begun) / max(seconds, 1e-9)
        if done >= least and passed >= 1:
            break
        told(max(done / most, min(passed, done / least)))
        for name in order.sample(names, len(names)):
            _wait(device)
            start = time.perf_counter()
            for _ in range(repeats):
                steps[name]()
            _wait(device)
            times[name].append((time.perf_counter() - start) / repeats)
    return times


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """Median over the rounds of their time / ours: above 1 we are faster."""
    return statistics.median(t / o for t, o in zip(theirs, ours, strict=True))


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
