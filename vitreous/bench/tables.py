"""The tables of `vitreous bench`."""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from vitreous.bench.measure import PREDICT, measure, resolve_model
from vitreous.bench.peers import OURS
from vitreous.bench.timing import Setting
from vitreous.core.terminal import console
from vitreous.train.device import pick_device, pick_precision


def print_bench(
    what: str, batches: Sequence[int], device: str, precision: str, train: bool, compile: bool, as_json: bool
) -> None:
    """Measure a run or a named model and print the results; a progress bar is shown meanwhile."""
    device = pick_device(device)
    setting = Setting(device, pick_precision(precision, device), train, compile)
    subject = resolve_model(what, device)
    bar = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=bar, transient=True, disable=not bar.is_terminal) as progress:
        task = progress.add_task("", total=1.0)

        def show_progress(stage: str, share: float) -> None:
            progress.update(task, description=stage, completed=share)

        result = measure(subject, batches, setting, show_progress)
    if as_json:
        print(json.dumps(result, indent=1))
        return
    screen = console()
    screen.print(_speed(result))
    for library, why in result["notes"].items():
        screen.print(f"{library}: {why}", highlight=False)
    if any(row["library"] == PREDICT for row in result["rows"]):
        screen.print(f"{PREDICT}: checks, scaling, model in float32, units: as vitreous predict does", highlight=False)
    screen.print(_floors(result))


def _speed(result: Mapping[str, Any]) -> Table:
    threads, mode = result["threads"], "compiled" if result["compile"] else "eager"
    where = "GPU" if result["device"] == "cuda" else f"CPU, {threads} thread{'s' * (threads != 1)}"
    kind = "training step" if result["train"] else "forward"
    table = Table(
        title=f"{result['model']}: {kind}, {result['precision']}, {mode}, {where}",
        caption="memory: at the peak; × ours: median over the rounds of time / ours; above 1 ours is faster",
    )
    for heading in ("batch", "library", "median", "p90", "samples\n/ s", "memory\nMiB", "share\nof peak", "×\nours"):
        table.add_column(heading, justify="left" if heading == "library" else "right", no_wrap=True)
    for batch, rows in groupby(result["rows"], itemgetter("batch")):
        for row in rows:
            library, rate, peak = row["library"], row["samples_per_second"], row["peak_memory_bytes"]
            times = format_time(row["median_seconds"]), format_time(row["p90_seconds"])
            speed = f"{rate:.3g}" if rate < 100 else f"{rate:,.0f}"
            memory = "" if peak is None else format_size(peak).removesuffix(" MiB")
            shares = f"{row['share_of_peak']:.1%}", f"{row['time_over_ours']:.2f}"
            table.add_row(f"{batch:,}" if library == OURS else "", library, *times, speed, memory, *shares)
        table.add_section()
    return table


def _floors(result: Mapping[str, Any]) -> Table:
    """Lower bounds on the time of a step, next to the measured time."""
    moved = "weights, gradients, moments" if result["train"] else "weights"
    table = Table(
        title="What this machine could do",
        caption=f"{result['peak_flops_per_second'] / 1e9:,.0f} GFLOP/s by a large product in {result['precision']}, "
        f"{result['peak_bytes_per_second'] / 1e9:,.1f} GB/s by a large copy\n{result['parameters']:,} parameters, "
        f"{result['flops_per_sample'] / 1e9:,.3g} GFLOPs a sample\nbytes: {moved}, input, output",
    )
    for heading in ("batch", "FLOPs / rate", "bytes / bandwidth", "ours", "ours / higher floor"):
        table.add_column(heading, justify="right")
    ours = {row["batch"]: row["median_seconds"] for row in result["rows"] if row["library"] == OURS}
    for floor in result["floors"]:
        seconds = floor["flops_seconds"], floor["bytes_seconds"], ours[floor["batch"]]
        table.add_row(f"{floor['batch']:,}", *map(format_time, seconds), f"{seconds[2] / max(seconds[:2]):.1f} ×")
    return table


def format_time(seconds: float) -> str:
    """Three digits, in µs, ms or s.

    >>> format_time(0.01234)
    '12.3 ms'
    """
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:,.0f} {unit}" if seconds * scale >= 100 else f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def format_size(count: float) -> str:
    """Bytes in MiB.

    >>> format_size(3.5e9)
    '3,338 MiB'
    """
    size = count / 2**20
    return f"{size:,.0f} MiB" if size >= 10 else f"{size:.1f} MiB"
