"""Chirps: detection efficiency of networks and of matched filtering, the known optimum, on the same segments.

    python -m benchmarks.detection --device cuda --out detection.json            # a GPU
    python -m benchmarks.detection --runs runs/vit runs/cnn --noise 2000         # of finished runs
    python -m benchmarks.detection --models --noise 4000 --signals 500           # the matched filters alone

Thresholds are set on `--noise` segments without a signal, for each rate of false alarms. The efficiency is the fraction
of `--signals` chirps above the threshold, for each signal-to-noise ratio and for the mixture of the recipe. A second
table shows chirps of one ratio by mass: light binaries have the most cycles in a segment. Errors are binomial; the
error of the threshold is common to all detectors, because they use the same noise.
"""

import json
import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from vitreous.core.atomic import write_atomically
from vitreous.core.errors import InputError
from vitreous.gallery.chirps.figures import SNR, chirps_of, network_detector
from vitreous.gallery.chirps.matched_filter import Detector, TemplateBank, compare_detectors, known_signal_efficiency
from vitreous.gallery.chirps.simulate import Chirps
from vitreous.recipes import load_recipe
from vitreous.train import load, train
from vitreous.train.device import pick_device

BEST = "averaged likelihood ratio"
KNOWN = "known template"
Efficiencies = dict[str, dict[float, list[float]]]  # by detector and rate of false alarms


def train_models(models: tuple[str, ...], steps: int | None, seed: int, device: str, folder: Path) -> list[Path]:
    """Train each model and return the run folders."""
    runs = []
    for model in models:
        training = load_recipe("chirps").create(model)
        changes = {"steps": steps, "seed": seed}
        settings = replace(training.settings, **{name: value for name, value in changes.items() if value is not None})
        result = train(replace(training, settings=settings), folder / model, device=device, bar=False)
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
    masses: tuple[float, ...] = (5.0, 6.3, 8.0, 10.0, 14.0, 20.0),
    mass_snr: float = 5.5,
    seed: int = 0,
    device: str = "auto",
    out: Path | None = None,
) -> None:
    """Train, compare, print a table for each rate of false alarms and write them as JSON.

    Args:
        models: models to train, unless `runs` are given.
        runs: finished runs of the recipe `chirps`, in place of training.
        steps: training steps; by default those of the recipe.
        noise: number of segments without a signal.
        signals: number of segments with a signal, for each signal-to-noise ratio.
        false_alarms: fractions of noise segments above the threshold.
        templates: number of templates in the bank.
        masses: bin edges of the chirp mass in the second table, in solar masses.
        mass_snr: signal-to-noise ratio in the second table.
        seed: of trainings and segments.
        device: cpu or cuda.
        out: JSON file of the results.
    """
    place = pick_device(device)
    with tempfile.TemporaryDirectory() as folder:
        folders = runs or train_models(models, steps, seed, device, Path(folder))
        predictors = {run.name: load(run, place) for run in folders}
    if len(predictors) < len(folders):
        raise InputError("runs: found two with the same name, expected different names")
    signal = next((chirps_of(predictor) for predictor in predictors.values()), Chirps())
    bank = TemplateBank(signal, templates, place)
    detectors: dict[str, Detector] = {name: network_detector(predictor) for name, predictor in predictors.items()}
    detectors |= {f"matched filter, bank of {templates}": bank.loudest, BEST: bank.log_likelihood_ratio}
    clocks = {name: Timed(detector, place) for name, detector in detectors.items()}
    torch.manual_seed(seed + 1)
    strengths = [*(replace(signal, snr=(snr, snr)) for snr in SNR), signal]
    binaries = [replace(signal, chirp_mass=bounds, snr=(mass_snr, mass_snr)) for bounds in pairwise(masses)]
    efficiencies = compare_detectors(clocks, [*strengths, *binaries], noise, signals, false_alarms, place)
    rows = _columns(efficiencies, slice(len(strengths)))
    by_mass = _columns(efficiencies, slice(len(strengths), None))
    all_sizes = torch.linspace(*signal.snr, 1000)
    rows[KNOWN] = {
        rate: [
            *known_signal_efficiency(torch.tensor(SNR), rate).tolist(),
            known_signal_efficiency(all_sizes, rate).mean().item(),
        ]
        for rate in false_alarms
    }
    for rate in false_alarms:
        title = f"Chirps found, in %, at {100 * rate:g} % false alarms per segment"
        sizes = [*(f"ρ = {snr:g}" for snr in SNR), "ρ = {:g} to {:g}".format(*signal.snr)]
        further = {"furthest below the optimum": _shortfall(rows, rate), "μs a segment": _speeds(clocks)}
        show(title, sizes, rows, rate, signals, further)
        show(f"{title}: ρ = {mass_snr:g}", [f"{a:g} to {b:g} M☉" for a, b in pairwise(masses)], by_mass, rate, signals)
    if out is not None:
        about = {"snr": [*SNR, signal.snr], "noise": noise, "signals": signals, "efficiency": rows}
        about |= {"chirp mass": list(pairwise(masses)), "snr of masses": mass_snr, "by mass": by_mass}
        write_atomically(out, (json.dumps(about, indent=1) + "\n").encode())


def _columns(efficiencies: Efficiencies, columns: slice) -> Efficiencies:
    return {name: {rate: shares[columns] for rate, shares in rates.items()} for name, rates in efficiencies.items()}


class Timed:
    """A detector that measures its own time per segment."""

    def __init__(self, detector: Detector, device: str) -> None:
        self.detector, self.device, self.seconds, self.segments = detector, device, 0.0, 0

    def __call__(self, segments: torch.Tensor) -> torch.Tensor:
        start = self._now()
        statistic = self.detector(segments)
        self.seconds, self.segments = self.seconds + self._now() - start, self.segments + len(segments)
        return statistic

    def _now(self) -> float:
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


def _shortfall(rows: Efficiencies, rate: float) -> dict[str, str]:
    """Largest difference between the optimum and each detector, in % of the chirps."""
    best = np.array(rows[BEST][rate])
    return {
        name: f"{100 * max(0.0, (best - np.array(rates[rate])).max()):.1f}"
        for name, rates in rows.items()
        if name != KNOWN
    }


def _speeds(clocks: dict[str, Timed]) -> dict[str, str]:
    return {name: f"{1e6 * clock.seconds / clock.segments:.1f}" for name, clock in clocks.items()}


def show(
    title: str,
    headings: list[str],
    rows: Efficiencies,
    rate: float,
    signals: int,
    further: dict[str, dict[str, str]] | None = None,
) -> None:
    """Print efficiencies in %, one column per population, and further columns by heading."""
    table, more = Table(title=title), further or {}
    for heading in ("detector", *headings, *more):
        table.add_column(heading, justify="left" if heading == "detector" else "right")
    for name, rates in rows.items():
        table.add_row(
            name, *(f"{100 * share:.1f}" for share in rates[rate]), *(texts.get(name, "") for texts in more.values())
        )
    table.caption = f"binomial errors are up to {50 / signals**0.5:.1f}"
    Console(width=150).print(table)


if __name__ == "__main__":
    tyro.cli(main)
