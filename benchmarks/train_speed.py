"""Training on a GPU: our step beside a compiled loop as one writes it, alternating in one run.

    python -m benchmarks.train_speed --what images   # ViT-B/16 and ViT-S/16 beside timm, bfloat16
    python -m benchmarks.train_speed --what spectra  # the spectrum model of S0 with its simulator, beside a plain loop

The rival in both is a compiled model under autocast with torch's fused AdamW. Both start from the same weights and see
the same data; their losses are printed side by side. Times are medians over rounds of (rival's time / ours).
"""

import copy
import statistics
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import torch
import torch.nn.functional as F
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import vitreous as vt
from tests.peers.path import add_peers
from vitreous.bench.timing import median_ratio, time_steps
from vitreous.data import split
from vitreous.data.scale import fit_scaling
from vitreous.recipes import load_recipe
from vitreous.run.task import task_for
from vitreous.train.batches import SimulatedBatches
from vitreous.train.config import TrainConfig
from vitreous.train.device import create_accelerator
from vitreous.train.optimiser import create_optimisers
from vitreous.train.step import Step
from vitreous.zoo.layouts import to_timm

Train = Callable[[], Tensor]
"""Take one step; the loss."""


def plain(
    model: nn.Module, batch: Callable[[], tuple[Tensor, Tensor]], loss: Callable[[Tensor, Tensor], Tensor]
) -> Train:
    """A compiled loop as one writes it."""
    run = torch.compile(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), weight_decay=0.05, fused=True)

    def step() -> Tensor:
        x, y = batch()
        with torch.autocast("cuda", torch.bfloat16):
            out = run(x)
        found = loss(out.float(), y)
        found.backward()
        optimiser.step()
        optimiser.zero_grad()
        return found.detach()

    return step


def ours(
    model: vt.ViT,
    batch: Callable[[], tuple[Tensor, Tensor]],
    loss: Callable[[Tensor, Tensor], Tensor],
    prepare: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = lambda x, y: (x, y),
    precision: str = "bfloat16",
) -> Train:
    """The step of `vitreous train`."""
    settings = TrainConfig(clip=0.0, stream="bfloat16", precision=precision)
    accelerator = create_accelerator(precision, "cuda")
    model.set_execution(stream=torch.bfloat16, float8=precision == "float8")
    optimisers = create_optimisers(model, "adamw", 1e-4, 0.05)
    ready = accelerator.prepare_model(model)
    job = SimpleNamespace(settings=settings, loss=loss, prepare=prepare)
    step = Step(ready, torch.compile(ready), job, optimisers, None, accelerator)
    return lambda: step(*batch(), 1e-4, 0.0).clone()


def losses(step: Train, count: int = 24) -> list[float]:
    """The first ones; the compiler and the graph get ready meanwhile."""
    return [float(step()) for _ in range(count)]


def compare(name: str, rivals: dict[str, Callable[[], Train]], batch: int, table: Table, rounds: int = 5) -> None:
    """Make each rival, watch its losses and its memory, then race them."""
    made: dict[str, Train] = {}
    memory: dict[str, float] = {}
    for rival, make in rivals.items():
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        made[rival] = make()
        trace = losses(made[rival])
        memory[rival] = (torch.cuda.max_memory_allocated() - before) / 2**30
        print(f"{name}, {rival}: losses {' '.join(f'{v:.4f}' for v in trace[::4])}", flush=True)
    times = time_steps(made, "cuda", (rounds, rounds), repeats=20)
    base = next(iter(times.values()))
    for rival, taken in times.items():
        row = [name, rival, f"{batch / statistics.median(taken):,.0f}", f"{statistics.median(taken) * 1e3:.2f} ms"]
        table.add_row(*row, f"{median_ratio(base, taken):.2f}", f"{memory[rival]:.1f} GiB")
        print(" | ".join([*row, f"{median_ratio(base, taken):.2f}", f"{memory[rival]:.1f} GiB"]), flush=True)


def images(table: Table, only: str) -> None:
    """timm's ViT-B/16 and ViT-S/16 at 224, batch 256."""
    add_peers()
    import timm

    for name in ("vit_base_patch16_224", "vit_small_patch16_224"):
        if only not in name:
            continue
        torch.manual_seed(0)
        model = vt.create_model(name).cuda()
        peer = timm.create_model(name).cuda()
        peer.load_state_dict(to_timm(model))
        x, y = torch.randn(256, 3, 224, 224, device="cuda"), torch.randint(1000, (256,), device="cuda")
        given = lambda x=x, y=y: (x, y)  # noqa: E731
        eight = copy.deepcopy(model)
        rivals = {
            "timm, compiled": lambda peer=peer, given=given: plain(peer, given, F.cross_entropy),
            "vitreous": lambda model=model, given=given: ours(model, given, F.cross_entropy),
            "vitreous, float8": lambda model=eight, given=given: ours(
                model, given, F.cross_entropy, precision="float8"
            ),
        }
        compare(name, rivals, 256, table)


def spectra(table: Table, batch: int) -> None:
    """S0's ViT, 450 tokens of width 64, with its simulator."""
    job = load_recipe("powder-vit").create()
    rows = split(job.source, job.validation, job.test, 0).train
    task = task_for(job.source, rows, job.loss_name, 0.0, 0)
    scaling = fit_scaling(job.scale, job.source.x, rows)
    device = torch.device("cuda")

    def model() -> vt.ViT:
        torch.manual_seed(0)
        return vt.ViT(replace(job.config, out=task.outputs)).cuda()

    def streamed(size: int) -> Callable[[], tuple[Tensor, Tensor]]:
        stream, place = SimulatedBatches(job.source, task, size, 0, device), iter(range(10**9))
        return lambda: stream(next(place))

    def fresh(size: int) -> Callable[[], tuple[Tensor, Tensor]]:
        def draw() -> tuple[Tensor, Tensor]:
            x, y = job.source.fresh(size, device)
            return scaling(x), task.encode(y)

        return draw

    prepare = torch.compile(lambda x, y: (scaling(x), y))
    rivals = {
        "plain loop": lambda: plain(model(), fresh(batch), task.loss),
        "vitreous": lambda: ours(model(), streamed(batch), task.loss, prepare),
    }
    compare(f"S0's ViT, batch {batch}", rivals, batch, table)


def main(what: str = "images", only: str = "", batch: int = 256) -> None:
    """Print the table.

    Args:
        what: images or spectra.
        only: models whose name has this in it.
        batch: patterns of a step.
    """
    torch.backends.cuda.matmul.allow_tf32 = True
    table = Table(title="training, bfloat16, one GPU")
    for heading in ("model", "trained by", "samples/s", "a step", "×", "memory"):
        table.add_column(heading, justify="left" if heading in ("model", "trained by") else "right")
    if what == "images":
        images(table, only)
    else:
        spectra(table, batch)
    Console(width=140).print(table)


if __name__ == "__main__":
    tyro.cli(main)
