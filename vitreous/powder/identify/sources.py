"""What a database is built from: folders and archives of CIFs, files of structures, and lists of cells.

Everything is read in memory with limits on the size; archives are not unpacked to the disk.
"""

import csv
import gzip
import hashlib
import io
import json
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from vitreous.core.errors import InputError, first_line

ID_BYTES = 16
_MAX_CIF = 32 << 20  # bytes, decompressed
_MAX_LINE = 4 << 20  # bytes, of a structure in a file of structures
_MAX_LIST = 256 << 20  # bytes, of a list of cells
_MAX_ITEMS = 5_000_000
_CIF = (".cif", ".cif.gz")
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".txz")
_STRUCTURES = (".jsonl", ".jsonl.gz")
_LENGTHS = ("a", "b", "c")
_EXPECTED = "a folder, .zip or .tar.gz of CIFs, a .cif, a .jsonl.gz of structures, or a .csv of cells"
_UNREADABLE = (OSError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class Item:
    """A part of a source that becomes one entry, or several, with its content."""

    source: str  # shown to the user
    path: str  # inside the source, "" for a part of a file; with the content, it identifies the item
    kind: str  # cif, structure or cell
    content: bytes
    reason: str = ""  # why the content could not be read

    @property
    def id(self) -> bytes:
        """Digest of the path and the content."""
        digest = hashlib.blake2b(digest_size=ID_BYTES)
        for part in (self.kind.encode(), self.path.encode(errors="surrogateescape"), self.content):
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.digest()


def read_items(sources: Sequence[Path]) -> Iterator[Item]:
    """The items of all sources in a fixed order; raises `InputError` for a source that holds none."""
    total = 0
    for source in sources:
        count = 0
        try:
            for item in _reader(source)(source):
                count += 1
                yield item
        except _UNREADABLE as error:
            raise InputError(f"{source}: cannot be read ({first_line(error)})") from None
        if not count:
            raise InputError(f"{source}: found no structures, expected {_EXPECTED}")
        total += count
        if total > _MAX_ITEMS:
            raise InputError(f"{source}: found more than {_MAX_ITEMS} structures in all sources")


def check_sources(sources: Sequence[Path]) -> None:
    """Raise `InputError` unless every source exists and is of a known kind."""
    if not sources:
        raise InputError(f"sources: found none, expected {_EXPECTED}")
    for source in sources:
        _reader(source)


def _reader(source: Path) -> Callable[[Path], Iterator[Item]]:
    if source.is_dir():
        return _folder_items
    if not source.is_file():
        raise InputError(f"{source}: no such file or folder")
    name = source.name.lower()
    for suffixes, reader in _READERS.items():
        if name.endswith(suffixes):
            return reader
    raise InputError(f"{source}: unknown kind of source, expected {_EXPECTED}")


def _folder_items(folder: Path) -> Iterator[Item]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            file = Path(place) / name
            if name.lower().endswith(_CIF) and file.is_file():
                yield _cif_from_file(file, file.relative_to(folder).as_posix())


def _cif_items(file: Path) -> Iterator[Item]:
    yield _cif_from_file(file, file.name)


def _cif_from_file(file: Path, path: str) -> Item:
    try:
        with file.open("rb") as stream:
            return _cif_item(stream, path)
    except OSError as error:
        return Item(path, path, "cif", b"", f"cannot be read ({error.strerror})")


def _zip_items(file: Path) -> Iterator[Item]:
    with zipfile.ZipFile(file) as archive:
        for member in sorted(archive.infolist(), key=lambda member: member.filename):
            if member.filename.lower().endswith(_CIF) and not _is_hidden(member.filename):
                try:
                    with archive.open(member) as stream:
                        yield _cif_item(stream, member.filename)
                except _UNREADABLE as error:
                    reason = f"cannot be read ({first_line(error)})"
                    yield Item(member.filename, member.filename, "cif", b"", reason)


def _tar_items(file: Path) -> Iterator[Item]:
    with tarfile.open(file, "r|*") as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if member.isfile() and name.lower().endswith(_CIF) and not _is_hidden(name):
                stream = archive.extractfile(member)
                if stream is not None:
                    yield _cif_item(stream, name)


def _is_hidden(path: str) -> bool:
    """Whether a file only accompanies another, as macOS writes them into archives."""
    return path.startswith("__MACOSX/") or path.rpartition("/")[2].startswith("._")


def _cif_item(stream: IO[bytes], path: str) -> Item:
    """The content of a CIF, which may be compressed once more; at most a little over the limit is read."""
    reason = ""
    try:
        if path.lower().endswith(".gz"):
            with gzip.open(stream) as unpacked:
                content = unpacked.read(_MAX_CIF + 1)
        else:
            content = stream.read(_MAX_CIF + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        content, reason = b"", f"cannot be unpacked ({first_line(error)})"
    if len(content) > _MAX_CIF:
        content, reason = b"", f"is larger than {_MAX_CIF >> 20} MB"
    return Item(path, path, "cif", content, reason)


def _structure_items(file: Path) -> Iterator[Item]:
    """One structure a line, as JSON."""
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        number = 0
        while line := stream.readline(_MAX_LINE + 1):
            number += 1
            source = f"{file.name}, line {number}"
            if len(line) > _MAX_LINE:
                raise InputError(f"{file}, line {number}: is longer than {_MAX_LINE >> 20} MB, expected a structure")
            if line.strip():
                yield Item(source, "", "structure", line.strip())


def _cell_items(file: Path) -> Iterator[Item]:
    """One cell a row of a table: a, b, c in Å; angles in degrees, name, spacegroup and formula may be missing."""
    if file.stat().st_size > _MAX_LIST:
        raise InputError(f"{file}: is larger than {_MAX_LIST >> 20} MB, expected a list of cells")
    text = file.read_bytes().decode("utf-8-sig", errors="replace")
    if "\0" in text:
        raise InputError(f"{file}: found binary content, expected a table of cells")
    rows = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
    columns = [(name or "").strip().lower() for name in rows.fieldnames or ()]
    if missing := [name for name in _LENGTHS if name not in columns]:
        found = ", ".join(columns)[:100] or "an empty file"
        raise InputError(f"{file}: found {found}; expected columns with the headings a, b, c, missing {missing[0]!r}")
    rows.fieldnames = columns
    try:
        for row in rows:
            values = {name: value.strip() for name, value in row.items() if isinstance(name, str) and value}
            if any(values.values()):
                content = json.dumps(values, sort_keys=True, ensure_ascii=False).encode()
                yield Item(f"{file.name}, line {rows.line_num}", "", "cell", content)
    except csv.Error as error:
        raise InputError(f"{file}, line {rows.line_num}: cannot be read ({error})") from None


_READERS: dict[tuple[str, ...], Callable[[Path], Iterator[Item]]] = {
    _CIF: _cif_items,
    (".zip",): _zip_items,
    _TAR: _tar_items,
    _STRUCTURES: _structure_items,
    (".csv",): _cell_items,
}
