"""Available memory, peak memory of a process, a GPU or a model's step, and the largest batch that fits."""

import ctypes
import gc
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from vitreous.bench.peers import OURS, build
from vitreous.bench.timing import Setting, make_step
from vitreous.core import memory
from vitreous.nn import ViTConfig
from vitreous.nn.models import Config
from vitreous.zoo.cost import example_inputs

PeakMemory = dict[str, list[int | None]]
"""Bytes by library, for each batch; None if the batch does not fit."""
_CLEAR = 1 << 26  # growth in bytes that exceeds the noise of the allocator
_STATUS = Path("/proc/self/status")


class Peak:
    """Increase of the peak memory since this object was created, in bytes.

    On a GPU it is the memory of torch's allocator. Elsewhere it is the resident memory of this process; use a fresh
    process that has already run a small step, so that libraries and their buffers are loaded.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        gc.collect()
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        else:
            with suppress(AttributeError, OSError):
                ctypes.CDLL(None).malloc_trim(0)  # glibc: return freed memory
            with suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5")  # Linux: reset the peak
        self.base = self._peak()

    def _peak(self) -> int:
        if self.device == "cuda":
            torch.cuda.synchronize()
            return torch.cuda.max_memory_allocated()
        if _STATUS.is_file():
            return memory.read_proc(_STATUS, "VmHWM")
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    def bytes(self) -> int:
        """Increase so far."""
        return self._peak() - self.base


def available_memory(device: str) -> int:
    """Available bytes; 0 if unknown."""
    if device == "cuda":
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info()[0]
    return memory.available_memory()


def limit_memory(more: int) -> None:
    """Limit this process to `more` additional bytes, so that it raises an exception before the system kills it."""
    if more and _STATUS.is_file():
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = memory.read_proc(_STATUS, "VmSize") + more
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def is_out_of_memory(fault: BaseException) -> bool:
    """Whether an exception was caused by a lack of memory."""
    words = ("DefaultCPUAllocator", "bad_alloc", "not enough memory")
    return isinstance(fault, MemoryError | torch.OutOfMemoryError) or any(word in str(fault) for word in words)


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
