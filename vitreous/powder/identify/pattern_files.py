"""Identify the phases of pattern files, one after the other."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vitreous.core.errors import InputError
from vitreous.data.uploads import InputFile
from vitreous.powder.files import read_pattern
from vitreous.powder.files.reading import AS_IN_FILE, ReadOptions
from vitreous.powder.identify.answer import Identification
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.identification import IdentifyOptions, identify_pattern
from vitreous.powder.known import NOTHING_KNOWN, Known
from vitreous.powder.pattern import Pattern


@dataclass(frozen=True)
class FileOptions:
    """How pattern files are read.

    Args:
        anode: of the X-ray tube, e.g. `Cu`; replaces the radiation that the file states.
        wavelength: ångström; replaces the wavelength that the file states.
        reading: axis, columns and scans of files, neutrons.
        known: which angles count, and a zero shift.
    """

    anode: str | None = None
    wavelength: float | None = None
    reading: ReadOptions = AS_IN_FILE
    known: Known = NOTHING_KNOWN

    def read(self, path: InputFile) -> Pattern:
        """The pattern of a file, at the angles that count."""
        return self.known.select(read_pattern(path, self.wavelength, self.anode, **vars(self.reading)))

    @property
    def words(self) -> str:
        """The options as words of a command line, each after a space."""
        values = {"anode": self.anode, "wavelength": self.wavelength}
        flags = "".join(f" --{name} {value}" for name, value in values.items() if value)
        return flags + self.reading.words + self.known.words


@dataclass(frozen=True)
class Failure:
    """A file of which no phases could be found: its name and the reason."""

    name: str
    reason: str

    @property
    def text(self) -> str:
        """One line for people."""
        return self.reason if self.reason.startswith(self.name) else f"{self.name}: {self.reason}"


DEFAULT_FILES = FileOptions()


def option_words(options: IdentifyOptions) -> str:
    """Options as words of a command line, each after a space."""
    lists = {"elements": options.elements, "exclude-elements": options.excluded}
    words = "".join(f" --{name} {' '.join(symbols)}" for name, symbols in lists.items() if symbols)
    words += f" --max-phases {options.most}" if options.most != IdentifyOptions.most else ""
    if options.standard is not None:
        words += f" --standard {shlex.quote(options.standard[0])} {100 * options.standard[1]:g}"
    return words


def identify_file(
    path: InputFile, database: Database, options: IdentifyOptions | None = None, files: FileOptions = DEFAULT_FILES
) -> Identification:
    """The phases of one pattern file."""
    return identify_pattern(files.read(path), database, options)


def identify_files(
    paths: Sequence[Path], database: Database, options: IdentifyOptions | None = None,
    files: FileOptions = DEFAULT_FILES,
) -> Iterator[Identification | Failure]:  # fmt: skip
    """The phases of each file in turn; an error in one does not stop the others."""
    for path in paths:
        try:
            yield identify_file(path, database, options, files)
        except InputError as error:
            yield Failure(path.name, str(error))
