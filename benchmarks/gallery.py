"""The physics gallery: every model of every entry, beside the source's numbers and the best that is possible.

    python -m benchmarks.gallery --only ising --device cuda --seeds 5 --out runs/gallery
    python -m benchmarks.gallery --only ising --systems periodic --models vit --seeds 1 --steps 20 --device cpu

Every training is kept in `OUT/table.json` when it ends, so that the same command goes on where it was stopped. Of each
model the first seed of the first system is trained alone and timed; `--together 4` trains four of the others at a time,
for models that are too small to keep a GPU busy. The figures of each first seed are drawn in its run folder, unless
`--no-draw`.
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

from vitreous.atomic import write_atomically
from vitreous.data import Source
from vitreous.errors import InputError, check_choice
from vitreous.gallery import ENTRIES, ising, jets, showers
from vitreous.gallery.panels import opened
from vitreous.sim.chirps import Chirps
from vitreous.sim.ising import microstates
from vitreous.sim.temperatures import SYSTEMS, TEMPERATURES, best_answers
from vitreous.sim.templates import Bank
from vitreous.train import RECIPES, train
from vitreous.train.answers import Answers
from vitreous.train.device import pick_device
from vitreous.train.predictor import Predictor

Numbers = dict[str, float]
_WHOLE = ("parameters", "seconds", "trained/s", "simulated/s")
_ALONE = "-"  # the system of entries that have no choice of them
_SECONDS = 2.0  # that a simulator is timed
_AT_ONCE = {"cpu": 64, "cuda": 4096}  # samples that it makes together


@dataclass(frozen=True)
class Row:
    """How an entry is told in the table.

    Args:
        metrics: names in a run's scores on its test part.
        reference: the source's value of the first of them, by system and model.
        best: the best possible score, of a system's data.
        scores: of a run, more numbers than it gives itself.
        simulate: makes so many samples of a system on a device; what the recipe's source does if not given.
    """

    metrics: tuple[str, ...]
    reference: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    best: Callable[[Source, str], float] | None = None
    scores: Callable[[Predictor, Answers], Numbers] | None = None
    simulate: Callable[[str, int, torch.device], object] | None = None


def _best(source: Source, system: str) -> float:
    """Share of the test part that the exact posterior tells right."""
    assert source.y is not None
    rows = source.parts["test"]
    return float((best_answers(source, system) == source.y)[rows].mean())


def _microstates(system: str, count: int, device: torch.device) -> object:
    low, high = TEMPERATURES[0], TEMPERATURES[-1]
    return microstates(torch.linspace(low, high, count, device=device), SYSTEMS[system])


def _likelier(source: Source, _: str) -> float:
    """Share of the test part that the likelihood ratio, averaged over all that is not known, tells right."""
    assert source.y is not None
    rows, device = source.parts["test"], pick_device("auto")
    bank = Bank(Chirps(), device=device)
    said = bank.log_likelihood_ratio(torch.from_numpy(source.x[rows, 0]).to(device)) > 0
    return float((said.cpu().numpy() == source.y[rows]).mean())


TABLE = {
    "ising": Row(
        ("accuracy",),
        {
            "periodic": {"vit": 0.934, "resnet-18": 0.865, "resnet-50": 0.907},
            "antiferromagnetic": {"vit": 0.935, "resnet-18": 0.906, "resnet-50": 0.899},
            "skewed": {"vit": 0.931, "resnet-18": 0.886, "resnet-50": 0.917},
            "antiperiodic": {"vit": 0.921, "resnet-18": 0.91, "resnet-50": 0.917},
        },
        _best,
        simulate=_microstates,
    ),
    "ising-temperature": Row(("rmse", "coverage90"), scores=ising.scores, simulate=_microstates),
    "showers": Row(("rmse/X_max", "rmse/ln A", "coverage90"), scores=showers.scores),
    "jets": Row(("accuracy",), scores=jets.scores),
    "lensing": Row(("rmse/Einstein radius", "rmse/ellipticity 1", "rmse/shear 1", "coverage90")),
    "light-curves": Row(("accuracy", "mae", "coverage90")),  # benchmarks.light_curves has boosted trees
    "chirps": Row(("accuracy",), best=_likelier),  # benchmarks.detection has the efficiencies
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
        """Of its run."""
        return out / str(self).replace("/", "_")


def _systems(name: str) -> Sequence[str]:
    return ENTRIES[name].systems or (_ALONE,)


def _models(name: str) -> Sequence[str]:
    return ENTRIES[name].models


def one(job: Job, steps: int | None, out: Path, device: str, alone: bool = False) -> Numbers:
    """Train one model and give its numbers, and times if it has the machine alone; with first seeds the simulator's."""
    row, folder = TABLE[job.name], job.folder(out)
    made = RECIPES[job.name](model=job.model, **({} if job.system == _ALONE else {"system": job.system}))
    short = {} if steps is None else {"steps": steps, "evaluate_every": steps}
    made = replace(made, train=replace(made.train, seed=job.seed, **short))
    result = train(made, folder, resume=True, device=device, bar=False)
    found = {metric: result["test"][metric] for metric in row.metrics if metric in result["test"]}
    if row.best is not None:
        found["best possible"] = row.best(made.source, job.system)
    if row.scores is not None:
        found |= row.scores(*opened(folder))
    found["parameters"] = result["parameters"]
    if alone:
        found |= {"seconds": result["seconds"], "trained/s": _trained(folder, made.train.batch)}
    if alone and job.seed == 0 and (row.simulate or made.source.fresh):
        found["simulated/s"] = _simulated(row, made.source, job.system, device)
    return found


