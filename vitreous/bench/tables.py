"""The tables of `vitreous bench`."""

import json
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from vitreous.bench.measure import PREDICT, Result, measure, resolve_model
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
        print(json.dumps(result.to_dict(), indent=1))
        return
    screen = console()
    screen.print(_speed(result))
    for library, why in result.notes.items():
        screen.print(f"{library}: {why}", highlight=False)
    if any(row.library == PREDICT for row in result.rows):
        screen.print(f"{PREDICT}: checks, scaling, model in float32, units: as vitreous predict does", highlight=False)
    screen.print(_floors(result))


def _speed(result: Result) -> Table:
    s = result.setting
    where = "GPU" if s.device == "cuda" else f"CPU, {result.threads} thread{'s' * (result.threads != 1)}"
    kind = "training step" if s.train else "forward"
    table = Table(
        title=f"{result.name}: {kind}, {s.precision}, {'compiled' if s.compile else 'eager'}, {where}",
        caption="memory: at the peak; × ours: median over the rounds of time / ours; above 1 ours is faster",
    )
    for heading in ("batch", "library", "median", "p90", "samples\n/ s", "memory\nMiB", "share\nof peak", "×\nours"):
        table.add_column(heading, justify="left" if heading == "library" else "right", no_wrap=True)
    for batch, rows in groupby(result.rows, attrgetter("batch")):
        for row in rows:
            first = f"{batch:,}" if row.library == OURS else ""
            rate = f"{row.rate:.3g}" if row.rate < 100 else f"{row.rate:,.0f}"
            memory = "" if row.memory is None else format_size(row.memory).removesuffix(" MiB")
            times = format_time(row.median), format_time(row.p90)
            table.add_row(first, row.library, *times, rate, memory, f"{result.share(row):.1%}", f"{row.ratio:.2f}")
        table.add_section()
    return table


def _floors(result: Result) -> Table:
    """Lower bounds on the time of a step, next to the measured time."""
    work, rates = result.work, result.peak_rates
    moved = "weights, gradients, moments" if result.setting.train else "weights"
    table = Table(
        title="What this machine could do",
        caption=f"{rates.flops / 1e9:,.0f} GFLOP/s by a large product in {result.setting.precision}, "
        f"{rates.bytes / 1e9:,.1f} GB/s by a large copy\n{work.parameters:,} parameters, "
        f"{work.flops / 1e9:,.3g} GFLOPs a sample\nbytes: {moved}, input, output",
    )
    for heading in ("batch", "FLOPs / rate", "bytes / bandwidth", "ours", "ours / higher floor"):
        table.add_column(heading, justify="right")
    for row in (row for row in result.rows if row.library == OURS):
        floors = work.floors(row.batch, rates)
        times = *map(format_time, floors), format_time(row.median)
        table.add_row(f"{row.batch:,}", *times, f"{row.median / max(floors):.1f} ×")
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
