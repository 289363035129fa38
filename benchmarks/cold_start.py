"""Wall time of commands that start in a new process.

    python -m benchmarks.cold_start runs/assay spectra.csv      # predict: from a run, and from its ONNX export
    python -m benchmarks.cold_start --pattern pattern.xy        # index: compared with `import torch` plus the search

The commands alternate; the tables show medians. `import torch` is a process of its own that does nothing else, and the
time of the search is that of a second `vitreous index` in one process, when all modules are loaded.
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

_SEARCH = """
import contextlib, io, sys, time
from vitreous.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    main(["index", sys.argv[1]])
    searching = time.perf_counter()
    main(["index", sys.argv[1]])
print(time.perf_counter() - searching)
"""


def time_command(*words: str) -> tuple[float, float]:
    """Wall and processor seconds of one command of vitreous."""
    return time_python("-m", "vitreous", *words)


def time_python(*words: str) -> tuple[float, float]:
    """Wall and processor seconds of a Python process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def time_search(pattern: Path) -> float:
    """Seconds of the search in a process with all modules loaded."""
    script = [sys.executable, "-c", _SEARCH, str(pattern)]
    return float(subprocess.run(script, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


def compare_predict(run: Path, file: Path, rounds: int) -> Table:
    """Table of `vitreous predict` from a run and from its ONNX export."""
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/model.onnx"
        time_command("export", str(run), "--out", model)
        times = [[time_command("predict", path, str(file)) for path in (str(run), model)] for _ in range(rounds)]
    table = Table(title=f"vitreous predict {file.name}, median of {rounds} starts")
    for heading in ("", "run", "ONNX", "ONNX / run"):
        table.add_column(heading, justify="right" if heading else "left")
    for kind, name in enumerate(("wall", "processor")):
        pairs = [(from_run[kind], from_onnx[kind]) for from_run, from_onnx in times]
        medians = [f"{statistics.median(column):.2f} s" for column in zip(*pairs, strict=True)]
        table.add_row(name, *medians, f"{statistics.median(onnx / torch for torch, onnx in pairs):.2f}")
    return table


def compare_index(pattern: Path, rounds: int) -> Table:
    """Table of `vitreous index` beside `import torch` and the search alone."""
    rows = []
    for _ in range(rounds):
        wall, _ = time_command("index", str(pattern))
        (torch_seconds, _), search_seconds = time_python("-c", "import torch"), time_search(pattern)
        rows.append((wall, torch_seconds, search_seconds, wall / (torch_seconds + search_seconds)))
    table = Table(title=f"vitreous index {pattern.name}, median wall time of {rounds} starts")
    for heading in ("vitreous index", "import torch", "search", "index / (torch + search)"):
        table.add_column(heading, justify="right")
    *seconds, ratio = (statistics.median(column) for column in zip(*rows, strict=True))
    table.add_row(*(f"{value:.2f} s" for value in seconds), f"{ratio:.2f}")
    return table


def main(
    run: Annotated[Path | None, Positional] = None,
    file: Annotated[Path | None, Positional] = None,
    pattern: Path | None = None,
    rounds: int = 9,
) -> None:
    """Print the tables.

    Args:
        run: folder of a run.
        file: input of the prediction.
        pattern: powder pattern or list of lines to index.
        rounds: starts of each command.
    """
    console = Console(width=100)
    if run is not None and file is not None:
        console.print(compare_predict(run, file, rounds))
    if pattern is not None:
        console.print(compare_index(pattern, rounds))


if __name__ == "__main__":
    tyro.cli(main)
