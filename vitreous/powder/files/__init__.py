"""Files of powder patterns: the suffix selects one of the readers, and the values are checked; text is written."""

import gzip
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from vitreous.core.errors import InputError, check_choice, first_line
from vitreous.data.uploads import InputFile, InputPath, as_input_file
from vitreous.powder.files.cif import read_cif
from vitreous.powder.files.columns import PeakList, parse_peak_list, read_columns, write_pattern
from vitreous.powder.files.content import MAX_POINTS, Content
from vitreous.powder.files.diffractometers import read_diffractometer, read_raw
from vitreous.powder.files.gsas import read_gsas
from vitreous.powder.files.reading import AS_IN_FILE, AxisName, ReadOptions, Scan
from vitreous.powder.files.scan_choice import ADVICE, choose_scans, merge_scans
from vitreous.powder.files.scan_parts import split_scans
from vitreous.powder.pattern import Pattern, check_pattern
from vitreous.powder.radiation import Radiation, radiation_from_user

__all__ = ["FORMATS", "PeakList", "ReadOptions", "read_pattern", "read_peak_list", "write_pattern"]

MAX_BYTES = 64_000_000  # more than any pattern, less than memory
_MAX_LIST_BYTES = 1_000_000  # more than any list of peaks
_MERGED_SIZE = 4  # bytes of merged scans, with what is around each of them, relative to those of a file
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
    path: InputPath,
    wavelength: float | None = None,
    anode: str | None = None,
    max_bytes: int = MAX_BYTES,
    *,
    axis: AxisName | None = None,
    columns: Sequence[str | int] = (),
    scan: Scan | None = None,
    fixed_angle: float | None = None,
    neutrons: bool = False,
) -> Pattern:
    """Read one pattern.

    The first column of a text file is 2θ in degrees, or what its heading or `axis` says: θ, d, 1/d, Q, sin θ, sin² θ or
    an energy, which are converted. A file that states its number of points must hold that many.

    Of the scans of a diffractometer file, GSAS file or CIF the first is read unless `scan` says otherwise, and a note
    of the pattern says so; in text with several scans one must be chosen.

    Formats by suffix: text in columns (.xy .xye .csv .dat .txt), Panalytical .xrdml, Rigaku .ras and .rasx, Bruker .raw
    and .brml, GSAS .gsa, .gsas, .fxye and .raw, powder .cif. Each may be followed by `.gz`.

    Args:
        path: the file.
        wavelength: ångström; replaces that of the file.
        anode: of the X-ray tube, e.g. `Cu`; its Kα1 and Kα2 replace the wavelength of the file.
        max_bytes: size limit, also after decompression.
        axis: `2theta`, `theta` (degrees), `d` (Å), `q` (1/Å), `1/d2`, `sin2theta` (sin² θ) or `energy` (keV): what the
            first column of a text file is; replaces its heading.
        columns: names or numbers (from 1) of angle, intensity and optionally standard error in a text file.
        scan: number of the scan from 1, or `merge`.
        fixed_angle: 2θ of the detector in degrees, for energies.
        neutrons: the radiation is neutrons of one wavelength.
    """
    file = as_input_file(path)
    radiation = radiation_from_user(wavelength, anode, neutrons)
    options = ReadOptions(axis, columns, scan, fixed_angle, neutrons)
    try:
        pattern = check_pattern(_read(file, max_bytes, radiation, options))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    return replace(pattern, name=file.name).with_radiation(radiation)


def _read(path: InputFile, max_bytes: int, radiation: Radiation, options: ReadOptions) -> Pattern:
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
        content = Content(data, kind, max_bytes, radiation, options)
        content = content.unpacked() if kind in _ZIPPED else content
        content.check_words()
        pattern = read_columns(content) if _READERS[kind] is read_columns else _read_scans(content)
        if (points := len(pattern.two_theta)) > MAX_POINTS:
            raise InputError(f"found {points} points, expected at most {MAX_POINTS}")
        return pattern
    except InputError:
        raise
    except Exception as error:  # damaged files raise all kinds of errors in the readers
        raise InputError(f"cannot be read as {kind} ({first_line(error)})") from None


def _read_scans(content: Content) -> Pattern:
    """The chosen scans of a file whose format keeps them apart; without a choice the first, and a note about others."""
    content.options.require_no_columns(content.kind)
    read = _READERS[content.kind]
    if content.options.scan is None:
        pattern, count = read(content), len(split_scans(content))
        note = f"the file holds {count} scans, of which the first was used; {ADVICE}"
        return pattern if count == 1 else replace(pattern, notes=(*pattern.notes, note))
    parts, patterns, size = split_scans(content), list[Pattern](), 0
    for index in choose_scans([""] * len(parts), content.options):
        part = parts[index]()
        size += len(part.data)
        if size > _MERGED_SIZE * content.max_bytes:
            raise InputError(f"scan: found more than {_MERGED_SIZE * content.max_bytes} bytes to merge, expected fewer")
        patterns.append(read(part))
    return merge_scans(patterns)


def read_peak_list(
    path: InputPath, wavelength: float | None = None, anode: str | None = None, options: ReadOptions = AS_IN_FILE
) -> PeakList:
    """Read a list of peaks as text, one per row: 2θ in degrees, and intensities if there are any.

    Headings or the options may name the columns, with the quantities of `read_pattern`, which the wavelength converts.
    """
    file = as_input_file(path)
    radiation = radiation_from_user(wavelength, anode, options.neutrons)
    if options.scan is not None:
        raise InputError("scan: only for patterns, not for lists of lines")
    try:
        with file.open("rb") as stream:
            data: bytes = stream.read(_MAX_LIST_BYTES + 1)
        if len(data) > _MAX_LIST_BYTES:
            raise InputError(f"found more than {_MAX_LIST_BYTES} bytes, expected a list of peaks")
        return parse_peak_list(Content(data, file.suffix, _MAX_LIST_BYTES).text(), radiation, options)
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
    except (InputError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: {first_line(error)}") from None
