"""Light curves: a transformer, Deep Sets and the field's classical method, boosted trees on hand-made features.

    python -m benchmarks.light_curves --device cuda --out light_curves.json      # a GPU
    python -m benchmarks.light_curves --models trees --curves 10000              # the baseline alone, on a CPU

All are scored on the same simulated curves. The trees learn from `--curves` further ones, the networks from new ones at
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

from vitreous.core.atomic import write_atomically
from vitreous.data import Source
from vitreous.data.simulated import fixed_samples
from vitreous.gallery.light_curves.simulate import BANDS
from vitreous.gallery.light_curves.source import SYSTEMS, unscale_flux
from vitreous.recipes import load_recipe
from vitreous.train import train

Model = Literal["trees", "deep-sets", "vit"]
_TREE_SEED = 1 << 20  # added to the seed: training curves of the trees differ from the test curves
_EDGES = (-30.0, 0.0, 8.0, 16.0, 28.0, 45.0, 70.0, 130.0)  # days from the first detection


def features(x: NDArray[Any]) -> NDArray[np.float64]:
    """Hand-made features `(n, K)` of packed curves `(n, rows, visits)`; undefined ones are nan.

    For each band: the peak flux and its day, the days above half of the peak before and after it, the fraction of
    detections, and the mean flux in bins of time. For neighbouring bands: the colour at the peak and in each bin.
    """
    flux, error = (unscale_flux(torch.from_numpy(x[:, row]).double()).numpy() for row in (0, 1))
    days = x[:, -1].astype(np.float64)
    columns, binned = [], []
    for number in range(len(BANDS)):
        present = x[:, 2 + number] > 0
        top = np.where(present, flux, -np.inf).argmax(1)[:, None]
        peak = np.take_along_axis(flux, top, 1)
        peak_day = np.take_along_axis(days, top, 1)
        half = present & (flux > peak / 2)
        before, after = (_largest(half, sign * (days - peak_day)) for sign in (-1, 1))
        detected = (present & (flux > 5 * error)).sum(1) / np.maximum(1, present.sum(1))
        means = np.stack(
            [_mean(flux, present & (days >= low) & (days < high)) for low, high in pairwise(_EDGES)], axis=1
        )
        observed = present.any(1)
        own = np.column_stack([np.arcsinh(peak[:, 0]), peak_day[:, 0], before, after, detected, present.sum(1)])
        columns.append(np.where(observed[:, None], own, np.nan))
        binned.append(np.column_stack([np.where(observed, peak[:, 0], np.nan), means]))
    scaled = np.stack([np.arcsinh(values) for values in binned])  # (bands, n, 1 + bins)
    colours = [blue - red for blue, red in pairwise(scaled)]
    return np.column_stack([*columns, *scaled[:, :, 1:], *colours])


def _mean(values: NDArray[Any], chosen: NDArray[Any]) -> NDArray[Any]:
    """Mean of the chosen values of each row; nan where there are none."""
    count = chosen.sum(1)
    return np.where(count > 0, (values * chosen).sum(1) / np.maximum(1, count), np.nan)


def _largest(chosen: NDArray[Any], distance: NDArray[Any]) -> NDArray[Any]:
    return np.where(chosen, distance, 0.0).max(1)


def trees(source: Source, system: str, curves: int, seed: int = 0, rounds: int = 300) -> dict[str, float]:
    """Scores of boosted trees on the test part; intervals of redshifts are calibrated quantile predictions."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    fresh = source.fresh
    assert fresh is not None
    assert source.y is not None
    x, y = fixed_samples(lambda count: fresh(count, torch.device("cpu")), curves, seed + _TREE_SEED)
    inputs = features(x)
    test, validation = source.parts["test"], source.parts["validation"]
    common: dict[str, Any] = {"max_iter": rounds, "learning_rate": 0.08, "random_state": seed}
    if system == "class":
        forest = HistGradientBoostingClassifier(**common).fit(inputs, y)
        return {"accuracy": float((forest.predict(features(source.x[test])) == source.y[test]).mean())}
    middle, low, high = (
        HistGradientBoostingRegressor(**common, **loss).fit(inputs, y[:, 0])
        for loss in ({}, {"loss": "quantile", "quantile": 0.05}, {"loss": "quantile", "quantile": 0.95})
    )

    def outside(rows: NDArray[Any]) -> NDArray[Any]:
        """Distance of the truth from the interval, negative inside."""
        f, truth = features(source.x[rows]), source.y[rows][:, 0]  # type: ignore[index]
        return np.maximum(low.predict(f) - truth, truth - high.predict(f))

    distances = np.sort(outside(validation))
    margin = distances[min(len(distances) - 1, int(np.ceil(0.9 * (len(distances) + 1))) - 1)]
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
        systems: class, redshift or both.
        models: models to compare.
        curves: number of training curves of the trees.
        steps: training steps of a network; by default those of the recipe.
        batch: curves per step; by default those of the recipe.
        seed: of trainings and of the trees' curves.
        device: cpu or cuda.
        out: JSON file of the results.
    """
    rows: dict[str, dict[str, float]] = {}
    for system in systems:
        for model in models:
            start = time.monotonic()
            training = load_recipe("light-curves").create("vit" if model == "trees" else model, system)
            size = len(training.source.parts["test"])
            if model == "trees":
                scores = trees(training.source, system, curves, seed)
            else:
                changes = {"steps": steps, "batch": batch, "seed": seed}
                settings = replace(
                    training.settings, **{name: value for name, value in changes.items() if value is not None}
                )
                with tempfile.TemporaryDirectory() as folder:
                    result = train(replace(training, settings=settings), Path(folder) / "run", device=device, bar=False)
                scores = result["test"] | {"parameters": result["parameters"]}
            rows[f"{system}, {model}"] = scores | {"seconds": time.monotonic() - start, "curves": size}
            print(f"{system}, {model}: {scores}", flush=True)
    show(rows)
    if out is not None:
        write_atomically(out, (json.dumps(rows, indent=1) + "\n").encode())


def show(rows: dict[str, dict[str, float]]) -> None:
    """Print one row per system and model."""
    table = Table(title="Light curves of supernovae, test part")
    for heading in ("question, model", "parameters", "accuracy", "MAE of z", "RMSE of z", "in 90 % intervals", "time"):
        table.add_column(heading, justify="left" if heading.startswith("question") else "right")
    for name, scores in rows.items():
        table.add_row(
            name,
            f"{scores['parameters']:,}" if "parameters" in scores else "",
            _share(scores, "accuracy"),
            f"{scores['mae']:.4f}" if "mae" in scores else "",
            f"{scores['rmse']:.4f}" if "rmse" in scores else "",
            _share(scores, "coverage90"),
            f"{scores['seconds']:.0f} s",
        )
    Console(width=120).print(table)


def _share(scores: dict[str, float], name: str) -> str:
    if name not in scores:
        return ""
    share = scores[name]
    return f"{100 * share:.1f} ± {100 * np.sqrt(share * (1 - share) / scores['curves']):.1f} %"


if __name__ == "__main__":
    tyro.cli(main)
