"""Folders, atomic file writes and temporary files."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from vitreous.core.errors import InputError

_TEMPORARY = re.compile(r"\..+\.\w+\.(\d+)")  # .NAME.SUFFIX.PROCESS


def make_folder(folder: Path) -> None:
    """Create a folder, with those that it lies in, unless it exists."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be created as a folder ({error.strerror})") from None


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file next to `path` and rename it, so that an error leaves the old content."""
    with open_atomically(path) as file:
        file.write(content)


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """A temporary file next to `path` to write to, renamed to `path` at the end of the `with` block.

    An error in the block leaves the old content.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        temporary.unlink(missing_ok=True)


def clear_temporaries(folder: Path) -> None:
    """Delete what `write_atomically` left in a folder in processes that were killed."""
    for path in folder.glob(".*"):
        match = _TEMPORARY.fullmatch(path.name)
        if match and path.is_file() and not _is_running(int(match[1])):
            with suppress(OSError):
                path.unlink()


def _is_running(process: int) -> bool:
    if os.name != "posix":  # elsewhere `os.kill` ends the process, whatever the signal
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # of another user
        return True
    return True


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder, deleted at the end of the `with` block."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    except OSError as error:
        raise InputError(f"{tempfile.gettempdir()}: cannot be written ({error.strerror})") from None
