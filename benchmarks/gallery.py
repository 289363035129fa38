"""The physics gallery: every model of every entry, with published numbers and the best possible score.

    python -m benchmarks.gallery --only ising --device cuda --seeds 5 --out runs/gallery
    python -m benchmarks.gallery --only ising --systems periodic --models vit --seeds 1 --steps 20 --device cpu

The result of each training is written to `OUT/table.json`, so that the same command resumes after an interruption. The
first seed of each model's first system is trained alone and timed; `--together 4` trains four of the others at a time,
for models that are too small to occupy a GPU. The figures of first seeds are drawn in their run folders, unless
`--no-draw` is given.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, median, stdev
from typing import NamedTuple

import torch
import tyro
from rich.console import Console
from rich.table import Table

from vitreous.core.atomic import write_atomically
from vitreous.core.errors import InputError, check_choice
from vitreous.data import Source
from vitreous.gallery.chirps.matched_filter import TemplateBank
from vitreous.gallery.chirps.simulate import Chirps
from vitreous.gallery.figures import load_run
from vitreous.gallery.ising import figures as ising
from vitreous.gallery.ising.simulate import microstates
from vitreous.gallery.ising.source import SYSTEMS, TEMPERATURES, best_answers
from vitreous.gallery.jets import figures as jets
from vitreous.gallery.showers import figures as showers
from vitreous.recipes import load_recipe
from vitreous.run.answers import Answers
from vitreous.run.predictor import Predictor
from vitreous.train import train
from vitreous.train.device import pick_device

Numbers = dict[str, float]
_WHOLE_NUMBERS = ("parameters", "seconds", "trained/s", "simulated/s")
NO_SYSTEM = "-"
"""The system of entries without a choice of systems."""
_TIMING_BATCH = {"cpu": 64, "cuda": 4096}  # samples simulated at a time


@dataclass(frozen=True)
class Row:
    """An entry of the table.

    Args:
        metrics: names of test scores.
        reference: published value of the first metric, by system and model.
        best: computes the best possible score from a source and its system.
        scores: computes further scores of a run.
        simulate: simulates a number of samples of a system on a device; by default the source's `fresh`.
    """

    metrics: tuple[str, ...]
    reference: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    best: Callable[[Source, str], float] | None = None
    scores: Callable[[Predictor, Answers], Numbers] | None = None
    simulate: Callable[[str, int, torch.device], object] | None = None


def _best_ising_accuracy(source: Source, system: str) -> float:
    """Accuracy of the exact posterior on the test part."""
    assert source.y is not None
    rows = source.parts["test"]
    return float((best_answers(source, system) == source.y)[rows].mean())


def _simulate_ising(system: str, count: int, device: torch.device) -> object:
    low, high = TEMPERATURES[0], TEMPERATURES[-1]
    return microstates(torch.linspace(low, high, count, device=device), SYSTEMS[system])


def _best_chirp_accuracy(source: Source, _: str) -> float:
    """Accuracy of the averaged likelihood ratio on the test part."""
    assert source.y is not None
    rows, device = source.parts["test"], pick_device("auto")
    bank = TemplateBank(Chirps(), device=device)
    chirp = bank.log_likelihood_ratio(torch.from_numpy(source.x[rows, 0]).to(device)) > 0
    return float((chirp.cpu().numpy() == source.y[rows]).mean())


TABLE = {
    "ising": Row(
        ("accuracy",),
        {
            "periodic": {"vit": 0.934, "resnet-18": 0.865, "resnet-50": 0.907},
            "antiferromagnetic": {"vit": 0.935, "resnet-18": 0.906, "resnet-50": 0.899},
            "skewed": {"vit": 0.931, "resnet-18": 0.886, "resnet-50": 0.917},
            "antiperiodic": {"vit": 0.921, "resnet-18": 0.91, "resnet-50": 0.917},
        },
        _best_ising_accuracy,
        simulate=_simulate_ising,
    ),
    "ising-temperature": Row(("rmse", "coverage90"), scores=ising.scores, simulate=_simulate_ising),
    "showers": Row(("rmse/X_max", "rmse/ln A", "coverage90"), scores=showers.scores),
    "jets": Row(("accuracy",), scores=jets.scores),
    "lensing": Row(("rmse/Einstein radius", "rmse/ellipticity 1", "rmse/shear 1", "coverage90")),
    "light-curves": Row(("accuracy", "mae", "coverage90")),  # benchmarks.light_curves has boosted trees
    "chirps": Row(("accuracy",), best=_best_chirp_accuracy),  # benchmarks.detection has the efficiencies
}


class Job(NamedTuple):
    """One training of the table."""

    name: str
    model: str
    system: str
    seed: int

    def __str__(self) -> str:
        return f"{self.name}/{self.system}/{self.model}/{self.seed}"

    def folder(self, out: Path) -> Path:
        """The run folder."""
        return out / str(self).replace("/", "_")


def _systems(name: str) -> Sequence[str]:
    return load_recipe(name).systems or (NO_SYSTEM,)


def _models(name: str) -> Sequence[str]:
    return load_recipe(name).models


def train_one(job: Job, steps: int | None, out: Path, device: str, alone: bool = False, timing: float = 2.0) -> Numbers:
    """Train one model and return its scores, with times if it is the only training on the machine."""
    row, folder = TABLE[job.name], job.folder(out)
    training = load_recipe(job.name).create(job.model, None if job.system == NO_SYSTEM else job.system)
    short = {} if steps is None else {"steps": steps, "evaluate_every": steps}
    training = replace(training, settings=replace(training.settings, seed=job.seed, **short))
    result = train(training, folder, resume=True, device=device, bar=False)
    numbers = {metric: result["test"][metric] for metric in row.metrics if metric in result["test"]}
    if row.best is not None:
        numbers["best possible"] = row.best(training.source, job.system)
    if row.scores is not None:
        numbers |= row.scores(*load_run(folder))
    numbers["parameters"] = result["parameters"]
    if alone:
        numbers |= {"seconds": result["seconds"], "trained/s": _training_rate(folder, training.settings.batch)}
    if alone and job.seed == 0 and (row.simulate or training.source.fresh):
        numbers["simulated/s"] = _simulation_rate(row, training.source, job.system, device, timing)
    return numbers


def _training_rate(folder: Path, batch: int) -> float:
    """Median of the samples per second between lines of the training log, most of which have no evaluation."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    points = [(line["step"], line["seconds"]) for line in lines if "loss" in line]
    rates = [(b[0] - a[0]) / (b[1] - a[1]) for a, b in pairwise(points) if b[1] > a[1]]
    return batch * median(rates) if rates else float("nan")


