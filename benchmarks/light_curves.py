"""Light curves: a transformer beside Deep Sets and the field's classical way, boosted trees on hand-made features.

    python -m benchmarks.light_curves --device cuda --out light_curves.json      # a GPU
    python -m benchmarks.light_curves --models trees --curves 10000              # the baseline alone, on a CPU

All are scored on the same simulated curves. The trees learn from `--curves` of them, the networks from new ones at
every step. Errors of the accuracy and the coverage are binomial.
"""

import json
import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from vitreous.atomic import write_atomically
from vitreous.data import Source
from vitreous.sim.curves import SYSTEMS, unscaled
from vitreous.sim.drawn import drawn
from vitreous.sim.supernovae import BANDS
from vitreous.train import train
from vitreous.train.recipes.series import light_curves

Model = Literal["trees", "deep-sets", "vit"]
_OWN = 1 << 20  # added to the seed: what the trees learn from is drawn apart from what they are tested on
ENDS = (-30.0, 0.0, 8.0, 16.0, 28.0, 45.0, 70.0, 130.0)  # days about the first detection


def features(x: NDArray[Any]) -> NDArray[np.float64]:
    """Hand-made features `(n, K)` of packed curves `(n, rows, visits)`; what cannot be told is missing.

    For each band: the highest flux, when it was, the days that it was above half of that before and after it, the share
    of detections, and the mean flux in spans of time. Of each two neighbouring bands: the colour at the top, and in
    each span.
    """
    flux, error = (unscaled(torch.from_numpy(x[:, row]).double()).numpy() for row in (0, 1))
    days, found = x[:, -1].astype(np.float64), []
    spans = []
    for number in range(len(BANDS)):
        there = x[:, 2 + number] > 0
        seen = np.where(there, flux, -np.inf)
        top = seen.argmax(1)[:, None]
        peak = np.take_along_axis(flux, top, 1)
        when = np.take_along_axis(days, top, 1)
        half = there & (flux > peak / 2)
        before, after = (_furthest(half, sign * (days - when)) for sign in (-1, 1))
        detected = (there & (flux > 5 * error)).sum(1) / np.maximum(1, there.sum(1))
        each = np.stack([_mean(flux, there & (days >= low) & (days < high)) for low, high in pairwise(ENDS)], axis=1)
        some = there.any(1)
        own = np.column_stack([np.arcsinh(peak[:, 0]), when[:, 0], before, after, detected, there.sum(1)])
        found.append(np.where(some[:, None], own, np.nan))
        spans.append(np.column_stack([np.where(some, peak[:, 0], np.nan), each]))
    bright = np.stack([np.arcsinh(each) for each in spans])  # (bands, n, 1 + spans)
    colours = [blue - red for blue, red in pairwise(bright)]
    return np.column_stack([*found, *bright[:, :, 1:], *colours])


def _mean(values: NDArray[Any], chosen: NDArray[Any]) -> NDArray[Any]:
    """Of the chosen values of each row; missing where none are."""
    count = chosen.sum(1)
    return np.where(count > 0, (values * chosen).sum(1) / np.maximum(1, count), np.nan)


def _furthest(chosen: NDArray[Any], distance: NDArray[Any]) -> NDArray[Any]:
    return np.where(chosen, distance, 0.0).max(1)


