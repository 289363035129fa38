"""Forward and training step, ours beside timm, transformers and vit-pytorch, alternating in one run.

    python -m benchmarks.model_speed                    # three models on the CPU, float32, eager
    python -m benchmarks.model_speed --device cuda      # ViT-B/16, batch 256, bf16 autocast, compiled

Every row is one model built four times with the same shapes, in a process of its own. In each round all four take one
timed step, in an order drawn anew, since each leaves memory and caches to the next. The table gives median times and
the median over rounds of (peer's time / ours): above 1 we are faster.
"""

import random
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import vitreous as vt
from tests.peers.path import add_peers

PEERS = ("timm", "transformers", "vit-pytorch")


@dataclass(frozen=True)
class Case:
    """One model and batch, for all four libraries."""

    name: str
    config: vt.ViTConfig
    batch: int


SPECTRUM = vt.ViTConfig(input=(1, 4500), patch=(10,), out=6, dim=128, depth=4, heads=4)
CPU_CASES = [
    Case("ViT-S/16 at 224", vt.zoo.model_config("vit_small_patch16_224"), 4),
    Case("28×28, width 192, depth 6, patch 4", vt.zoo.model_config("vit_mini_patch4_28"), 32),
    Case("1-D, 450 tokens, width 128, depth 4", SPECTRUM, 64),
]
CUDA_CASES = [Case("ViT-B/16 at 224", vt.zoo.model_config("vit_base_patch16_224"), 256)]


def build(library: str, c: vt.ViTConfig) -> nn.Module:
    """The model of config `c` in one of the libraries; a line becomes an image of height one where needed."""
    hidden = round(c.dim * c.mlp[0])
    size = (1, *c.grid) if len(c.grid) == 1 else c.grid
    patch = (1, *c.patch) if len(c.patch) == 1 else c.patch
    if library == "vitreous":
        return vt.ViT(c)
    if library == "timm":
        from timm.models.vision_transformer import VisionTransformer

        return VisionTransformer(
            img_size=size, patch_size=patch, in_chans=c.input[0], num_classes=c.out, embed_dim=c.dim,
            depth=c.depth, num_heads=c.heads, mlp_ratio=c.mlp[0],
        )  # fmt: skip
    if library == "transformers":
        from transformers import ViTConfig, ViTForImageClassification

        config = ViTConfig(
            image_size=size, patch_size=patch, num_channels=c.input[0], num_labels=c.out, hidden_size=c.dim,
            num_hidden_layers=c.depth, num_attention_heads=c.heads, intermediate_size=hidden,
        )  # fmt: skip
        return Logits(ViTForImageClassification(config))
    shared = {
        "num_classes": c.out, "dim": c.dim, "depth": c.depth, "heads": c.heads, "mlp_dim": hidden,
        "channels": c.input[0], "dim_head": c.dim // c.heads,
    }  # fmt: skip
    if len(c.grid) == 1:
        from vit_pytorch.vit_1d import ViT

        return ViT(seq_len=c.grid[0], patch_size=c.patch[0], **shared)
    from vit_pytorch import ViT as ImageViT

    return ImageViT(image_size=c.grid, patch_size=c.patch, **shared)


class Logits(nn.Module):
    """transformers' models return an object; the others the logits in it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x).logits


def forward_step(model: nn.Module, x: Tensor, y: Tensor, device: str) -> Callable[[], object]:
    """One inference forward."""
    model.eval()

    def step() -> None:
        with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            model(x)

    return step


def training_step(model: nn.Module, x: Tensor, y: Tensor, device: str) -> Callable[[], object]:
    """Forward, cross-entropy, backward, AdamW."""
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


STEPS = {"forward": forward_step, "training": training_step}


def race(steps: dict[str, Callable[[], object]], rounds: int, repeats: int, device: str) -> dict[str, list[float]]:
    """Seconds a step of each library in each round; the order of each round is drawn anew."""
    names = list(steps)
    for name in names:
        for _ in range(3):
            steps[name]()
    times: dict[str, list[float]] = {name: [] for name in names}
    order = random.Random(0)
    for _ in range(rounds):
        for name in order.sample(names, len(names)):
            _wait(device)
            start = time.perf_counter()
            for _ in range(repeats):
                steps[name]()
            _wait(device)
            times[name].append((time.perf_counter() - start) / repeats)
    return times


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def measure(case: Case, kind: str, device: str, rounds: int, compiled: bool) -> dict[str, list[float]]:
    """Seconds a step of each library, in each round."""
    add_peers()
    x = torch.randn(case.batch, *case.config.input, device=device)
    flat = x.unsqueeze(2) if x.dim() == 3 else x  # (B, C, 1, L) for those that know images only
    y = torch.randint(case.config.out, (case.batch,), device=device)
    steps: dict[str, Callable[[], object]] = {}
    for library in ("vitreous", *PEERS):
        torch.manual_seed(0)
        model = build(library, case.config).to(device)
        batch = flat if library in ("timm", "transformers") else x
        steps[library] = STEPS[kind](torch.compile(model) if compiled else model, batch, y, device)
    return race(steps, rounds, 10 if device == "cuda" else 1, device)


def main(device: str = "cpu", rounds: int = 10, compile: bool | None = None, only: str = "") -> None:
    """Print the table.

    Args:
        device: cpu or cuda.
        rounds: timed rounds of each model.
        compile: wrap every model in torch.compile; by default on cuda only.
        only: models whose name has this in it.
    """
    compiled = device == "cuda" if compile is None else compile
    table = Table(title=f"model speed, {device}, {'compiled' if compiled else 'eager'}: median time and peer / ours")
    for heading in ("model", "step", "batch", "ours", *(f"{p}  (×)" for p in PEERS), "samples/s"):
        table.add_column(heading, justify="left" if heading in ("model", "step") else "right")
    fresh = ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1)
    for case in CUDA_CASES if device == "cuda" else CPU_CASES:
        for kind in STEPS if only in case.name else ():
            times = fresh.submit(measure, case, kind, device, rounds, compiled).result()
            ours = times["vitreous"]
            row = [case.name, kind, str(case.batch), f"{statistics.median(ours) * 1e3:.1f} ms"]
            for peer in PEERS:
                ratio = statistics.median(t / o for t, o in zip(times[peer], ours, strict=True))
                row.append(f"{statistics.median(times[peer]) * 1e3:.1f} ms ({ratio:.2f})")
            table.add_row(*row, f"{case.batch / statistics.median(ours):,.0f}")
            print(" | ".join(row), flush=True)
    Console(width=140).print(table)


if __name__ == "__main__":
    tyro.cli(main)
