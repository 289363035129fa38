"""`measure`: throughput, latency, memory and share of the machine's peak, of one model and the same model elsewhere."""

import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from vitreous.bench import memory
from vitreous.bench.fresh_process import ProcessDiedError, run_in_fresh_process
from vitreous.bench.peers import OURS, build_all
from vitreous.bench.timing import MachinePeak, Setting, make_step, measure_peak, median_ratio, time_steps
from vitreous.core.errors import InputError, first_line
from vitreous.nn.models import Config, build
from vitreous.run.folder import TASK
from vitreous.run.predictor import Predictor, load
from vitreous.zoo.cost import count_flops, example_inputs
from vitreous.zoo.variants import model_config
from vitreous.zoo.weights import CONFIG, read_config

PREDICT = "predict"
"""Name of the row for a run's predictor: raw arrays in, physical answers out."""
_TARGET = 0.1  # seconds of a step at peak rate, for the default batch
_MOST = {"cpu": 64, "cuda": 256}
_SECONDS, _ROUNDS = 5.0, (5, 50)  # of the timing
T = TypeVar("T")


@dataclass(frozen=True)
class Work:
    """Parameters of a model, operations for one sample, and bytes of a step.

    Args:
        fixed: bytes that every step moves: weights; in training also gradients and two moments, read and written.
        bytes: of the input and output of one sample.
    """

    parameters: int
    flops: int
    fixed: int
    bytes: int

    def floors(self, batch: int, peak: MachinePeak) -> tuple[float, float]:
        """Lower bounds in seconds from the operations and from the bytes of a step."""
        moved = self.fixed + batch * self.bytes
        return batch * self.flops / peak.flops, moved / peak.bytes


def count_work(config: Config, train: bool) -> Work:
    """The work of a model, counted with four bytes per number; weights stay in float32 under autocast."""
    with torch.device("meta"):
        parameters = sum(p.numel() for p in build(config).parameters())
    fixed = 4 * parameters * (8 if train else 1)
    return Work(parameters, count_flops(config, train), fixed, 4 * (math.prod(config.input) + config.out))


@dataclass(frozen=True)
class Subject:
    """The model to measure: its configuration, and its predictor if it is a run."""

    name: str
    config: Config
    predictor: Predictor | None = None


def resolve_model(what: str, device: str) -> Subject:
    """The model in a run folder, in a folder with a `config.json`, or of that name."""
    path = Path(what)
    if not path.exists() and "/" not in what:
        return Subject(what, model_config(what))
    if (path / CONFIG).is_file() and not (path / TASK).is_file():
        return Subject(what, read_config(path))
    predictor = load(path, device)
    return Subject(what, predictor.model.config, predictor)


def measure(
    subject: Subject, batches: Sequence[int], setting: Setting, progress: Callable[[str, float], None]
) -> dict[str, Any]:
    """Measure the model in all installed libraries. Batch 1 is always included, for the latency.

    Returns plain values, ready for JSON (seconds, bytes, operations); `notes` says which libraries are missing and why.

    Args:
        batches: samples per step; if empty, 1 and a batch that takes about a tenth of a second.
        progress: called with the name of the stage and the finished share, from 0 to 1.
    """
    for batch in batches:
        if batch < 1:
            raise InputError(f"batch: found {batch}, expected at least 1 sample")
    progress("peak rates of the machine", 0.0)
    work, peak_rates = count_work(subject.config, setting.train), measure_peak(setting)
    sizes = sorted({1, *(batches or [_default_batch(work, peak_rates, setting.device)])})
    progress("building models", 0.1)
    models, notes = build_all(subject.config, setting.train)
    progress("memory", 0.2)
    peaks = _memory(subject, list(models), sizes, setting)
    rows = []
    for i, batch in enumerate(sizes):
        fit = {library: model for library, model in models.items() if library not in peaks or peaks[library][i]}
        notes |= {library: f"out of memory at batch {batch:,}" for library in models if library not in fit}

        def show(share: float, stage: str = f"batch {batch:,}", finished: int = i) -> None:
            progress(stage, 0.4 + 0.6 * (finished + share) / len(sizes))

        times = _with_clear_errors(subject, batch, setting, _time, subject, fit, batch, setting, show)
        for library, seconds in times.items():
            peak = peaks[library][i] if library in peaks else None
            rows.append(_row(library, batch, seconds, peak, times[OURS]))
    peak_rates = MachinePeak(*map(max, peak_rates, measure_peak(setting)))  # the speed of a shared machine drifts
    floors = {batch: work.floors(batch, peak_rates) for batch in sizes}
    return {
        "model": subject.name,
        **asdict(setting),
        "threads": torch.get_num_threads(),
        "parameters": work.parameters,
        "flops_per_sample": work.flops,
        "peak_flops_per_second": peak_rates.flops,
        "peak_bytes_per_second": peak_rates.bytes,
        "rows": [row | {"share_of_peak": work.flops * row["samples_per_second"] / peak_rates.flops} for row in rows],
        "floors": [{"batch": n, "flops_seconds": f, "bytes_seconds": b} for n, (f, b) in floors.items()],
        "notes": notes,
    }


