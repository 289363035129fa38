"""Checksums (SHA-256) of files: those of a folder in `checksums.json`, and that of a single file inside itself.

Messages of errors in one file begin with a verb, for the file's name to precede them.
"""

import hashlib
import json
import mmap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vitreous.core.atomic import write_atomically
from vitreous.core.errors import InputError
from vitreous.core.json_text import parse_json

CHECKSUMS = "checksums.json"
_MARK = "vitreous-sha256:"
_DIGITS = 64
NO_CHECKSUM = _MARK + "0" * _DIGITS
"""What a file contains in place of its checksum before `add_checksum`."""


def write_checksums(folder: Path, names: Iterable[str], contents: Mapping[str, bytes] | None = None) -> None:
    """Write the checksums of those of the named files that are in the folder.

    Args:
        contents: of files that are still to be written, by name.
    """
    sums = {name: _hash_file(folder / name) for name in names if (folder / name).is_file()}
    sums |= {name: hashlib.sha256(content).hexdigest() for name, content in (contents or {}).items()}
    write_atomically(folder / CHECKSUMS, (json.dumps(sums, indent=1) + "\n").encode())


def update_checksums(folder: Path, names: Iterable[str]) -> None:
    """Let the checksums of a folder, if it has any, follow a change of some of its files."""
    if sums := _read_checksums(folder):
        write_checksums(folder, [*sums, *(name for name in names if name not in sums)])


def verify_checksum(path: Path) -> None:
    """Raise `InputError` if a file differs from its checksum; nothing is said of files that have none."""
    expected = _read_checksums(path.parent).get(path.name)
    if expected is not None and path.is_file() and _hash_file(path) != expected:
        raise InputError(f"is damaged ({_differs(CHECKSUMS)}; delete that file if you made the change)")


def read_verified(path: Path) -> bytes:
    """The content of a file that is as its checksum says."""
    try:
        verify_checksum(path)
        return path.read_bytes()
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def read_json(path: Path) -> Any:
    """The values of a JSON file that is as its checksum says."""
    content = read_verified(path)
    try:
        return parse_json(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def add_checksum(content: bytes) -> bytes:
    """The content of a file with its checksum in place of `NO_CHECKSUM`."""
    return content.replace(NO_CHECKSUM.encode(), f"{_MARK}{hashlib.sha256(content).hexdigest()}".encode(), 1)


def verify_own_checksum(path: Path) -> None:
    """Raise `InputError` if a file contains a checksum of itself that is not the right one."""
    if path.stat().st_size == 0:  # which cannot be mapped
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(_MARK.encode())
        if start < 0:
            return
        digits = start + len(_MARK), start + len(NO_CHECKSUM)
        with memoryview(content) as view, view[: digits[0]] as before, view[digits[1] :] as after:
            digest = hashlib.sha256(before)
            digest.update(b"0" * _DIGITS)
            digest.update(after)
        if digest.hexdigest().encode() != content[slice(*digits)]:
            raise InputError(f"is damaged ({_differs('it')})")


def check_metadata(metadata: Mapping[str, Any]) -> None:
    """Raise `InputError` if the entry `checksum` of a file's metadata is damaged: `verify_own_checksum` misses it."""
    if not str(metadata.get("checksum", NO_CHECKSUM)).startswith(_MARK):
        raise InputError("is damaged (so is its checksum)")


def _differs(place: str) -> str:
    return f"its content differs from the checksum in {place}"


def _hash_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})") from None


def _read_checksums(folder: Path) -> dict[str, str]:
    """Checksums by name of the file; empty for a folder without any."""
    path = folder / CHECKSUMS
    if not path.is_file():
        return {}
    try:
        sums = parse_json(path.read_bytes())
        if not isinstance(sums, dict):
            raise InputError("is damaged (expected checksums by name of the file)")
    except InputError as error:
        raise InputError(f"cannot be verified: {path} {error}") from None
    except OSError as error:
        raise InputError(f"cannot be verified: {path} cannot be read ({error.strerror})") from None
    return sums
