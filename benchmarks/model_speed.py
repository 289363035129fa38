"""Forward and training step, ours beside timm, transformers and vit-pytorch, alternating in one run.

    python -m benchmarks.model_speed                    # three models on the CPU, float32, eager
    python -m benchmarks.model_speed --device cuda      # ViT-B/16, batch 256, bf16 autocast, compiled

Every row is one model built four times with the same shapes, in a process of its own. In each round all four take one
timed step, in an order drawn anew, since each leaves memory and caches to the next. The table gives median times and
the median over rounds of (peer's time / ours): above 1 we are faster.
"""

import statistics
from dataclasses import dataclass

import torch
import tyro
from rich.console import Console
from rich.table import Table

import vitreous as vt
from tests.peers.path import add_peers
from vitreous.bench.fresh_process import run_in_fresh_process
from vitreous.bench.peers import OURS, PEERS, build
from vitreous.bench.tables import format_time
from vitreous.bench.timing import Setting, make_step, median_ratio, time_steps
from vitreous.zoo.cost import example_inputs


@dataclass(frozen=True)
class Case:
    """One model and batch, for all four libraries."""

    name: str
    config: vt.ViTConfig
    batch: int


SPECTRUM = vt.ViTConfig(input=(1, 4500), patch=(10,), out=6, dim=128, depth=4, heads=4)
CASES = {
    "cpu": [
        Case("ViT-S/16 at 224", vt.zoo.model_config("vit_small_patch16_224"), 4),
        Case("28×28, width 192, depth 6, patch 4", vt.zoo.model_config("vit_mini_patch4_28"), 32),
        Case("1-D, 450 tokens, width 128, depth 4", SPECTRUM, 64),
    ],
    "cuda": [Case("ViT-B/16 at 224", vt.zoo.model_config("vit_base_patch16_224"), 256)],
}


def measure(case: Case, setting: Setting, rounds: int) -> dict[str, list[float]]:
    """Seconds a step of each library, in each round."""
    add_peers()
    inputs = example_inputs(case.config, case.batch, setting.device)
    steps = {}
    for library in (OURS, *PEERS):
        torch.manual_seed(0)
        steps[library] = make_step(build(library, case.config), inputs, case.config.out, setting)
    return time_steps(steps, setting.device, (rounds, rounds), repeats=10 if setting.device == "cuda" else 1)


def main(device: str = "cpu", rounds: int = 10, compile: bool | None = None, only: str = "") -> None:
    """Print the table.

    Args:
        device: cpu or cuda.
        rounds: timed rounds of each model.
        compile: wrap every model in torch.compile; by default on cuda only.
        only: models whose name has this in it.
    """
    compiled = device == "cuda" if compile is None else compile
    precision = "bfloat16" if device == "cuda" else "float32"
    table = Table(title=f"model speed, {device}, {'compiled' if compiled else 'eager'}: median time and peer / ours")
    for heading in ("model", "step", "batch", "ours", *(f"{p}  (×)" for p in PEERS), "samples/s"):
        table.add_column(heading, justify="left" if heading in ("model", "step") else "right")
    for case in CASES[device]:
        for train in (False, True) if only in case.name else ():
            times = run_in_fresh_process(measure, case, Setting(device, precision, train, compiled), rounds)
            ours = times[OURS]
            row = [case.name, "training" if train else "forward", str(case.batch), format_time(statistics.median(ours))]
            for peer in PEERS:
                row.append(f"{format_time(statistics.median(times[peer]))} ({median_ratio(times[peer], ours):.2f})")
            table.add_row(*row, f"{case.batch / statistics.median(ours):,.0f}")
            print(" | ".join(row), flush=True)
    Console(width=140).print(table)


if __name__ == "__main__":
    tyro.cli(main)
