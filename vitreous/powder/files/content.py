"""The content of a pattern file as bytes, text, XML or members of a zip, with limits against malicious files."""

import io
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from xml.etree import ElementTree

import numpy as np

from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.powder.files.reading import AS_IN_FILE, ReadOptions
from vitreous.powder.pattern import Floats
from vitreous.powder.radiation import UNKNOWN, Radiation

MAX_POINTS = 2_000_000  # of a pattern
_MAX_WORDS = 3 * MAX_POINTS  # numbers and names in a file: angle, intensity and standard error of each point
_MAX_MEMBERS = 10_000  # of a zip
_MAX_ATTRIBUTES = 1000  # of an XML element
_MAX_ELEMENTS = 1000  # of a name
_LONGEST_VALUE = 100  # characters of a number in XML
_CHUNK = 1 << 20  # bytes
_SEPARATORS = np.isin(np.arange(256), [*range(33), *b",;<>"])  # bytes between words


@dataclass(frozen=True)
class Content:
    """Decompressed bytes of a file, and how to read them."""

    data: bytes
    kind: str  # lower-case suffix, e.g. `.xy`
    max_bytes: int  # size limit of all members of a zip together
    radiation: Radiation = UNKNOWN  # that of the user, which replaces the one in the file
    options: ReadOptions = AS_IN_FILE  # axis, columns and scans as the user states them
    members: Mapping[str, bytes] = field(default_factory=dict)  # of a zip, by path in lower case
    names: Mapping[str, str] = field(default_factory=dict)  # of the members as they are in the zip, by the same path

    def text(self) -> str:
        """The text, in UTF-8, UTF-16 or Latin-1."""
        if self.data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return self.data.decode("utf-16")
        if b"\0" in self.data:
            raise InputError("found binary content, expected text")
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return self.data.decode("latin-1")

    def counts(self) -> tuple[Floats, Floats]:
        """2θ in degrees and intensity, read by geddes, which also compares them with a stated number of points."""
        points = load_extra("geddes", "powder").read_bytes(self.data, f"pattern{self.kind}")
        return np.array(points.x, dtype=np.float64), np.array(points.y, dtype=np.float64)

    def check_words(self) -> None:
        """Raise `InputError` if there are more numbers than a pattern has."""
        is_binary = self.data.startswith(b"RAW")  # of Bruker, with four bytes or more for a point
        parts = self.members.values() or [self.data]
        words = len(self.data) // 4 if is_binary else sum(map(_count_words, parts))
        if words > _MAX_WORDS:
            raise InputError(f"found {words} numbers or words, expected a pattern of at most {MAX_POINTS} points")

    def unpacked(self) -> "Content":
        """The members of a zip, whose sizes are verified, and a zip of them for geddes, which trusts the sizes."""
        if self.data.count(b"PK\1\2") > _MAX_MEMBERS:
            raise InputError(f"found more than {_MAX_MEMBERS} files in a zip, expected a powder pattern")
        members, names, size = {}, {}, 0
        with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
            for member in archive.infolist():
                if not member.filename.lower().endswith((".xml", ".txt")):
                    continue
                size += member.file_size
                if size > self.max_bytes:
                    limit = f"expected {self.max_bytes} at most"
                    raise InputError(f"{member.filename!r} would unpack to {member.file_size} bytes, {limit}")
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise InputError(f"{member.filename!r} is compressed by another method than zip's deflate")
                content = archive.read(member)  # at most the stated size; its checksum is verified
                members[member.filename.lower()] = content
                names[member.filename.lower()] = member.filename
        for path, content in members.items():
            if path.endswith(".xml"):
                read_xml(content, ())
        return replace(self, data=zip_members(members, names), members=members, names=names)

    def member(self, matches: Callable[[str], bool]) -> bytes:
        """The first member of a zip by its path in lower case; an empty element of XML if there is none."""
        return next((self.members[path] for path in sorted(self.members) if matches(path)), b"<none/>")


def zip_members(members: Mapping[str, bytes], names: Mapping[str, str]) -> bytes:
    """A zip of members, uncompressed, under their names."""
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w") as target:
        for path, content in members.items():
            target.writestr(names[path], content)
    return copy.getvalue()


def _count_words(data: bytes) -> int:
    """Words separated by spaces and signs, counted in little memory."""
    count, before = 0, True
    for start in range(0, len(data), _CHUNK):
        gap = _SEPARATORS[np.frombuffer(data, np.uint8, min(_CHUNK, len(data) - start), start)]
        count += int(np.count_nonzero(gap[:-1] & ~gap[1:])) + int(before and not gap[0])
        before = bool(gap[-1])
    return count


def check_count(stated: int, count: int) -> None:
    """Raise `InputError` if a file does not hold as many points as it states."""
    if stated != count:
        raise InputError(f"states {stated} points, found {count}; is the file complete?")


class _Elements:
    """Keeps named elements with their text, and no others; for `ElementTree.XMLParser`."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names
        self.elements: dict[str, list[ElementTree.Element]] = {name: [] for name in names}
        self._current: ElementTree.Element | None = None

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        """Refuse document types: only they can declare entities, which expand a small file without limit."""
        raise InputError("found a document type declaration, expected plain XML")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(attributes) > _MAX_ATTRIBUTES:
            raise InputError(f"found {len(attributes)} attributes of an element, expected {_MAX_ATTRIBUTES} at most")
        name = tag.rpartition("}")[2]
        is_wanted = name in self.names and len(self.elements[name]) < _MAX_ELEMENTS
        self._current = ElementTree.Element(name, attributes) if is_wanted else None
        if self._current is not None:
            self.elements[name].append(self._current)

    def data(self, text: str) -> None:
        if self._current is not None and len(before := self._current.text or "") < _LONGEST_VALUE:
            self._current.text = before + text

    def end(self, tag: str) -> None:
        self._current = None


def read_xml(data: bytes, names: Collection[str]) -> dict[str, list[ElementTree.Element]]:
    """Elements with these names in any namespace, without their children, by name."""
    elements = _Elements(names)
    parser = ElementTree.XMLParser(target=elements)
    parser.feed(data)
    parser.close()
    return elements.elements


def first_number(elements: list[ElementTree.Element]) -> float | None:
    """The attribute `Value` or the text of the first element; lengths in ångström."""
    for element in elements:
        return in_angstrom(element.get("Value", element.text), element.get("unit", element.get("Unit")))
    return None


def in_angstrom(word: str | None, unit: str | None) -> float | None:
    """A number, converted from nm; None if it is not a number."""
    try:
        return float(word or "") * (10 if (unit or "").strip().lower() in ("nm", "nanometer") else 1)
    except ValueError:
        return None