def _row(library: str, batch: int, seconds: list[float], memory: int | None, ours: list[float]) -> dict[str, Any]:
    """One library at one batch; `seconds` of each round, and those of our library."""
    median = statistics.median(seconds)
    return {
        "library": library,
        "batch": batch,
        "rounds": len(seconds),
        "median_seconds": median,
        "p90_seconds": statistics.quantiles(seconds, n=10, method="inclusive")[-1],
        "samples_per_second": batch / median,
        "peak_memory_bytes": memory,
        "share_of_peak": None,  # when the peak rates are known
        "time_over_ours": median_ratio(seconds, ours),
    }


def _default_batch(work: Work, peak_rates: MachinePeak, device: str) -> int:
    """A power of two that takes about a tenth of a second at peak rate."""
    most = min(_MOST[device], int(_TARGET * peak_rates.flops / work.flops))
    return 1 << (max(1, most).bit_length() - 1)


def _time(
    subject: Subject, models: dict[str, nn.Module], batch: int, setting: Setting, progress: Callable[[float], None]
) -> dict[str, list[float]]:
    """Seconds per step of each library, and of the run's predictor, in each round."""
    inputs = example_inputs(subject.config, batch, setting.device)
    steps = {library: make_step(model, inputs, subject.config.out, setting) for library, model in models.items()}
    predictor = subject.predictor
    if predictor is not None and not setting.train:
        samples = np.random.default_rng(0).random((batch, *subject.config.input), dtype=np.float32)
        steps[PREDICT] = lambda: predictor(samples)
    repeats = 10 if setting.device == "cuda" and batch > 1 else 1  # for the latency, synchronise after each step
    return time_steps(steps, setting.device, _ROUNDS, _SECONDS, repeats, progress=progress)


def _memory(subject: Subject, libraries: Sequence[str], batches: Sequence[int], setting: Setting) -> memory.PeakMemory:
    """Peak memory of each library and batch; `InputError` if our own model does not fit."""
    more = memory.available_memory(setting.device)
    peaks: memory.PeakMemory = {OURS: [None] * len(batches)}
    with suppress(ProcessDiedError):
        args = (setting, memory.measure_memory, libraries, subject.config, batches, setting, more)
        peaks = _with_clear_errors(subject, batches[0], setting, _isolated, *args)
    if None in peaks[OURS]:
        raise _too_large(subject, batches[peaks[OURS].index(None)], setting, more)
    return peaks


def _isolated(setting: Setting, function: Callable[..., T], *args: Any) -> T:
    """Call a function, on a CPU in a fresh process; on a GPU the allocator can be reset."""
    return run_in_fresh_process(function, *args) if setting.device == "cpu" else function(*args)


def _with_clear_errors(subject: Subject, batch: int, setting: Setting, function: Callable[..., T], *args: Any) -> T:
    """Call `function(*args)`; `InputError` if memory runs out or `torch.compile` fails."""
    try:
        return function(*args)
    except (RuntimeError, MemoryError) as fault:
        if type(fault).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise InputError(f"compile: torch.compile fails here ({first_line(fault)}); leave it out") from None
        if not memory.is_out_of_memory(fault):
            raise
    # Only now is the memory of the exception free.
    raise _too_large(subject, batch, setting, memory.available_memory(setting.device))


def _too_large(subject: Subject, batch: int, setting: Setting, more: int) -> InputError:
    advice = "try fewer"
    with suppress(ProcessDiedError):
        fits = _isolated(setting, memory.largest_batch, subject.config, batch, setting, more)
        advice = f"about {fits:,} fit" if fits else "not even one fits"
    free = f"the {more / 2**30:.1f} GiB that are free" if more else "there is"
    return InputError(f"batch: {batch:,} samples of {subject.name} need more memory than {free}; {advice}")
