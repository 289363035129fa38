"""Files of powder patterns: the suffix selects one of the readers, and the values are checked; text is written."""

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from vitreous.core.errors import InputError, check_choice, first_line
from vitreous.data.uploads import InputFile, InputPath, as_input_file
from vitreous.powder.files.cif import read_cif
from vitreous.powder.files.columns import parse_peak_list, read_columns, write_pattern
from vitreous.powder.files.content import MAX_POINTS, Content
from vitreous.powder.files.diffractometers import read_diffractometer, read_raw
from vitreous.powder.files.gsas import read_gsas
from vitreous.powder.pattern import Floats, Pattern, check_pattern
from vitreous.powder.radiation import radiation_from_user

__all__ = ["FORMATS", "read_pattern", "read_peak_list", "write_pattern"]

MAX_BYTES = 64_000_000  # more than any pattern, less than memory
_MAX_LIST_BYTES = 1_000_000  # more than any list of peaks
_ZIPPED = (".rasx", ".brml")

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

    The first column of a text file is 2θ in degrees, or what its heading says: θ, d, 1/d, Q, sin θ or sin² θ, which are
    converted. A file that states its number of points must hold that many.

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
        pattern = check_pattern(_read(file, max_bytes, radiation.wavelength))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    return replace(pattern, name=file.name).with_radiation(radiation)


def _read(path: InputFile, max_bytes: int, wavelength: float | None) -> Pattern:
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
        content = Content(data, kind, max_bytes, wavelength)
        content = content.unpacked() if kind in _ZIPPED else content
        content.check_words()
        pattern = _READERS[kind](content)
        if (points := len(pattern.two_theta)) > MAX_POINTS:
            raise InputError(f"found {points} points, expected at most {MAX_POINTS}")
        return pattern
    except InputError:
        raise
    except Exception as error:  # damaged files raise all kinds of errors in the readers
        raise InputError(f"cannot be read as {kind} ({first_line(error)})") from None


def read_peak_list(path: InputPath, wavelength: float) -> tuple[Floats, Floats | None]:
    """Read a list of peaks as text, one per row: 2θ in degrees, and intensities if there are any.

    Headings may name the columns, with the quantities of `read_pattern`; the wavelength is in ångström.
    """
    file = as_input_file(path)
    try:
        with file.open("rb") as stream:
            data: bytes = stream.read(_MAX_LIST_BYTES + 1)
        if len(data) > _MAX_LIST_BYTES:
            raise InputError(f"found more than {_MAX_LIST_BYTES} bytes, expected a list of peaks")
        return parse_peak_list(Content(data, file.suffix, _MAX_LIST_BYTES).text(), wavelength)
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
    except (InputError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: {first_line(error)}") from None
