"""Available memory, and `check_memory`: readers compare the size that a file declares with a limit before reading."""

import os
from contextlib import suppress
from pathlib import Path

from vitreous.core.errors import InputError

VARIABLE = "VITREOUS_MAX_MEMORY"
"""Environment variable with the limit in GB; by default it is half of the available memory."""
_SHARE = 0.5
_IF_UNKNOWN = 8 << 30  # bytes of available memory where the system does not state them
_SMALL = 1 << 26  # bytes that are always allowed by default, because looking up the available memory takes time
_GROUP = Path("/sys/fs/cgroup")  # a container's own limit


def check_memory(size: int, what: str) -> None:
    """Raise `InputError` if `size` bytes are more than a reader may use."""
    setting = os.environ.get(VARIABLE)
    if not setting and size <= _SMALL:
        return
    limit = _parse_limit(setting) if setting else max(_SMALL, _SHARE * (available_memory() or _IF_UNKNOWN))
    if size > limit:
        needed = min(size, 1 << 99) / 1e9  # a damaged file may declare more than a float can hold
        raise InputError(
            f"{what}: takes {needed:.3g} GB of memory, expected {limit / 1e9:.3g} GB at most; "
            f"the environment variable {VARIABLE} sets this limit in GB"
        )


def available_memory() -> int:
    """Available bytes; 0 if unknown."""
    limits = []
    with suppress(OSError, ValueError):
        limits.append(read_proc(Path("/proc/meminfo"), "MemAvailable"))
    with suppress(OSError, ValueError):  # the limit may be "max"
        most, used = (int((_GROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        limits.append(most - used)
    return min(limits, default=0)


def read_proc(path: Path, name: str) -> int:
    """Bytes from a file in /proc, which has lines such as `VmSize:  123 kB`."""
    values = dict(line.split(":", 1) for line in path.read_text().splitlines())
    return int(values[name].split()[0]) * 1024


def _parse_limit(setting: str) -> float:
    try:
        limit = float(setting)
    except ValueError:
        limit = 0.0
    if not limit > 0:
        raise InputError(f"{VARIABLE}: found {setting!r}, expected a number of GB")
    return 1e9 * limit
