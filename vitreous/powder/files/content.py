"""The content of a pattern file as bytes, text, XML or zip members, with limits against malicious files."""

import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np

from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.powder.pattern import Floats


@dataclass(frozen=True)
class Content:
    """Decompressed bytes of a file, its lower-case suffix, e.g. `.xy`, and the size limit of each member of a zip."""

    data: bytes
    kind: str
    max_bytes: int

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
        """2θ in degrees and intensity, read by geddes."""
        points = load_extra("geddes", "powder").read_bytes(self.data, f"pattern{self.kind}")
        return np.array(points.x, dtype=np.float64), np.array(points.y, dtype=np.float64)

    def xml_member(self, name: str) -> ElementTree.Element:
        """The first XML file in a zip whose path matches a regular expression; an empty element if there is none."""
        with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
            for member in archive.infolist():
                if (size := member.file_size) > (most := self.max_bytes):
                    raise InputError(f"{member.filename!r} would unpack to {size} bytes, expected {most} at most")
            paths = (path for path in sorted(archive.namelist()) if re.fullmatch(name, path, re.IGNORECASE))
            path = next(paths, None)
            return ElementTree.Element("none") if path is None else parse_xml(archive.read(path))


class _NoDoctype(ElementTree.TreeBuilder):
    """Refuses document types: only they can declare entities, which expand a small file without limit."""

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        raise InputError("found a document type declaration, expected plain XML")


def parse_xml(data: bytes) -> ElementTree.Element:
    """The root element."""
    return ElementTree.fromstring(data, ElementTree.XMLParser(target=_NoDoctype()))


def elements_named(root: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    """Elements with a tag name in any namespace."""
    return (element for element in root.iter() if element.tag.rpartition("}")[2] == name)


def number_of(root: ElementTree.Element, name: str) -> float | None:
    """The attribute `Value` or the text of the first element with a name; lengths in ångström."""
    for element in elements_named(root, name):
        return in_angstrom(element.get("Value", element.text), element.get("unit", element.get("Unit")))
    return None


def in_angstrom(word: str | None, unit: str | None) -> float | None:
    """A number, converted from nm; None if it is not a number."""
    try:
        return float(word or "") * (10 if (unit or "").strip().lower() in ("nm", "nanometer") else 1)
    except ValueError:
        return None
