"""Prediction on a CPU: a run in timm, here, as ONNX and as int8, with the accuracy of each, alternating in one process.

    python -m benchmarks.inference_cpu runs/mnist --data mnist
    python -m benchmarks.inference_cpu runs/mnist --data mnist --compile --rounds 25

All contenders have the run's weights and take raw samples. In each round every one of them takes one timed step, in an
order drawn anew. The table gives median times and the median over rounds of (reference's time / its own): above 1 it is
faster than the reference, which is timm where timm has such a model, and ours in eager mode where it has not.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from tyro.conf import Positional

from tests.peers.path import add_peers
from vitreous.bench.peers import build
from vitreous.bench.timing import median_ratio, time_steps
from vitreous.export.int8 import CALIBRATION, to_int8
from vitreous.export.onnx_file import to_onnx
from vitreous.nn import ViTConfig
from vitreous.recipes.jobs import load_run_data, part_rows
from vitreous.run.answers import evenly, outputs
from vitreous.run.onnx import open_onnx
from vitreous.run.predictor import Predictor, load
from vitreous.zoo.layouts import to_timm

_REPEATS = {1: 30}  # steps that are timed together, where one alone is too short


@dataclass(frozen=True)
class Contender:
    """Raw outputs `(n, K)` for raw samples `(n, channels, *grid)`: of one batch, and of many samples."""

    step: Callable[[NDArray[Any]], object]
    outputs: Callable[[NDArray[Any]], Tensor]


def in_torch(model: nn.Module, predictor: Predictor) -> Contender:
    """A torch model behind the run's scaling."""

    def step(x: NDArray[Any]) -> None:
        with torch.no_grad():
            model(predictor.scaling(torch.from_numpy(x)))

    return Contender(step, lambda x: outputs(model, x, np.arange(len(x)), predictor.scaling))


def in_onnx(content: bytes, threads: int) -> Contender:
    """An exported model, which scales by itself."""
    session = open_onnx(content, threads)
    return Contender(session.outputs, lambda x: torch.from_numpy(session.outputs(x)))


def timm_model(predictor: Predictor) -> nn.Module | None:
    """timm's model with the run's weights, where timm has such a one."""
    model, c = predictor.model, predictor.model.config
    if not isinstance(c, ViTConfig) or len(c.grid) != 2:
        return None
    try:
        add_peers()
        found = build("timm", c)
        weights = to_timm(model)  # type: ignore[arg-type]
    except (ImportError, ValueError):
        return None
    found.get_submodule("model").load_state_dict(weights)
    return found.eval()


def main(
    run: Annotated[Path, Positional],
    data: str,
    target: tuple[str, ...] = (),
    batches: tuple[int, ...] = (1, 64),
    rounds: int = 15,
    threads: int = 1,
    compile: bool = False,
) -> None:
    """Print the table.

    Args:
        run: folder of a run.
        data: labelled data, as in `vitreous eval`.
        target: its label columns.
        batches: samples predicted together.
        rounds: timed rounds.
        threads: of torch and of onnxruntime.
        compile: also with torch.compile.
    """
    torch.set_num_threads(threads)
    predictor, source = load(run), load_run_data(run, data, target)
    train, test = (part_rows(run, predictor, source, part) for part in ("train", "test"))
    samples = predictor.on_axis(source)
    x, shown = predictor.check(samples[test]), samples[train[evenly(len(train), CALIBRATION)]]
    assert source.y is not None
    truth = predictor.task.encode(source.y[test])
    exported = to_onnx(predictor)
    peer = timm_model(predictor)
    rivals = {"timm, eager": in_torch(peer, predictor)} if peer is not None else {}
    rivals["ours, eager"] = in_torch(predictor.model, predictor)
    if compile:
        rivals["ours, torch.compile"] = in_torch(torch.compile(predictor.model, dynamic=False), predictor)  # type: ignore[arg-type]
    rivals["ours, ONNX float32"] = in_onnx(exported, threads)
    rivals["ours, ONNX int8"] = in_onnx(to_int8(exported, predictor, shown), threads)
    score = "rmse" if source.targets else "accuracy"
    first = next(iter(rivals))
    table = Table(title=f"{run.name}: {threads} thread(s), median of {rounds} rounds, {score} on {len(x):,} samples")
    for heading in ("contender", *(f"batch {b}: time ({first} = 1)" for b in batches), score):
        table.add_column(heading, justify="left" if heading == "contender" else "right")
    times = {}
    for batch in batches:
        steps = {name: (lambda r=rival, b=batch: r.step(x[:b])) for name, rival in rivals.items()}
        times[batch] = time_steps(steps, "cpu", (rounds, rounds), repeats=_REPEATS.get(batch, 1))
    for name, rival in rivals.items():
        cells = []
        for batch in batches:
            ours = times[batch][name]
            cells.append(f"{statistics.median(ours) * 1e3:.2f} ms ({median_ratio(times[batch][first], ours):.2f} ×)")
        table.add_row(name, *cells, f"{predictor.task.metrics(rival.outputs(x), truth)[score]:.4f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    tyro.cli(main)