def _trained(folder: Path, batch: int) -> float:
    """Samples a second between the lines of a training's log, where most of them have no evaluation."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    told = [(line["step"], line["seconds"]) for line in lines if "loss" in line]
    rates = [(b[0] - a[0]) / (b[1] - a[1]) for a, b in pairwise(told) if b[1] > a[1]]
    return batch * median(rates) if rates else float("nan")


def _simulated(row: Row, source: Source, system: str, device: str) -> float:
    """Samples that the simulator makes in a second."""
    place = torch.device(pick_device(device))
    count, done = _AT_ONCE[place.type], 0

    def make() -> None:
        if row.simulate is not None:
            row.simulate(system, count, place)
        elif source.fresh is not None:
            source.fresh(count, place)
        if place.type == "cuda":
            torch.cuda.synchronize()

    with torch.random.fork_rng():
        make()
        begun = time.perf_counter()
        while time.perf_counter() - begun < _SECONDS:
            make()
            done += count
    return done / (time.perf_counter() - begun)


def show(known: Mapping[str, Numbers], name: str) -> None:
    """Print an entry: one line a system and model, means over seeds with their spread."""
    row, entry = TABLE[name], ENTRIES[name]
    extra = sorted({key for words, found in known.items() if words.split("/")[0] == name for key in found}
                   - {*row.metrics, *_WHOLE})  # fmt: skip
    table = Table(title=f"{entry.title}: {entry.question}")
    headings = ["system", "model", *row.metrics, *(["source"] if row.reference else []), *extra]
    for heading in (*headings, "seeds", *_WHOLE):
        table.add_column(heading, justify="left" if heading in ("system", "model") else "right")
    for system in _systems(name):
        for model in _models(name):
            seeds = [found for words, found in known.items() if words.rsplit("/", 1)[0] == f"{name}/{system}/{model}"]
            if not seeds:
                continue
            told = row.reference.get(system, {}).get(model)
            reference = ["" if told is None else f"{told:.3f}"] if row.reference else []
            cells = [_spread([found[key] for found in seeds if key in found]) for key in (*row.metrics, *extra)]
            cells[len(row.metrics) : len(row.metrics)] = reference
            whole = [[found[key] for found in seeds if key in found] for key in _WHOLE]
            middle = (f"{median(each):,.0f}" if each else "" for each in whole)
            table.add_row(system, model, *cells, str(len(seeds)), *middle)
    Console(width=180).print(table)


def _spread(values: list[float]) -> str:
    """Mean and standard deviation."""
    if not values:
        return ""
    return f"{mean(values):.4f}" + (f" ± {stdev(values):.4f}" if len(set(values)) > 1 else "")


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
) -> None:
    """Train what is missing and print the tables.

    Args:
        out: folder of the runs and of table.json.
        only: entries; all if none is named.
        models: of the entries; all if none is named.
        systems: of the entries that have some; all if none is named.
        seeds: of weights and batches, counted from 0.
        steps: optimiser steps instead of the recipe's, for a trial, in a folder of its own within `out`.
        together: trainings at a time, but for the first of each model.
        draw: the figures of each first seed.
        device: cpu or cuda.
    """
    names = only or tuple(TABLE)
    for name in names:
        check_choice("only", name, TABLE)
    for asked, option, kinds in ((models, "models", _models), (systems, "systems", _systems)):
        for choice in asked:
            check_choice(option, choice, {kind for name in names for kind in kinds(name)})
    if seeds < 1 or together < 1:
        raise InputError("seeds, together: expected at least one")
    out = out if steps is None else out / f"trial of {steps} steps"
    path = out / "table.json"
    out.mkdir(parents=True, exist_ok=True)
    known: dict[str, Numbers] = json.loads(path.read_text()) if path.is_file() else {}
    jobs = [
        Job(name, model, system, seed)
        for name in names
        for model in _models(name)
        if not models or model in models
        for system in _systems(name)
        if not systems or system in (*systems, _ALONE)
        for seed in range(seeds)
    ]

    def keep(job: Job, found: Numbers) -> None:
        known[str(job)] = found
        write_atomically(path, (json.dumps(known, indent=1) + "\n").encode())
        print(f"{job}: " + "  ".join(f"{key} {found[key]:.4g}" for key in found), flush=True)

    missing = [job for job in jobs if str(job) not in known]
    first = {(job.name, job.model): job for job in reversed(jobs)}
    alone = [job for job in missing if together == 1 or job in first.values()]
    for job in alone:
        keep(job, one(job, steps, out, device, alone=True))
    failed = []
    if others := [job for job in missing if job not in alone]:
        with ProcessPoolExecutor(min(together, len(others)), get_context("spawn")) as pool:
            begun = {pool.submit(one, job, steps, out, device): job for job in others}
            for ended in as_completed(begun):
                if fault := ended.exception():  # the others go on
                    failed.append(f"{begun[ended]}: {fault!r}")
                else:
                    keep(begun[ended], ended.result())
    for job in jobs:
        folder = job.folder(out)
        if draw and job.seed == 0 and folder.is_dir() and not [*folder.glob("*.png")]:
            ENTRIES[job.name].draw(folder)
    for name in names:
        show(known, name)
    if failed:
        raise SystemExit("\n".join(failed))


if __name__ == "__main__":
    tyro.cli(main)
