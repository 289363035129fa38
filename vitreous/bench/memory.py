"""Peak memory of this process or GPU, and available memory."""

import ctypes
import gc
import re
import sys
from contextlib import suppress
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_GROUP = Path("/sys/fs/cgroup")  # a container's own limit


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
            self.base = torch.cuda.memory_allocated()
            return
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)  # glibc: return freed memory
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # Linux: reset the peak
        self.base = _peak_resident()

    def bytes(self) -> int:
        """Increase so far."""
        if self.device == "cuda":
            torch.cuda.synchronize()
            return torch.cuda.max_memory_allocated() - self.base
        return _peak_resident() - self.base


def _peak_resident() -> int:
    if _STATUS.is_file():
        return _status("VmHWM")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _status(name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(), flags=re.MULTILINE)
    assert match is not None
    return int(match[1]) * 1024


def available_memory(device: str) -> int:
    """Available bytes; 0 if unknown."""
    if device == "cuda":
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info()[0]
    limits = []
    with suppress(OSError, ValueError):
        words = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        limits.append(int(words["MemAvailable"].split()[0]) * 1024)
    with suppress(OSError, ValueError):  # the limit may be "max"
        most, used = (int((_GROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        limits.append(most - used)
    return min(limits, default=0)


def limit_memory(more: int) -> None:
    """Limit this process to `more` additional bytes, so that it raises an exception before the system kills it."""
    if more and _STATUS.is_file():
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = _status("VmSize") + more
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def is_out_of_memory(fault: BaseException) -> bool:
    """Whether an exception was caused by a lack of memory."""
    words = ("DefaultCPUAllocator", "bad_alloc", "not enough memory")
    return isinstance(fault, MemoryError | torch.OutOfMemoryError) or any(word in str(fault) for word in words)
