"""Files of powder patterns: the suffix selects one of the readers, and the values are checked; text is written."""

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from vitreous.core.errors import InputError, check_choice, first_line
from vitreous.data.uploads import InputFile, InputPath, as_input_file
from vitreous.powder.files.cif import read_cif
from vitreous.powder.files.content import Content
from vitreous.powder.files.diffractometers import read_diffractometer, read_raw
from vitreous.powder.files.text import read_columns, read_gsas, write_pattern
from vitreous.powder.pattern import Pattern, check_pattern
from vitreous.powder.radiation import radiation_from_user

__all__ = ["FORMATS", "read_pattern", "write_pattern"]

MAX_BYTES = 200_000_000  # more than any pattern, less than memory

_READERS: dict[str, Callable[[Content], Pattern]] = {
    **dict.fromkeys((".xy", ".xye", ".csv", ".dat", ".txt"), read_columns),
    **dict.fromkeys((".xrdml", ".ras", ".rasx"), read_diffractometer),
    ".raw": read_raw,
    ".brml": read_diffractometer,
    **dict.fromkeys((".gsa", ".gsas", ".fxye"), read_gsas),
    ".cif": read_cif,
}
FORMATS = tuple(_READERS)
"""Suffixes of pattern files."""


def read_pattern(
    path: InputPath, wavelength: float | None = None, anode: str | None = None, max_bytes: int = MAX_BYTES
) -> Pattern:
    """Read one pattern; of a file with several, the first.

    Formats by suffix: text in columns (.xy .xye .csv .dat .txt), Panalytical .xrdml, Rigaku .ras and .rasx, Bruker .raw
    and .brml, GSAS .gsa, .gsas, .fxye and .raw, powder .cif. Each may be followed by `.gz`.

    Args:
        path: the file.
        wavelength: ångström; replaces that of the file.
        anode: of the X-ray tube, e.g. `Cu`; its Kα1 and Kα2 replace the wavelength of the file.
        max_bytes: size limit, also after decompression.
    """
    file = as_input_file(path)
    radiation = radiation_from_user(wavelength, anode)
    try:
        pattern = check_pattern(_read(file, max_bytes))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    return replace(pattern, name=file.name).with_radiation(radiation)


def _read(path: InputFile, max_bytes: int) -> Pattern:
    if not path.is_file():
        raise InputError("found a folder, expected a file" if path.is_dir() else "no such file")
    compressed = path.suffix.lower() == ".gz"
    kind = Path(path.name).with_suffix("").suffix.lower() if compressed else path.suffix.lower()
    check_choice("file type", kind, _READERS)
    try:
        with path.open("rb") as file:
            data = (gzip.GzipFile(fileobj=file) if compressed else file).read(max_bytes + 1)
        if len(data) > max_bytes:
            raise InputError(f"found more than {max_bytes} bytes, expected a powder pattern")
        if not data.strip():
            raise InputError("empty file")
        return _READERS[kind](Content(data, kind, max_bytes))
    except InputError:
        raise
    except Exception as error:  # damaged files raise all kinds of errors in the readers
        raise InputError(f"cannot be read as {kind} ({first_line(error)})") from None
