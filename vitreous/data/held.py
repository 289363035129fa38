"""`Held`: a file in memory, for readers that else take a path; so an upload never touches the disk."""

import io
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, Any


@dataclass(frozen=True)
class Held:
    """Bytes with as much of a path's manners as readers need.

    Args:
        name: for messages.
        suffix: what the bytes are, e.g. `.csv`.
        content: the bytes.
    """

    name: str
    suffix: str
    content: bytes

    def __str__(self) -> str:
        return self.name

    def open(self, mode: str = "rb", encoding: str | None = None, newline: str | None = None) -> IO[Any]:
        """The bytes, or with an encoding their text."""
        binary = io.BytesIO(self.content)
        return binary if encoding is None else io.TextIOWrapper(binary, encoding=encoding, newline=newline)

    @property
    def stem(self) -> str:
        """The name without the suffix."""
        return self.name.removesuffix(self.suffix)

    def is_file(self) -> bool:
        return True

    def is_dir(self) -> bool:
        return False

    @property
    def size(self) -> int:
        return len(self.content)


File = Path | Held


def file_of(path: str | PathLike[str] | Held) -> File:
    """A path, or a file that is held already."""
    return path if isinstance(path, Held) else Path(path)


def size_of(file: File) -> int:
    """Bytes."""
    return file.size if isinstance(file, Held) else file.stat().st_size
