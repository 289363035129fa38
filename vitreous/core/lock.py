"""`lock_folder`: one process at a time writes to a folder."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from vitreous.core.atomic import make_folder
from vitreous.core.errors import InputError

LOCK = ".lock"
_HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)  # other errors: the file system has no locks


class InUseError(InputError):
    """Another process writes to the folder."""


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Inside the block no other process has the lock of the folder, which is created; `InUseError` if one has it.

    The operating system releases the lock when its process ends, however it ends. A folder that was created and is
    still empty at the end is removed.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    make_folder(folder)
    file = _open_locked(folder)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows does not delete open files
            (folder / LOCK).unlink()
        file.close()
        with suppress(OSError):
            for path in missing:
                path.rmdir()


def _open_locked(folder: Path) -> BinaryIO:
    """The locked file; its content is the number of the process."""
    path = folder / LOCK
    while True:
        try:
            file = path.open("a+b", buffering=0)
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
        try:
            _lock(file)
        except OSError:
            with file:
                owner = _owner(file)
            message = f"another training{owner} is running in this folder; wait for its end, or choose another folder"
            raise InUseError(f"{folder}: {message}") from None
        if _is_at(file, path):
            with suppress(OSError):  # a full disk
                file.truncate(0)
                file.write(str(os.getpid()).encode())
            return file
        file.close()


def _is_at(file: BinaryIO, path: Path) -> bool:
    """Whether a path still names an open file; the process that held the lock before us has deleted its file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _owner(file: BinaryIO) -> str:
    """Names the process that holds the lock."""
    with suppress(OSError, ValueError):
        file.seek(0)
        return f" (process {int(file.read(20))})"
    return ""


def _lock(file: BinaryIO) -> None:
    """Lock an open file; `OSError` if another process holds the lock."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(1 << 20)  # behind the content, which others may read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            raise
