"""Errors of attention for long inputs on a task that needs long range, not only its speed.

    python -m benchmarks.long_range --device cuda               # every kind of attention, 18,000 points, 1,800 tokens
    python -m benchmarks.long_range --points 1800 --steps 300   # a short trial on a CPU

A pattern is noise with two marks in it, bursts of a wave as long as a thirtieth of it, at least a quarter of it apart.
How far apart they are is the question, which no look at one place can answer. A constant answer is wrong by 1 on
average (the scatter of the distances), which errors are given in. All kinds of attention have the same width, depth,
training steps and data.
"""

import math
import time
from typing import Literal

import torch
import torch.nn.functional as F
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

import vitreous as vt
from vitreous.nn.attention import ATTENTIONS
from vitreous.train.optimiser import create_optimisers, learning_rate_factor


def marked(count: int, points: int, share: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Patterns `(count, 1, points)`, and how far apart their marks are `(count,)`, with mean 0 and scatter 1.

    They are `share` times as long as a mark.
    """
    x = torch.randn(count, points, device=device) * 0.3
    mark = points // share
    least, most = points // 4, points - mark
    apart = least + (torch.rand(count, device=device) * (most - least)).long()
    first = (torch.rand(count, device=device) * (most - apart)).long()
    steps = torch.arange(mark, device=device)
    for place in (first, first + apart):
        phase = torch.rand(count, 1, device=device) * 2 * math.pi
        x.scatter_add_(1, place[:, None] + steps, 2 * torch.sin(2 * math.pi * steps / 8 + phase))
    return x.unsqueeze(1), (apart - (least + most) / 2) / ((most - least) / 12**0.5)


def trained(
    kind: str, points: int, steps: int, batch: int, share: int, position: str, device: torch.device
) -> tuple[float, float, float]:
    """Error on 4,096 new patterns, seconds of training, and GiB of memory on a GPU."""
    torch.manual_seed(0)
    extra = {"window": {"window": (min(64, points // 40),)}, "latent": {"latents": 64}, "lsh": {"hashes": 4}}.get(
        kind, {}
    )
    model = vt.ViT(
        vt.ViTConfig(
            input=(1, points), patch=(10,), out=1, dim=128, depth=4, heads=4, attention=kind, position=position, **extra
        )
    ).to(device)
    run = torch.compile(model) if device.type == "cuda" and kind != "lsh" else model  # which takes minutes
    made = create_optimisers(model, "muon", 1e-3, 0.05)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    for step in track(range(steps), description=f"{kind}"):
        for optimiser in made:
            for group in optimiser.param_groups:
                group["lr"] = 1e-3 * learning_rate_factor(step, steps, 0.1)
        x, y = marked(batch, points, share, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss = F.smooth_l1_loss(run(x).float().squeeze(1), y)
        loss.backward()
        for optimiser in made:
            optimiser.step()
            optimiser.zero_grad()
    taken = time.perf_counter() - started
    model.eval()
    torch.manual_seed(1)
    wrong = 0.0
    with torch.no_grad():
        for _ in range(4096 // 64):
            x, y = marked(64, points, share, device)
            wrong += float((model(x).squeeze(1) - y).square().sum())
    memory = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else 0.0
    return (wrong / 4096) ** 0.5, taken, memory


def main(
    points: int = 18_000,
    steps: int = 2000,
    batch: int = 32,
    kinds: tuple[str, ...] = tuple(ATTENTIONS)[:-1],
    share: int = 30,
    position: Literal["learned", "sinusoidal"] = "learned",
    device: str = "cpu",
) -> None:
    """Train one model for each kind of attention and print the table.

    Args:
        points: of a pattern; ten make a token.
        steps: of training.
        batch: patterns of a step.
        kinds: of attention.
        share: patterns are so many times as long as a mark.
        position: how tokens are told where they are.
        device: cpu or cuda.
    """
    table = Table(title=f"how far apart are two marks in {points:,} points? {steps} steps of {batch}")
    for heading in ("attention", "error", "training", "memory"):
        table.add_column(heading, justify="left" if heading == "attention" else "right")
    for kind in kinds:
        error, taken, memory = trained(kind, points, steps, batch, share, position, torch.device(device))
        row = [kind, f"{error:.3f}", f"{taken:.0f} s", f"{memory:.1f} GiB" if memory else ""]
        print(" | ".join(row), flush=True)
        table.add_row(*row)
    Console(width=100).print(table)


if __name__ == "__main__":
    tyro.cli(main)
