"""Inference on a GPU: ViT-B/16 and ViT-S/16 at 224 beside timm, both compiled, with the same weights, in one run.

    python -m benchmarks.inference_gpu

bfloat16 by autocast in all rows but the last two. `r` tokens are merged in each block (`vitreous predict --merge r`);
what that costs in accuracy is measured on trained runs by `benchmarks.merging`. The last columns compare the answers
with those of timm in float32: how often the likeliest class is the same, and the mean difference of the logits by
their spread. The weights are random, so that near ties, which rounding decides, are far more frequent than in a trained
model.
"""

import copy
import statistics
from collections.abc import Callable

import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import vitreous as vt
from tests.peers.path import add_peers
from vitreous.bench.race import race, ratio
from vitreous.nn.linear import in_eight_bits
from vitreous.nn.merge import Merging, check_mergeable
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


def merging(model: vt.ViT, r: int) -> vt.ViT:
    """A copy that merges r tokens in each block."""
    found = copy.deepcopy(model)
    check_mergeable(found, r).merging = Merging(r)
    return found


def eight_bits(model: vt.ViT) -> vt.ViT:
    """A copy with products of eight bits."""
    found = copy.deepcopy(model)
    in_eight_bits(found)
    return found


def main(batch: int = 256, rounds: int = 7, merge: tuple[int, ...] = (8, 16)) -> None:
    """Print the table.

    Args:
        batch: images of a forward.
        rounds: timed rounds of each.
        merge: tokens that each block merges, one row each.
    """
    add_peers()
    import timm

    table = Table(title=f"inference, batch {batch}, compiled, {torch.cuda.get_device_name()}")
    for heading in ("model", "by", "images/s", "a batch", "×", "same class", "logits apart"):
        table.add_column(heading, justify="left" if heading in ("model", "by") else "right")
    for name in ("vit_base_patch16_224", "vit_small_patch16_224"):
        torch.manual_seed(0)
        model = vt.create_model(name).cuda().eval()
        peer = timm.create_model(name).cuda().eval()
        peer.load_state_dict(to_timm(model))
        x = torch.randn(batch, 3, 224, 224, device="cuda")
        with torch.no_grad():
            truth = peer(x)
        models: dict[str, nn.Module] = {
            "timm": peer,
            "vitreous": model,
            **{f"vitreous, r = {r}": merging(model, r) for r in merge},
            "vitreous, float8": eight_bits(model),
            f"vitreous, float8, r = {merge[-1]}": merging(eight_bits(model), merge[-1]),
        }
        steps = {by: forward(found, x) for by, found in models.items()}
        answers = {by: step().float().clone() for by, step in steps.items()}
        times = race(steps, "cuda", (rounds, rounds), repeats=20)
        for by, taken in times.items():
            median = statistics.median(taken)
            same = (answers[by].argmax(1) == truth.argmax(1)).float().mean()
            apart = (answers[by] - truth).abs().mean() / truth.std()
            table.add_row(
                name, by, f"{batch / median:,.0f}", f"{median * 1e3:.2f} ms", f"{ratio(times['timm'], taken):.2f}",
                f"{same:.1%}", f"{apart:.4f}",
            )  # fmt: skip
    Console(width=140).print(table)


if __name__ == "__main__":
    tyro.cli(main)