def _simulation_rate(row: Row, source: Source, system: str, device: str, seconds: float) -> float:
    """Samples per second of the simulator, measured over some seconds."""
    place = torch.device(pick_device(device))
    count, done = _TIMING_BATCH[place.type], 0

    def simulate() -> None:
        if row.simulate is not None:
            row.simulate(system, count, place)
        elif source.fresh is not None:
            source.fresh(count, place)
        if place.type == "cuda":
            torch.cuda.synchronize()

    with torch.random.fork_rng():
        simulate()
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            simulate()
            done += count
    return done / (time.perf_counter() - start)


def show(results: Mapping[str, Numbers], name: str) -> None:
    """Print an entry: one line per system and model, with means and standard deviations over seeds."""
    row, entry = TABLE[name], load_recipe(name)
    extra = sorted({key for job, numbers in results.items() if job.split("/")[0] == name for key in numbers}
                   - {*row.metrics, *_WHOLE_NUMBERS})  # fmt: skip
    table = Table(title=f"{entry.title}: {entry.question}")
    headings = ["system", "model", *row.metrics, *(["source"] if row.reference else []), *extra]
    for heading in (*headings, "seeds", *_WHOLE_NUMBERS):
        table.add_column(heading, justify="left" if heading in ("system", "model") else "right")
    for system in _systems(name):
        for model in _models(name):
            group = f"{name}/{system}/{model}"
            seeds = [numbers for job, numbers in results.items() if job.rsplit("/", 1)[0] == group]
            if not seeds:
                continue
            published = row.reference.get(system, {}).get(model)
            reference = ["" if published is None else f"{published:.3f}"] if row.reference else []
            cells = [_spread([numbers[key] for numbers in seeds if key in numbers]) for key in (*row.metrics, *extra)]
            cells[len(row.metrics) : len(row.metrics)] = reference
            whole = [[numbers[key] for numbers in seeds if key in numbers] for key in _WHOLE_NUMBERS]
            middle = (f"{median(each):,.0f}" if each else "" for each in whole)
            table.add_row(system, model, *cells, str(len(seeds)), *middle)
    Console(width=180).print(table)


