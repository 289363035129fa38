"""Files that are written whole or not at all, and a folder for those on the way."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vitreous.errors import InputError


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the file and move into place, so that a fault leaves what was there before."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as fault:
        raise InputError(f"{path}: cannot be written ({fault.strerror})") from None
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    except OSError as fault:
        raise InputError(f"{tempfile.gettempdir()}: cannot be written ({fault.strerror})") from None
