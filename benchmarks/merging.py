"""What fewer tokens cost and gain: the score of a run on its test part beside its speed, for several r and budgets.

    python -m benchmarks.merging runs/mnist mnist --merge 8 16 24 --figure pareto.png
    python -m benchmarks.merging runs/mnist mnist --pruned runs/mnist-60 runs/mnist-40 --device cuda --compile

Every row is the same run: as it is, with r tokens merged in each block (`vitreous predict --merge r`), or pruned by
learned thresholds (`vitreous prune`). In each round all take one timed forward on the same samples, in an order drawn
anew. The table gives the median rate, and the median over rounds of the time of the run as it is by the time of each.
"""

import copy
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import nn
from tyro.conf import Positional

import vitreous as vt
from vitreous.bench.timing import Setting, make_step, median_ratio, time_steps
from vitreous.insight.style import check_format, figure, save
from vitreous.nn import ViT
from vitreous.nn.reduction.merge import Merging, check_mergeable
from vitreous.recipes.jobs import load_data, part_rows
from vitreous.run.predictor import Predictor

PLAIN = "as it is"


@dataclass(frozen=True)
class Row:
    """One way to run the model."""

    name: str
    share: float
    score: float
    rate: float
    faster: float


def merging(model: nn.Module, r: str) -> ViT:
    """A copy that merges r tokens in each block, or `40-20` of them in the first blocks."""
    found, numbers = copy.deepcopy(model), [int(number) for number in r.split("-")]
    inner = check_mergeable(found, numbers)
    inner.set_execution(reducer=Merging(numbers))
    return inner


def variants(run: Path, merge: tuple[str, ...], pruned: tuple[Path, ...], device: str) -> dict[str, Predictor]:
    """The run as it is, merging r tokens in each block, and pruned; each with a model of its own."""
    plain = vt.load(run, device)
    found = {PLAIN: plain}
    most = plain.model.tokenizer.most if isinstance(plain.model, ViT) else 0
    for r in merge or map(str, sorted({round(most * share) for share in (0.05, 0.1, 0.15, 0.2, 0.3)} - {0})):
        found[f"r = {r}"] = copy.copy(plain)
        found[f"r = {r}"].model = merging(plain.model, r)
    return found | {folder.name: vt.load(folder, device) for folder in pruned}


def measure(
    found: dict[str, Predictor],
    x: NDArray[Any],
    y: NDArray[Any],
    metric: str,
    batch: int,
    rounds: int,
    compiled: bool,
) -> list[Row]:
    """The score of each on all samples, and its speed on the first of them."""
    first = found[PLAIN]
    device = next(first.model.parameters()).device
    setting = Setting(device.type, "bfloat16" if device.type == "cuda" else "float32", compile=compiled)
    samples = first.scaling(torch.from_numpy(np.resize(x, (batch, *x.shape[1:]))).to(device))
    steps, results = {}, {}
    for name, predictor in found.items():
        results[name] = predictor.score(x, y)
        steps[name] = make_step(predictor.model, [samples], 0, setting)
    times = time_steps(steps, device.type, (rounds, rounds), repeats=10 if device.type == "cuda" else 1)
    return [
        Row(
            name,
            results[name].get("flops_share", 1.0),
            results[name][metric],
            batch / statistics.median(times[name]),
            median_ratio(times[PLAIN], times[name]),
        )
        for name in found
    ]


def pareto_figure(rows: list[Row], metric: str, title: str, path: Path) -> None:
    """Every way to run the model, the score against the speed; those that no other beats in both are joined."""
    sign = -1 if metric == "rmse" else 1
    ordered = sorted(rows, key=lambda row: (-row.faster, -sign * row.score))
    front = [row for i, row in enumerate(ordered) if all(sign * (row.score - o.score) > 0 for o in ordered[:i])]
    with figure(5, 3.6) as drawing:
        axes = drawing.subplots()
        axes.plot([row.faster for row in front], [row.score for row in front], "-", color="0.7", lw=1, zorder=0)
        for row in rows:
            merging = row.name == PLAIN or row.name.startswith("r = ")
            axes.plot(row.faster, row.score, "o" if merging else "s", color="C0" if merging else "C1", ms=5)
            axes.annotate(row.name, (row.faster, row.score), (4, 4), textcoords="offset points", fontsize=7)
        axes.margins(x=0.12, y=0.12)
        axes.set(xlabel="times as fast as the run as it is", ylabel=f"test {metric}")
        axes.set_title(title, loc="left", fontsize=8)
    save(drawing, path)


def main(
    run: Annotated[Path, Positional],
    data: Annotated[str, Positional],
    target: tuple[str, ...] = (),
    merge: tuple[str, ...] = (),
    pruned: tuple[Path, ...] = (),
    samples: int = 10_000,
    batch: int = 64,
    rounds: int = 10,
    device: str = "cpu",
    compile: bool = False,
    figure: Path | None = None,
) -> None:
    """Print the table.

    Args:
        run: folder of a finished run of a Vision Transformer.
        data: digits, mnist, a recipe, a folder of images or a file of spectra.
        target: the label columns, as in train.
        merge: tokens to merge in each block, or in the first ones, as 40-20; 5 to 30 % of the tokens if not given.
        pruned: runs that `vitreous prune` made of it.
        samples: of the test part that are scored, at most.
        batch: samples of a timed forward.
        rounds: timed rounds of each.
        device: cpu or cuda; on cuda in bf16.
        compile: wrap every model in torch.compile.
        figure: draw score against speed: .png, .pdf or .svg.
    """
    if figure is not None:
        check_format(figure)
    found = variants(run, merge, pruned, device)
    source = load_data(data, target)
    first = found[PLAIN]
    rows = part_rows(run, first, source, "test")[:samples]
    assert source.y is not None
    x, y, metric = first.check(first.on_axis(source)[rows]), source.y[rows], "accuracy" if source.classes else "rmse"
    measured = measure(found, x, y, metric, batch, rounds, compile)
    kind = f"{device}, {'compiled' if compile else 'eager'}, batch {batch}"
    table = Table(title=f"{run.name} on {len(rows):,} test samples; {kind}")
    for heading in ("tokens", "operations of the blocks", metric, "samples/s", "times as fast"):
        table.add_column(heading, justify="left" if heading == "tokens" else "right")
    for row in measured:
        table.add_row(row.name, f"{row.share:.1%}", f"{row.score:.4f}", f"{row.rate:,.0f}", f"{row.faster:.2f}")
    Console(width=120).print(table)
    if figure is not None:
        pareto_figure(measured, metric, f"{run.name}, {kind}", figure)
        print(f"The figure is in {figure}")


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except vt.InputError as fault:
        print(f"merging: error: {fault}", file=sys.stderr)
        sys.exit(2)
