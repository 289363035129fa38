"""How much memory something needs at once, and how much there is."""

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
    """The most bytes in use at once since this was made, over what was in use then.

    On a GPU those of torch's allocator. Elsewhere those resident in this process, which is best a fresh one that has
    done a little of the same before, so that libraries and their buffers are loaded.
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
            ctypes.CDLL(None).malloc_trim(0)  # glibc: what was freed goes back
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts anew
        self.base = _peak_resident()

    def bytes(self) -> int:
        """Since then."""
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
    found = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(), flags=re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def available(device: str) -> int:
    """Bytes that can still be had; 0 where nobody says."""
    if device == "cuda":
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info()[0]
    found = []
    with suppress(OSError, ValueError):
        words = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        found.append(int(words["MemAvailable"].split()[0]) * 1024)
    with suppress(OSError, ValueError):  # the limit is "max" where there is none
        most, used = (int((_GROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        found.append(most - used)
    return min(found, default=0)


def allow(more: int) -> None:
    """Let this process take so many bytes and no more, so that it fails by an exception before the system kills it."""
    if more and _STATUS.is_file():
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = _status("VmSize") + more
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def ran_out(fault: BaseException) -> bool:
    """Whether an exception says that memory has run out."""
    words = ("DefaultCPUAllocator", "bad_alloc", "not enough memory")
    return isinstance(fault, MemoryError | torch.OutOfMemoryError) or any(word in str(fault) for word in words)
