"""Chirps: detection efficiency of networks beside matched filtering, which is the known optimum, on the same segments.

    python -m benchmarks.detection --device cuda --out detection.json            # a GPU
    python -m benchmarks.detection --runs runs/vit runs/cnn --noise 2000         # of runs that there are
    python -m benchmarks.detection --models --noise 4000 --signals 500           # the matched filters alone

Thresholds are set on `--noise` segments without a signal, once for each rate of false alarms; the efficiency is the
share of `--signals` chirps of each signal-to-noise ratio above them, and of chirps as simulated, of all ratios.
Errors are binomial; that of the threshold comes to all detectors alike, since they hear the same noise.
"""

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from vitreous.atomic import write_atomically
from vitreous.gallery.chirps import SNR, chirps_of, network
from vitreous.sim.chirps import Chirps
from vitreous.sim.templates import Bank, Detector, compared, known
from vitreous.train import load, train
from vitreous.train.device import pick_device
from vitreous.train.recipes.series import chirps as recipe

BEST = "averaged likelihood ratio"
KNOWN = "known template"


def trained(models: tuple[str, ...], steps: int | None, seed: int, device: str, folder: Path) -> list[Path]:
    """Runs of the recipe, one a model."""
    runs = []
    for model in models:
        made = recipe(model)
        changes = {"steps": steps, "seed": seed}
        settings = replace(made.train, **{name: value for name, value in changes.items() if value is not None})
        result = train(replace(made, train=settings), folder / model, device=device, bar=False)
        print(f"{model}: {result['parameters']:,} parameters, {result['seconds']:.0f} s, {result['test']}", flush=True)
        runs.append(folder / model)
    return runs


def main(
    models: tuple[Literal["vit", "cnn"], ...] = ("vit", "cnn"),
    runs: tuple[Path, ...] = (),
    steps: int | None = None,
    noise: int = 200_000,
    signals: int = 5000,
    false_alarms: tuple[float, ...] = (0.01, 0.001),
    templates: int = 96,
    seed: int = 0,
    device: str = "auto",
    out: Path | None = None,
) -> None:
    """Train, compare, print a table for each rate of false alarms and write them as JSON.

    Args:
        models: that are trained; none with `runs`.
        runs: finished runs of the recipe `chirps`, in place of training.
        steps: of a training; the recipe's own if none.
        noise: segments without a signal.
        signals: segments with a signal, of each signal-to-noise ratio.
        false_alarms: shares of the noise that may be taken for a signal.
        templates: in the bank.
        seed: of trainings and segments.
        device: cpu or cuda.
        out: JSON file of the results.
    """
    place = pick_device(device)
    with tempfile.TemporaryDirectory() as folder:
        found = runs or trained(models, steps, seed, device, Path(folder))
        predictors = {run.name: load(run, place) for run in found}
    signal = next((chirps_of(predictor) for predictor in predictors.values()), Chirps())
    bank = Bank(signal, templates, place)
    detectors: dict[str, Detector] = {name: network(predictor) for name, predictor in predictors.items()}
    detectors |= {f"matched filter, bank of {templates}": bank.loudest, BEST: bank.log_likelihood_ratio}
    clocks = {name: Timed(detector, place) for name, detector in detectors.items()}
    torch.manual_seed(seed + 1)
    rows = compared(clocks, signal, (*SNR, None), noise, signals, false_alarms, place)
    all_sizes = torch.linspace(*signal.snr, 1000)
    rows[KNOWN] = {
        rate: [*known(torch.tensor(SNR), rate).tolist(), known(all_sizes, rate).mean().item()] for rate in false_alarms
    }
    for rate in false_alarms:
        show({name: found[rate] for name, found in rows.items()}, rate, signals, clocks, signal)
    if out is not None:
        about = {"snr": [*SNR, signal.snr], "noise": noise, "signals": signals, "efficiency": rows}
        write_atomically(out, (json.dumps(about, indent=1) + "\n").encode())


class Timed:
    """A detector, and how long a segment takes it."""

    def __init__(self, detector: Detector, device: str) -> None:
        self.detector, self.device, self.seconds, self.segments = detector, device, 0.0, 0

    def __call__(self, segments: torch.Tensor) -> torch.Tensor:
        begun = self._now()
        found = self.detector(segments)
        self.seconds, self.segments = self.seconds + self._now() - begun, self.segments + len(segments)
        return found

    def _now(self) -> float:
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


def show(rows: dict[str, list[float]], rate: float, signals: int, clocks: dict[str, Timed], chirps: Chirps) -> None:
    """Efficiencies in %, a column for each signal-to-noise ratio, and the largest distance from the optimum."""
    table = Table(title=f"Chirps found, in %, at {100 * rate:g} % false alarms per segment")
    sizes = (*(f"ρ = {snr:g}" for snr in SNR), "ρ = {:g} to {:g}".format(*chirps.snr))
    for heading in ("detector", *sizes, "furthest below the optimum", "μs a segment"):
        table.add_column(heading, justify="left" if heading == "detector" else "right")
    best = np.array(rows[BEST])
    for name, found in rows.items():
        below = max(0.0, (best - np.array(found)).max())
        speed = f"{1e6 * clocks[name].seconds / clocks[name].segments:.1f}" if name in clocks else ""
        table.add_row(name, *(f"{100 * s:.1f}" for s in found), f"{100 * below:.1f}" if name != KNOWN else "", speed)
    table.caption = f"binomial errors are up to {50 / signals**0.5:.1f}"
    Console(width=150).print(table)


if __name__ == "__main__":
    tyro.cli(main)
