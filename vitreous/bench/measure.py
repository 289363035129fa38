"""`measure`: throughput, latency, memory and share of the machine's peak of one model, with its peers beside it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from vitreous.bench import memory
from vitreous.bench.alone import DiedError, alone
from vitreous.bench.ceiling import Ceilings, Work, measure_ceilings, work_of
from vitreous.bench.footprint import Footprints, footprints, largest_batch
from vitreous.bench.peers import OURS, build_all
from vitreous.bench.race import Setting, Step, make_step, race, ratio
from vitreous.bench.result import Result, Row
from vitreous.errors import InputError, first_line
from vitreous.nn.models import Config
from vitreous.train.about import TASK
from vitreous.train.predictor import Predictor, load
from vitreous.zoo.cost import example
from vitreous.zoo.variants import model_config
from vitreous.zoo.weights import CONFIG, read_config

PREDICT = "predict"
"""Name of the row for a run's predictor: raw arrays in, physical answers out."""
_TARGET = 0.1  # seconds that a step takes at best with the batch that is chosen if none is given
_MOST = {"cpu": 64, "cuda": 256}
_SECONDS, _ROUNDS = 5.0, (5, 50)  # of a race
T = TypeVar("T")


@dataclass(frozen=True)
class Subject:
    """What is measured: a model's configuration, and its predictor if it is a run."""

    name: str
    config: Config
    predictor: Predictor | None = None


def find_subject(what: str, device: str) -> Subject:
    """A run, a folder with a model, or a named model."""
    path = Path(what)
    if path.exists() or "/" in what:
        if (path / CONFIG).is_file() and not (path / TASK).is_file():
            return Subject(what, read_config(path))
        predictor = load(path, device)
        return Subject(what, predictor.model.config, predictor)
    return Subject(what, model_config(what))


def measure(
    subject: Subject,
    batches: Sequence[int],
    setting: Setting,
    told: Callable[[str, float], None] = lambda stage, share: None,
) -> Result:
    """Measure all libraries that there are; batch 1 is always among the batches, for the latency.

    Args:
        batches: samples of a step; none for 1 and as many as should take about a tenth of a second.
        told: hears what is going on and how much of everything is done, from 0 to 1.
    """
    for batch in batches:
        if batch < 1:
            raise InputError(f"batch: found {batch}, expected at least 1 sample")
    told("what the machine can do", 0.0)
    work, ceilings = work_of(subject.config, setting.train), measure_ceilings(setting)
    sizes = sorted({1, *(batches or [_handy(work, ceilings, setting.device)])})
    told("looking for peers", 0.1)
    models, notes = build_all(subject.config, setting.train)
    told("memory", 0.2)
    taken = _memory(subject, list(models), sizes, setting)
    rows: list[Row] = []
    for i, batch in enumerate(sizes):
        fit = {library: model for library, model in models.items() if library not in taken or taken[library][i]}
        notes |= {library: f"out of memory at batch {batch:,}" for library in models if library not in fit}
        begun, length = 0.4 + 0.6 * i / len(sizes), 0.6 / len(sizes)
        raced = _within(told, f"batch {batch:,}", begun, length)
        times = _explained(subject, batch, setting, _race, subject, fit, batch, setting, raced)
        for library, seconds in times.items():
            peak = taken[library][i] if library in taken else None
            rows.append(Row(library, batch, seconds, peak, ratio(seconds, times[OURS])))
    ceilings = ceilings.or_better(measure_ceilings(setting))
    return Result(subject.name, setting, torch.get_num_threads(), work, ceilings, rows, notes)


def _handy(work: Work, ceilings: Ceilings, device: str) -> int:
    """A power of two of samples that take about a tenth of a second at best."""
    most = min(_MOST[device], int(_TARGET * ceilings.flops / work.flops))
    return 1 << (max(1, most).bit_length() - 1)


def _within(told: Callable[[str, float], None], stage: str, begun: float, length: float) -> Callable[[float], None]:
    """Tells of a part as a part of the whole."""
    return lambda share: told(stage, begun + share * length)


def _race(
    subject: Subject, models: dict[str, nn.Module], batch: int, setting: Setting, told: Callable[[float], None]
) -> dict[str, list[float]]:
    """Seconds of each library in each round, and of the run's predictor."""
    inputs = example(subject.config, batch, setting.device)
    steps = {library: make_step(model, inputs, subject.config.out, setting) for library, model in models.items()}
    if subject.predictor is not None and not setting.train:
        steps[PREDICT] = _prediction(subject.predictor, batch)
    repeats = 10 if setting.device == "cuda" and batch > 1 else 1  # a latency is waited for each time
    return race(steps, setting.device, _ROUNDS, _SECONDS, repeats, told=told)


def _prediction(predictor: Predictor, batch: int) -> Step:
    samples = np.random.default_rng(0).random((batch, *predictor.model.config.input), dtype=np.float32)
    return lambda: predictor(samples)


def _memory(subject: Subject, libraries: Sequence[str], batches: Sequence[int], setting: Setting) -> Footprints:
    """Peak memory of each library and batch; our own must fit."""
    more = memory.available(setting.device)
    found: Footprints = {OURS: [None] * len(batches)}
    with suppress(DiedError):
        args = (setting, footprints, libraries, subject.config, batches, setting, more)
        found = _explained(subject, batches[0], setting, _apart, *args)
    if None in found[OURS]:
        raise _too_large(subject, batches[found[OURS].index(None)], setting, more)
    return found


def _apart(setting: Setting, function: Callable[..., T], *args: Any) -> T:
    """On a CPU in a process of its own; a GPU's allocator tells one model's memory from another's."""
    return alone(function, *args) if setting.device == "cpu" else function(*args)


def _explained(subject: Subject, batch: int, setting: Setting, function: Callable[..., T], *args: Any) -> T:
    """`function(*args)`; memory that runs out and a compiler that is missing are no bugs of ours: one line for each."""
    try:
        return function(*args)
    except (RuntimeError, MemoryError) as fault:
        if type(fault).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise InputError(f"compile: torch.compile fails here ({first_line(fault)}); leave it out") from None
        if not memory.ran_out(fault):
            raise
    raise _too_large(subject, batch, setting, memory.available(setting.device))  # what the fault held is free again


def _too_large(subject: Subject, batch: int, setting: Setting, more: int) -> InputError:
    """The line for a batch that does not fit."""
    advice = "try fewer"
    with suppress(DiedError):
        fits = _apart(setting, largest_batch, subject.config, batch, setting, more)
        advice = f"about {fits:,} fit" if fits else "not even one fits"
    free = f"the {more / 2**30:.1f} GiB that are free" if more else "there is"
    return InputError(f"batch: {batch:,} samples of {subject.name} need more memory than {free}; {advice}")
