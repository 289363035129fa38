"""`Upload`: a file in memory that the readers accept like a path, so that uploads are never written to disk."""

import io
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, Any


@dataclass(frozen=True)
class Upload:
    """Name, file type (e.g. `.csv`) and bytes, with those methods of `pathlib.Path` that the readers call."""

    name: str
    suffix: str
    content: bytes

    def __str__(self) -> str:
        return self.name

    def open(self, mode: str = "rb", encoding: str | None = None, newline: str | None = None) -> IO[Any]:
        """The bytes, or the decoded text if an encoding is set."""
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


InputFile = Path | Upload
InputPath = str | PathLike[str] | Upload


def as_input_file(path: InputPath) -> InputFile:
    """Convert a string to a path; an upload stays as it is."""
    return path if isinstance(path, Upload) else Path(path)


def file_size(file: InputFile) -> int:
    """Size in bytes."""
    return len(file.content) if isinstance(file, Upload) else file.stat().st_size
