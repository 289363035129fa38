"""Chirps: detection efficiency of networks beside matched filtering, which is the known optimum, on the same segments.

    python -m benchmarks.detection --device cuda --out detection.json            # a GPU
    python -m benchmarks.detection --runs runs/vit runs/cnn --noise 2000         # of runs that there are
    python -m benchmarks.detection --models --noise 4000 --signals 500           # the matched filters alone

Thresholds are set on `--noise` segments without a signal, once for each rate of false alarms; the efficiency is the
share of `--signals` chirps of each signal-to-noise ratio above them, and of chirps as simulated, of all ratios. A
second table has chirps of one ratio by their mass: light binaries go round most often in a segment.
Errors are binomial; that of the threshold comes to all detectors alike, since they hear the same noise.
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

from vitreous.atomic import write_atomically
from vitreous.errors import InputError
from vitreous.gallery.chirps import SNR, chirps_of, network
from vitreous.sim.chirps import Chirps
from vitreous.sim.templates import Bank, Detector, compared, known
from vitreous.train import load, train
from vitreous.train.device import pick_device
from vitreous.train.recipes.series import chirps as recipe

BEST = "averaged likelihood ratio"
KNOWN = "known template"
Efficiencies = dict[str, dict[float, list[float]]]  # of detectors, by the rate of false alarms


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
    masses: tuple[float, ...] = (5.0, 6.3, 8.0, 10.0, 14.0, 20.0),
    mass_snr: float = 5.5,
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
        masses: bounds between chirp masses, in solar masses, of the second table.
        mass_snr: signal-to-noise ratio of its chirps.
        seed: of trainings and segments.
        device: cpu or cuda.
        out: JSON file of the results.
    """
    place = pick_device(device)
    with tempfile.TemporaryDirectory() as folder:
        folders = runs or trained(models, steps, seed, device, Path(folder))
        predictors = {run.name: load(run, place) for run in folders}
    if len(predictors) < len(folders):
        raise InputError("runs: found two of one name, expected a name of its own for each")
    signal = next((chirps_of(predictor) for predictor in predictors.values()), Chirps())
    bank = Bank(signal, templates, place)
    detectors: dict[str, Detector] = {name: network(predictor) for name, predictor in predictors.items()}
    detectors |= {f"matched filter, bank of {templates}": bank.loudest, BEST: bank.log_likelihood_ratio}
    clocks = {name: Timed(detector, place) for name, detector in detectors.items()}
    torch.manual_seed(seed + 1)
    strengths = [*(replace(signal, snr=(snr, snr)) for snr in SNR), signal]
    binaries = [replace(signal, chirp_mass=bounds, snr=(mass_snr, mass_snr)) for bounds in pairwise(masses)]
    found = compared(clocks, [*strengths, *binaries], noise, signals, false_alarms, place)
    rows = _columns(found, slice(len(strengths)))
    by_mass = _columns(found, slice(len(strengths), None))
    all_sizes = torch.linspace(*signal.snr, 1000)
    rows[KNOWN] = {
        rate: [*known(torch.tensor(SNR), rate).tolist(), known(all_sizes, rate).mean().item()] for rate in false_alarms
    }
    for rate in false_alarms:
        title = f"Chirps found, in %, at {100 * rate:g} % false alarms per segment"
        sizes = [*(f"ρ = {snr:g}" for snr in SNR), "ρ = {:g} to {:g}".format(*signal.snr)]
        further = {"furthest below the optimum": _below(rows, rate), "μs a segment": _speeds(clocks)}
        show(title, sizes, rows, rate, signals, further)
        show(f"{title}: ρ = {mass_snr:g}", [f"{a:g} to {b:g} M☉" for a, b in pairwise(masses)], by_mass, rate, signals)
    if out is not None:
        about = {"snr": [*SNR, signal.snr], "noise": noise, "signals": signals, "efficiency": rows}
        about |= {"chirp mass": list(pairwise(masses)), "snr of masses": mass_snr, "by mass": by_mass}
        write_atomically(out, (json.dumps(about, indent=1) + "\n").encode())


def _columns(found: Efficiencies, columns: slice) -> Efficiencies:
    return {name: {rate: shares[columns] for rate, shares in rates.items()} for name, rates in found.items()}


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


def _below(rows: Efficiencies, rate: float) -> dict[str, str]:
    """By how many % of the chirps each detector is below the optimum, where it is furthest."""
    best = np.array(rows[BEST][rate])
    return {
        name: f"{100 * max(0.0, (best - np.array(found[rate])).max()):.1f}"
        for name, found in rows.items()
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
    """Efficiencies in %, a column for each population, and further columns by their headings."""
    table, more = Table(title=title), further or {}
    for heading in ("detector", *headings, *more):
        table.add_column(heading, justify="left" if heading == "detector" else "right")
    for name, found in rows.items():
        table.add_row(
            name, *(f"{100 * share:.1f}" for share in found[rate]), *(texts.get(name, "") for texts in more.values())
        )
    table.caption = f"binomial errors are up to {50 / signals**0.5:.1f}"
    Console(width=150).print(table)


if __name__ == "__main__":
    tyro.cli(main)
