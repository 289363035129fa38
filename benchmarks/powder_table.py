"""The source document's table (S0.8), for all seven crystal systems: its ViT, its CNN and `powder-best`.

    python -m benchmarks.powder_table --out runs/powder                       # train what is missing, print the table
    python -m benchmarks.powder_table --out runs/powder --systems cubic --models constant vit cnn best

Every model is trained on the simulator as it streams, with the effects of a laboratory diffractometer, and tested on
the same 2,000 patterns with those effects and on 2,000 clean ones. A finished entry is kept in `OUT/table.json`.
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
from vitreous.atomic import write_atomically
from vitreous.powder.cell import targets
from vitreous.powder.scores import cell_scores
from vitreous.sim.groups import SYSTEMS
from vitreous.sim.powder import CLEAN
from vitreous.sim.source import fixed
from vitreous.train import RECIPES, train

MODELS = ("constant", "vit", "cnn", "best")


def constant(truth: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The guess that ignores the pattern: the median of the training targets."""
    return np.broadcast_to(np.median(known, axis=0), truth.shape)


def entry(system: str, model: str, out: Path, changes: dict[str, int | float]) -> dict[str, dict[str, float]]:
    """Scores of one model, trained with some settings changed, on the noisy and on the clean test."""
    made = RECIPES["powder-vit" if model == "constant" else f"powder-{model}"](system=system)
    made = replace(made, train=replace(made.train, **changes))
    assert made.source.y is not None
    parts = made.source.parts
    tests = {"noisy": (made.source.x[parts["test"]], made.source.y[parts["test"]])}
    tests["clean"] = fixed(system, CLEAN, len(parts["test"]), seed=20241)
    if model == "constant":
        known = made.source.y[parts["train"]]
        return {name: cell_scores(system, y, constant(y, known)) for name, (_, y) in tests.items()}
    folder = out / f"{model}-{system}"
    result = train(made, folder, resume=True)
    predict = vt.load(folder, device="cuda" if torch.cuda.is_available() else "cpu")
    found = {}
    for name, (x, y) in tests.items():
        values = predict(x).values
        assert values is not None
        found[name] = cell_scores(system, y, values)
    about = {
        "parameters": result["parameters"],
        "seconds": result["seconds"],
        "patterns": result["steps"] * made.train.batch,
    }
    return found | {"training": about}


def show(table: dict[str, dict[str, dict[str, dict[str, float]]]]) -> None:
    """Print what is known, one row a system and model."""
    console = Console(width=150)
    for test in ("noisy", "clean"):
        shown = Table(title=f"Unit cells from powder patterns, {test} test, 2,000 patterns a system")
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
            shown.add_column(heading, justify="left" if heading in ("system", "model") else "right")
        for system in SYSTEMS:
            for model in MODELS:
                known = table.get(system, {}).get(model)
                if known is None:
                    continue
                s, training = known[test], known.get("training", {})
                angles = f"{s['mape angles']:.2%}" if len(targets(system)) > 3 else ""
                shares = [f"{s[f'within {share}%']:.1%}" for share in (5, 2, 1)]
                cost = [f"{training['patterns']:,.0f}", f"{training['seconds']:.0f}"] if training else ["", ""]
                shown.add_row(
                    system,
                    model,
                    f"{s['mape']:.2%}",
                    f"{s['mape lengths']:.2%}",
                    angles,
                    f"{s['r2']:.3f}",
                    *shares,
                    *cost,
                )
        console.print(shown)


def main(
    out: Path,
    systems: tuple[Literal[SYSTEMS], ...] = SYSTEMS,  # type: ignore[valid-type]
    models: tuple[Literal["constant", "vit", "cnn", "best"], ...] = MODELS,
    steps: int | None = None,
    batch: int | None = None,
    minutes: float | None = None,
) -> None:
    """Train what is missing and print the table.

    Args:
        out: folder of the runs and of table.json.
        systems: crystal systems.
        models: which models.
        steps: optimiser steps instead of the recipe's.
        batch: patterns of a step instead of the recipe's.
        minutes: time that each training may take; its learning rate falls with the time.
    """
    asked = {"steps": steps, "batch": batch, "minutes": minutes}
    changes = {name: value for name, value in asked.items() if value}
    path = out / "table.json"
    out.mkdir(parents=True, exist_ok=True)
    for system in systems:
        for model in models:
            table = json.loads(path.read_text()) if path.is_file() else {}
            if model in table.get(system, {}):
                continue
            started = time.monotonic()
            found = entry(system, model, out, changes)
            table = json.loads(path.read_text()) if path.is_file() else {}  # another process may have written
            table.setdefault(system, {})[model] = found
            write_atomically(path, (json.dumps(table, indent=1) + "\n").encode())
            print(f"{system} {model}: {found['noisy']['mape']:.2%} in {time.monotonic() - started:.0f} s", flush=True)
    show(json.loads(path.read_text()))


if __name__ == "__main__":
    tyro.cli(main)
