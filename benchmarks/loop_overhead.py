"""What the loop costs over a bare hand-written one on the same model, batches and optimiser, alternating in one run.

    python -m benchmarks.loop_overhead

The bare loop does what any training must: draw a batch, forward, loss, backward, clip, AdamW. Ours adds the learning
rate, the seed of each step, the check for finite losses, the log and the bar.
"""

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import nn

import vitreous as vt
from vitreous.data import Axis, Source
from vitreous.train import SupervisedJob, TrainConfig
from vitreous.train.device import create_accelerator
from vitreous.train.loop import Loop
from vitreous.train.progress import Bar, Log

MODELS = {
    "vit_micro_patch2_8, batch 64": ("vit_micro_patch2_8", 64),
    "vit_mini_patch4_28, batch 64": ("vit_mini_patch4_28", 64),
}


def bare(model: nn.Module, x: torch.Tensor, y: torch.Tensor, batch: int, steps: int) -> float:
    """Seconds of a hand-written loop."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05, betas=(0.9, 0.98), fused=True)
    model.train()
    start = time.perf_counter()
    for _ in range(steps):
        index = torch.randint(len(x), (batch,))
        loss = nn.functional.cross_entropy(model(x[index]), y[index])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
    return time.perf_counter() - start


def ours(config: vt.ViTConfig, source: Source, batch: int, steps: int, folder: Path) -> float:
    """Seconds of our loop with its log and its bar, without evaluations."""
    settings = TrainConfig(steps=steps, batch=batch, lr=1e-4, evaluate_every=10 * steps)
    job, accelerator = SupervisedJob(source, config, settings, scale="none"), create_accelerator(device="cpu")
    job.setup(accelerator, folder, resume=False)
    bar, loop = Bar("overhead", steps, batch), Loop(job, accelerator, folder)
    loop.watchers = [Log(folder / "metrics.jsonl"), bar]
    loop.model.train()
    with bar.progress:
        start = time.perf_counter()
        for step in range(steps):
            loop.step(step)
        return time.perf_counter() - start


def main(rounds: int = 9, steps: int = 30) -> None:
    """Print the table.

    Args:
        rounds: alternations.
        steps: steps of a round.
    """
    table = Table(title="loop overhead, cpu: median seconds of a round, and the median of ours / bare")
    for heading in ("model", "steps", "bare", "ours", "ours / bare"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for name, (model_name, batch) in MODELS.items():
        config = vt.zoo.model_config(model_name)
        rng = np.random.default_rng(0)
        x = rng.normal(size=(2000, *config.input)).astype(np.float32)
        y = rng.integers(0, config.out, 2000)
        classes = tuple(str(i) for i in range(config.out))
        source = Source("noise", x, y, (Axis(),) * len(config.grid), ("i",), classes=classes)
        times: dict[str, list[float]] = {"bare": [], "ours": []}
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(rounds + 1):
                for kind in ("bare", "ours") if turn % 2 else ("ours", "bare"):
                    torch.manual_seed(0)
                    seconds = (
                        bare(vt.ViT(config), torch.from_numpy(x), torch.from_numpy(y), batch, steps)
                        if kind == "bare"
                        else ours(config, source, batch, steps, Path(folder))
                    )
                    if turn:  # the first round warms up
                        times[kind].append(seconds)
        ratio = statistics.median(o / b for o, b in zip(times["ours"], times["bare"], strict=True))
        medians = [f"{statistics.median(times[kind]):.2f} s" for kind in ("bare", "ours")]
        table.add_row(name, str(steps), *medians, f"{ratio:.3f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    tyro.cli(main)
