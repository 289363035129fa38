"""The source document's table (S0.8), for each of the seven crystal systems and one model for all of them.

    python -m benchmarks.powder_table --out runs/powder                       # train missing models, print the table
    python -m benchmarks.powder_table --out runs/powder --systems cubic --models constant vit cnn best
    python -m benchmarks.powder_table --out runs/powder --systems all --models best --minutes 9

Every model is trained on newly simulated patterns with the effects of a laboratory diffractometer, and tested on the
same 2,000 patterns with those effects and on 2,000 clean ones. Finished entries are stored in `OUT/table.json`.
"""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

import vitreous as vt
from vitreous.core.atomic import write_atomically
from vitreous.data.source import Target
from vitreous.powder.cell import targets
from vitreous.powder.sim.effects import CLEAN
from vitreous.powder.sim.source import ALL, fixed_patterns
from vitreous.powder.sim.space_groups import SYSTEMS
from vitreous.recipes import load_recipe
from vitreous.train import train

MODELS = ("constant", "vit", "cnn", "best")
WITHIN = (0.05, 0.02, 0.01)


def _targets(system: str) -> tuple[Target, ...]:
    return targets("triclinic" if system == ALL else system)


def cell_scores(system: str, truth: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Compare predicted free parameters `(n, k)` with the true ones.

    `mape` is the mean relative error of all parameters; `within 1%` is the share of cells with no larger error.
    """
    error = np.abs(predicted.astype(float) - truth) / np.abs(truth)
    length = np.array([target.unit == "Å" for target in _targets(system)])
    spread = np.square(truth - truth.mean(axis=0)).sum(axis=0)
    r2 = 1 - np.square(predicted.astype(float) - truth).sum(axis=0) / np.maximum(spread, 1e-12)
    scores = {"mape": float(error.mean()), "mape lengths": float(error[:, length].mean())}
    scores["mape angles"] = float(error[:, ~length].mean()) if (~length).any() else float("nan")
    scores["r2"] = float(r2.mean())
    return scores | {f"within {limit:.0%}": float((error <= limit).all(axis=1).mean()) for limit in WITHIN}


def predict_median(truth: np.ndarray, training: np.ndarray) -> np.ndarray:
    """Predictions that ignore the pattern: the median of the training targets."""
    return np.broadcast_to(np.median(training, axis=0), truth.shape)


def score_model(system: str, model: str, out: Path, changes: dict[str, int | float]) -> dict[str, dict[str, float]]:
    """Train one model with changed settings and score it on the noisy and on the clean test."""
    job = load_recipe("powder-vit" if model == "constant" else f"powder-{model}").create(system=system)
    job = replace(job, settings=replace(job.settings, **changes))
    assert job.source.y is not None
    parts = job.source.parts
    tests = {"noisy": (job.source.x[parts["test"]], job.source.y[parts["test"]])}
    tests["clean"] = fixed_patterns(system, CLEAN, len(parts["test"]), seed=20241)
    if model == "constant":
        training = job.source.y[parts["train"]]
        return {name: cell_scores(system, y, predict_median(y, training)) for name, (_, y) in tests.items()}
    folder = out / f"{model}-{system}"
    result = train(job, folder, resume=True)
    predict = vt.load(folder, device="cuda" if torch.cuda.is_available() else "cpu")
    scores = {}
    for name, (x, y) in tests.items():
        values = predict(x).values
        assert values is not None
        scores[name] = cell_scores(system, y, values)
    training = {
        "parameters": result["parameters"],
        "seconds": result["seconds"],
        "patterns": result["steps"] * job.settings.batch,
    }
    return scores | {"training": training}


def print_table(table: dict[str, dict[str, dict[str, dict[str, float]]]]) -> None:
    """Print the finished entries, one row per system and model."""
    console = Console(width=150)
    for test in ("noisy", "clean"):
        grid = Table(title=f"Unit cells from powder patterns, {test} test, 2,000 patterns per system")
        columns = (
            "system",
            "model",
            "MAPE",
            "lengths",
            "angles",
            "R²",
            "≤ 5 %",
            "≤ 2 %",
            "≤ 1 %",
            "patterns",
            "seconds",
        )
        for heading in columns:
            grid.add_column(heading, justify="left" if heading in ("system", "model") else "right")
        for system in (*SYSTEMS, ALL):
            for model in MODELS:
                entry = table.get(system, {}).get(model)
                if entry is None:
                    continue
                s, training = entry[test], entry.get("training", {})
                angles = f"{s['mape angles']:.2%}" if len(_targets(system)) > 3 else ""
                shares = [f"{s[f'within {share}%']:.1%}" for share in (5, 2, 1)]
                cost = [f"{training['patterns']:,.0f}", f"{training['seconds']:.0f}"] if training else ["", ""]
                grid.add_row(
                    system,
                    model,
                    f"{s['mape']:.2%}",
                    f"{s['mape lengths']:.2%}",
                    angles,
                    f"{s['r2']:.3f}",
                    *shares,
                    *cost,
                )
        console.print(grid)


def main(
    out: Path,
    systems: tuple[Literal[(*SYSTEMS, ALL)], ...] = (*SYSTEMS, ALL),  # type: ignore[valid-type]
    models: tuple[Literal["constant", "vit", "cnn", "best"], ...] = MODELS,
    steps: int | None = None,
    batch: int | None = None,
    minutes: float | None = None,
) -> None:
    """Train missing models and print the table.

    Args:
        out: folder of the runs and of table.json.
        systems: crystal systems, or all: one model for all of them, with the six parameters as its answer.
        models: which models.
        steps: optimiser steps instead of the recipe's.
        batch: patterns of a step instead of the recipe's.
        minutes: time that each training may take; its learning rate falls with the time.
    """
    settings = {"steps": steps, "batch": batch, "minutes": minutes}
    changes = {name: value for name, value in settings.items() if value}
    path = out / "table.json"
    out.mkdir(parents=True, exist_ok=True)
    for system in systems:
        for model in models:
            table = json.loads(path.read_text()) if path.is_file() else {}
            if model in table.get(system, {}):
                continue
            started = time.monotonic()
            scores = score_model(system, model, out, changes)
            table = json.loads(path.read_text()) if path.is_file() else {}  # another process may have written
            table.setdefault(system, {})[model] = scores
            write_atomically(path, (json.dumps(table, indent=1) + "\n").encode())
            print(f"{system} {model}: {scores['noisy']['mape']:.2%} in {time.monotonic() - started:.0f} s", flush=True)
    print_table(json.loads(path.read_text()))


if __name__ == "__main__":
    tyro.cli(main)