def _spread(values: list[float]) -> str:
    """Mean and standard deviation."""
    if not values:
        return ""
    return f"{mean(values):.4f}" + (f" ± {stdev(values):.4f}" if len(set(values)) > 1 else "")


def plan_jobs(names: Sequence[str], models: Sequence[str], systems: Sequence[str], seeds: int) -> list[Job]:
    """All trainings of the entries; `models` and `systems` restrict them where given."""
    for name in names:
        check_choice("only", name, TABLE)
    for chosen, option, choices in ((models, "models", _models), (systems, "systems", _systems)):
        for choice in chosen:
            check_choice(option, choice, {each for name in names for each in choices(name)})
    return [
        Job(name, model, system, seed)
        for name in names
        for model in _models(name)
        if not models or model in models
        for system in _systems(name)
        if not systems or system in (*systems, NO_SYSTEM)
        for seed in range(seeds)
    ]


def train_missing(
    jobs: Sequence[Job], results: dict[str, Numbers], steps: int | None, together: int, out: Path, device: str,
    timing: float,
) -> list[str]:  # fmt: skip
    """Run the trainings without a result, write each result to `OUT/table.json` and return the failures."""

    def record(job: Job, numbers: Numbers) -> None:
        results[str(job)] = numbers
        write_atomically(out / "table.json", (json.dumps(results, indent=1) + "\n").encode())
        print(f"{job}: " + "  ".join(f"{key} {numbers[key]:.4g}" for key in numbers), flush=True)

    missing = [job for job in jobs if str(job) not in results]
    first = {(job.name, job.model): job for job in reversed(jobs)}
    alone = [job for job in missing if together == 1 or job in first.values()]
    for job in alone:
        record(job, train_one(job, steps, out, device, alone=True, timing=timing))
    failed = []
    if others := [job for job in missing if job not in alone]:
        with ProcessPoolExecutor(min(together, len(others)), get_context("spawn")) as pool:
            futures = {pool.submit(train_one, job, steps, out, device): job for job in others}
            for future in as_completed(futures):
                if fault := future.exception():  # the other trainings continue
                    failed.append(f"{futures[future]}: {fault!r}")
                else:
                    record(futures[future], future.result())
    return failed


def main(
    out: Path = Path("runs/gallery"),
    only: tuple[str, ...] = (),
    models: tuple[str, ...] = (),
    systems: tuple[str, ...] = (),
    seeds: int = 5,
    steps: int | None = None,
    together: int = 1,
    draw: bool = True,
    device: str = "auto",
    timing: float = 2.0,
) -> None:
    """Run the missing trainings and print the tables.

    Args:
        out: folder of the runs and of table.json.
        only: entries; all by default.
        models: models of the entries; all by default.
        systems: systems of the entries that have them; all by default.
        seeds: number of seeds, from 0.
        steps: optimiser steps of a trial, in a subfolder of `out`; by default those of the recipe.
        together: trainings at a time, except for the first of each model.
        draw: whether to draw the figures of first seeds.
        device: cpu or cuda.
        timing: seconds over which the speed of a simulator is measured.
    """
    if seeds < 1 or together < 1:
        raise InputError(f"seeds, together: found {seeds} and {together}, expected at least 1")
    names = only or tuple(TABLE)
    jobs = plan_jobs(names, models, systems, seeds)
    out = out if steps is None else out / f"trial of {steps} steps"
    out.mkdir(parents=True, exist_ok=True)
    path = out / "table.json"
    results: dict[str, Numbers] = json.loads(path.read_text()) if path.is_file() else {}
    failed = train_missing(jobs, results, steps, together, out, device, timing)
    for job in jobs:
        folder = job.folder(out)
        if draw and job.seed == 0 and folder.is_dir() and not [*folder.glob("*.png")]:
            figures = load_recipe(job.name).figures
            assert figures is not None
            figures(folder)
    for name in names:
        show(results, name)
    if failed:
        raise SystemExit("\n".join(failed))


if __name__ == "__main__":
    tyro.cli(main)