def trees(source: Source, system: str, curves: int, seed: int = 0, rounds: int = 300) -> dict[str, float]:
    """Scores of boosted trees on the source's test part; a redshift's interval is between two quantiles, calibrated."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    fresh = source.fresh
    assert fresh is not None
    assert source.y is not None
    x, y = drawn(lambda count: fresh(count, torch.device("cpu")), curves, seed + _OWN)
    known = features(x)
    test, validation = source.parts["test"], source.parts["validation"]
    common: dict[str, Any] = {"max_iter": rounds, "learning_rate": 0.08, "random_state": seed}
    if system == "class":
        forest = HistGradientBoostingClassifier(**common).fit(known, y)
        return {"accuracy": float((forest.predict(features(source.x[test])) == source.y[test]).mean())}
    middle, low, high = (
        HistGradientBoostingRegressor(**common, **asked).fit(known, y[:, 0])
        for asked in ({}, {"loss": "quantile", "quantile": 0.05}, {"loss": "quantile", "quantile": 0.95})
    )

    def outside(rows: NDArray[Any]) -> NDArray[Any]:
        """How far the truth is outside the interval, negative inside."""
        f, truth = features(source.x[rows]), source.y[rows][:, 0]  # type: ignore[index]
        return np.maximum(low.predict(f) - truth, truth - high.predict(f))

    held = np.sort(outside(validation))
    margin = held[min(len(held) - 1, int(np.ceil(0.9 * (len(held) + 1))) - 1)]
    error = middle.predict(features(source.x[test])) - source.y[test][:, 0]
    return {
        "mae": float(np.abs(error).mean()),
        "rmse": float(np.sqrt(np.square(error).mean())),
        "coverage90": float((outside(test) <= margin).mean()),
    }


def main(
    systems: tuple[Literal["class", "redshift"], ...] = SYSTEMS,  # type: ignore[assignment]
    models: tuple[Model, ...] = ("trees", "deep-sets", "vit"),
    curves: int = 100_000,
    steps: int | None = None,
    batch: int | None = None,
    seed: int = 0,
    device: str = "auto",
    out: Path | None = None,
) -> None:
    """Train each model for each question, print the table and write it as JSON.

    Args:
        systems: what is asked.
        models: what answers.
        curves: that the trees learn from.
        steps: of a network's training; the recipe's own if none.
        batch: curves of a step; the recipe's own if none.
        seed: of all that is drawn.
        device: cpu or cuda.
        out: JSON file of the results.
    """
    rows: dict[str, dict[str, float]] = {}
    for system in systems:
        for model in models:
            begun = time.monotonic()
            made = light_curves("vit" if model == "trees" else model, system)
            size = len(made.source.parts["test"])
            if model == "trees":
                found = trees(made.source, system, curves, seed)
            else:
                changes = {"steps": steps, "batch": batch, "seed": seed}
                settings = replace(made.train, **{name: value for name, value in changes.items() if value is not None})
                with tempfile.TemporaryDirectory() as folder:
                    result = train(replace(made, train=settings), Path(folder) / "run", device=device, bar=False)
                found = result["test"] | {"parameters": result["parameters"]}
            rows[f"{system}, {model}"] = found | {"seconds": time.monotonic() - begun, "curves": size}
            print(f"{system}, {model}: {found}", flush=True)
    show(rows)
    if out is not None:
        write_atomically(out, (json.dumps(rows, indent=1) + "\n").encode())


def show(rows: dict[str, dict[str, float]]) -> None:
    """One row for each question and model."""
    table = Table(title="Light curves of supernovae, test part")
    for heading in ("question, model", "parameters", "accuracy", "MAE of z", "RMSE of z", "in 90 % intervals", "time"):
        table.add_column(heading, justify="left" if heading.startswith("question") else "right")
    for name, found in rows.items():
        table.add_row(
            name,
            f"{found['parameters']:,}" if "parameters" in found else "",
            _share(found, "accuracy"),
            f"{found['mae']:.4f}" if "mae" in found else "",
            f"{found['rmse']:.4f}" if "rmse" in found else "",
            _share(found, "coverage90"),
            f"{found['seconds']:.0f} s",
        )
    Console(width=120).print(table)


def _share(found: dict[str, float], name: str) -> str:
    if name not in found:
        return ""
    share = found[name]
    return f"{100 * share:.1f} ± {100 * np.sqrt(share * (1 - share) / found['curves']):.1f} %"


if __name__ == "__main__":
    tyro.cli(main)
