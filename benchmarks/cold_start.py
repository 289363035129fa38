"""How long `vitreous predict` takes from nothing to an answer: from a run, and from its ONNX export, alternating.

    python -m benchmarks.cold_start runs/assay spectra.csv

Each start is a process of its own; the table gives the medians of wall and processor time.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional


def start(*words: str) -> tuple[float, float]:
    """Wall and processor seconds of one command."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "vitreous", *words], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(run: Annotated[Path, Positional], file: Annotated[Path, Positional], rounds: int = 9) -> None:
    """Print the table.

    Args:
        run: folder of a run.
        file: that it predicts.
        rounds: starts of each.
    """
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/model.onnx"
        start("export", str(run), "--out", model)
        times = [[start("predict", path, str(file)) for path in (str(run), model)] for _ in range(rounds)]
    table = Table(title=f"vitreous predict {file.name}, median of {rounds} starts")
    for heading in ("", "run", "ONNX", "ONNX / run"):
        table.add_column(heading, justify="right" if heading else "left")
    for kind, name in enumerate(("wall", "processor")):
        pairs = [(a[kind], b[kind]) for a, b in times]
        medians = [f"{statistics.median(column):.2f} s" for column in zip(*pairs, strict=True)]
        table.add_row(name, *medians, f"{statistics.median(b / a for a, b in pairs):.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    tyro.cli(main)
