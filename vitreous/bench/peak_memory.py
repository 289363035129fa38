"""Peak memory of one step of a model, weights included, and the largest batch that fits."""

from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from vitreous.bench.memory import Peak, is_out_of_memory, limit_memory
from vitreous.bench.peers import OURS, build
from vitreous.bench.timing import Setting, make_step
from vitreous.nn import ViTConfig
from vitreous.nn.models import Config
from vitreous.zoo.cost import example_inputs

PeakMemory = dict[str, list[int | None]]
_CLEAR = 1 << 26  # growth in bytes that exceeds the noise of the allocator


def measure_memory(
    libraries: Sequence[str], config: Config, batches: Sequence[int], setting: Setting, more: int
) -> PeakMemory:
    """Peak bytes of each library for each batch, in ascending order; None if a batch needs more than `more` bytes.

    If ours does not fit, the others are left out; so is a library that cannot build the model. On a CPU, call this in a
    fresh process: it limits the memory of the process.
    """
    peaks: PeakMemory = {}
    for library in libraries:
        try:
            peaks[library] = _peaks(library, config, batches, setting, more)
        except Exception:
            if library == OURS:
                raise
        if None in peaks.get(OURS, ()):
            break
    return peaks


def _peaks(library: str, config: Config, batches: Sequence[int], setting: Setting, more: int) -> list[int | None]:
    """Peaks of one library; its model is freed afterwards."""
    meter = _Meter(library, config, setting, more)
    peaks: list[int | None] = []
    for batch in batches:
        peaks.append(None if None in peaks else meter.peak(batch))
    return peaks


def largest_batch(config: Config, below: int, setting: Setting, more: int) -> int:
    """About the largest power of two below `below` that fits into `more` bytes; 0 if not even one sample fits.

    Memory grows linearly with the batch, so it is extrapolated from small batches.
    """
    meter = _Meter(OURS, config, setting, more)
    last, batch = meter.peak(1), 1
    if last is None:
        return 0
    while 2 * batch < below:
        here = meter.peak(2 * batch)
        if here is None:
            return batch
        grown, last, batch = here - last, here, 2 * batch
        if grown > _CLEAR:
            most = min(below - 1, batch + max(0, (more - last) * (batch // 2) // grown))
            return 1 << (most.bit_length() - 1)
    return batch


class _Meter:
    """Peak memory of one model for growing batches, so that memory left by one batch is used by the next."""

    def __init__(self, library: str, config: Config, setting: Setting, more: int) -> None:
        self.library, self.config, self.setting = library, config, setting
        self.model: nn.Module | None = None
        # A model of one block loads the libraries and their buffers, which do not count.
        small = replace(config, depth=1) if isinstance(config, ViTConfig) else config
        eager = replace(setting, compile=False)
        _run(build(library, small), small, 1, eager)
        if setting.device == "cpu":
            self.setting = eager  # the memory of the compiler would count
            limit_memory(more)
        self.base = Peak(setting.device)

    def peak(self, batch: int) -> int | None:
        """Bytes, weights included; None if memory ran out."""
        try:
            self.model = self.model or build(self.library, self.config)
            _run(self.model, self.config, batch, self.setting)
        except (RuntimeError, MemoryError) as fault:
            if is_out_of_memory(fault):
                return None
            raise
        return self.base.bytes()


def _run(model: nn.Module, config: Config, batch: int, setting: Setting) -> None:
    step = make_step(model, example_inputs(config, batch, setting.device), config.out, setting)
    step()
    if setting.train:
        step()  # from the second step on, moments and gradients are in memory together
