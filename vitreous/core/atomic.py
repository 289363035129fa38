"""Atomic file writes and temporary folders."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vitreous.core.errors import InputError


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file next to `path` and rename it, so that an error leaves the old content."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder, deleted at the end of the `with` block."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    except OSError as error:
        raise InputError(f"{tempfile.gettempdir()}: cannot be written ({error.strerror})") from None
