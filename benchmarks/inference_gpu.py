"""Inference on a GPU: ViT-B/16 and ViT-S/16 at 224 beside timm, both compiled, with the same weights, in one run.

    python -m benchmarks.inference_gpu
    python -m benchmarks.inference_gpu --run RUN --merge 16 40-20-10    # a run of benchmarks.large_digits

bfloat16 by autocast, but for float8. `r` tokens are merged in each block (`vitreous predict --merge r`). The
last columns compare the answers with those of timm in float32: how often the likeliest class is the same, and the mean
difference of the logits by their spread. Random weights have near ties, which rounding decides, far more often than
trained ones. Of a run, the accuracy on the 10,000 test images is told too, by the very steps that are timed.
"""

import copy
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import vitreous as vt
from benchmarks.large_digits import MODEL, large_digits
from benchmarks.merging import merging
from tests.peers.path import add_peers
from vitreous.bench.timing import median_ratio, time_steps
from vitreous.zoo.layouts import to_timm


def forward(model: nn.Module, x: Tensor) -> Callable[[], Tensor]:
    """A compiled forward under autocast, recorded as a CUDA graph."""
    run = torch.compile(model.eval(), mode="reduce-overhead")

    def step() -> Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            out: Tensor = run(x)
        return out

    return step


def eight_bits(model: vt.ViT) -> vt.ViT:
    """A copy with products of eight bits."""
    found = copy.deepcopy(model)
    found.set_execution(float8=True)
    return found


class Digits:
    """A run's test images, scaled as it wants them, and how many of them a step gets right."""

    def __init__(self, run: Path) -> None:
        self.predictor, source = vt.load(run, "cuda"), large_digits()
        rows = source.parts["test"]
        assert source.y is not None
        self.x, self.y = torch.from_numpy(source.x[rows]), torch.from_numpy(np.asarray(source.y[rows]))

    def batch(self, start: int, count: int) -> Tensor:
        """So many images from one of them on; after the last come the first again."""
        rows = torch.arange(start, start + count) % len(self.x)
        return self.predictor.scaling(self.x[rows].cuda())

    def accuracy(self, step: Callable[[], Tensor], x: Tensor) -> float:
        """Of a step that answers to what stands in `x`."""
        right, first = 0, x.clone()
        for start in range(0, len(self.x), len(x)):
            x.copy_(self.batch(start, len(x)))
            answers = step().argmax(1).cpu()[: len(self.x) - start]
            right += int((answers == self.y[start : start + len(x)]).sum())
        x.copy_(first)
        return right / len(self.x)


def main(
    batch: int = 256,
    rounds: int = 7,
    merge: tuple[str, ...] = ("16",),
    name: str = MODEL,
    by: tuple[str, ...] = (),
    run: Path | None = None,
    classes: int = 1000,
    channels: int = 3,
) -> None:
    """Print the table.

    Args:
        batch: images of a forward.
        rounds: timed rounds of each.
        merge: tokens that each block merges, or the first ones, as 40-20; one row each.
        name: of the model, as timm calls it.
        by: rows that have one of these in their names; all if not given.
        run: a run of benchmarks.large_digits, whose weights and test images are taken instead of random ones.
        classes, channels: of random weights; those of the run are 10 and 1.
    """
    add_peers()
    import timm

    torch.manual_seed(0)
    digits = None if run is None else Digits(run)
    model = vt.create_model(name, out=classes, input=(channels, 224, 224)) if digits is None else digits.predictor.model
    assert isinstance(model, vt.ViT)
    model = model.cuda().eval()
    peer = timm.create_model(name, in_chans=model.config.input[0], num_classes=model.config.out).cuda().eval()
    peer.load_state_dict(to_timm(model))
    x = torch.randn(batch, *model.config.input, device="cuda") if digits is None else digits.batch(0, batch)
    with torch.no_grad():
        truth = peer(x)
    models: dict[str, nn.Module] = {
        "timm": peer,
        "vitreous, plain": model,
        **{f"vitreous, r = {r}": merging(model, r) for r in merge},
        "vitreous, float8": eight_bits(model),
        **{f"vitreous, r = {r}, float8": eight_bits(merging(model, r)) for r in merge},
    }
    models = {row: found for row, found in models.items() if not by or any(part in row for part in by)}
    steps = {row: forward(found, x) for row, found in models.items()}
    answers = {row: step().float().clone() for row, step in steps.items()}
    right = {} if digits is None else {row: digits.accuracy(step, x) for row, step in steps.items()}
    times = time_steps(steps, "cuda", (rounds, rounds), repeats=20)
    first = next(iter(times.values()))
    table = Table(title=f"{name}, inference, batch {batch}, compiled, {torch.cuda.get_device_name()}")
    for heading in ("by", "images/s", "a batch", "×", "same class", "logits apart", *(["accuracy"] if right else [])):
        table.add_column(heading, justify="left" if heading == "by" else "right")
    for row, taken in times.items():
        median = statistics.median(taken)
        same = (answers[row].argmax(1) == truth.argmax(1)).float().mean()
        apart = (answers[row] - truth).abs().mean() / truth.std()
        table.add_row(
            row, f"{batch / median:,.0f}", f"{median * 1e3:.2f} ms", f"{median_ratio(first, taken):.2f}",
            f"{same:.1%}", f"{apart:.4f}", *([f"{right[row]:.2%}"] if right else []),
        )  # fmt: skip
    Console(width=140).print(table)


if __name__ == "__main__":
    tyro.cli(main)
