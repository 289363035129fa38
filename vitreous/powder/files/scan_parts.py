"""Scans, ranges, banks and data blocks of a file: for each, the content with this one alone, for the readers."""

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice, pairwise
from xml.parsers import expat

from vitreous.core.errors import InputError
from vitreous.powder.files.cif import ANGLE_TAGS, INTENSITY_TAGS
from vitreous.powder.files.content import Content, zip_members

Part = Callable[[], Content]
Span = tuple[int, int]  # first byte, and the first one after the end

_MOST = 10_000  # scans of a file
_RAW1_HEADER, _RAW1_RANGE, _RAW1_COUNT = 712, 304, 12  # bytes; offset of the number of ranges
_RAW4_HEADER, _RAW4_RANGE, _RAW4_RANGE_SEGMENTS = 61, 160, (0, 160)


def split_scans(content: Content) -> list[Part]:
    """The scans of a file, each as a function that gives its content; one if the format knows no others."""
    parts = _SPLITTERS[content.kind](content) if content.kind in _SPLITTERS else []
    return parts if len(parts) > 1 else [lambda: content]


def _parts(content: Content, spans: Sequence[Span]) -> list[Part]:
    """For each span, the content without the others."""
    return [partial(_without, content, spans, span) for span in spans]


def _without(content: Content, spans: Sequence[Span], kept: Span) -> Content:
    """The content without spans in ascending order, except those that lie within the kept one or around it."""
    pieces, place = [], 0
    for start, end in spans:
        if (end <= kept[0] or start >= kept[1]) and start >= place:
            pieces.append(content.data[place:start])
            place = end
    return replace(content, data=b"".join([*pieces, content.data[place:]]))


def _places(content: Content, pattern: bytes, at_end: bool = False) -> list[int]:
    """Where lines that match begin or end."""
    found = re.finditer(pattern, content.data, re.MULTILINE | re.IGNORECASE)
    places = [match.end() if at_end else match.start() for match in islice(found, _MOST + 1)]
    if len(places) > _MOST:
        raise InputError(f"found more than {_MOST} scans, expected fewer")
    return places


def _xrdml_parts(content: Content) -> list[Part]:
    """Elements `scan`, each within its own `xrdMeasurement`."""
    measurements, scans = _elements(content.data, ("xrdMeasurement", "scan"))
    spans = sorted([*measurements, *scans])
    return [partial(_without, content, spans, scan) for scan in scans]


def _elements(data: bytes, names: Sequence[str]) -> list[list[Span]]:
    """The spans of elements by name, in any namespace; `InputError` for a document type, which may expand."""
    spans: dict[str, list[Span]] = {name: [] for name in names}
    starts: dict[str, int] = {}
    parser = expat.ParserCreate()

    def refuse(*_: object) -> None:
        raise InputError("found a document type declaration, expected plain XML")

    def begin(tag: str, _: object) -> None:
        if (name := tag.rpartition(":")[2]) in spans:
            starts[name] = parser.CurrentByteIndex

    def end(tag: str) -> None:
        if (name := tag.rpartition(":")[2]) in spans:
            spans[name].append((starts[name], data.index(b">", parser.CurrentByteIndex) + 1))
            if len(spans[name]) > _MOST:
                raise InputError(f"found more than {_MOST} scans, expected fewer")

    parser.StartDoctypeDeclHandler, parser.StartElementHandler, parser.EndElementHandler = refuse, begin, end
    parser.Parse(data, True)
    return [spans[name] for name in names]


def _ras_parts(content: Content) -> list[Part]:
    """A header and the points after it."""
    starts = _places(content, rb"^\*RAS_HEADER_START")
    ends = _places(content, rb"^\*RAS_INT_END[^\n]*+\n?", at_end=True)
    return _parts(content, list(zip(starts, ends, strict=True)) if len(starts) == len(ends) else [])


def _gsas_parts(content: Content) -> list[Part]:
    """A BANK line and the points below it."""
    starts = _places(content, rb"^[ \t]*+(?-i:BANK)\s")
    return _parts(content, list(pairwise([*starts, len(content.data)])))


def _cif_parts(content: Content) -> list[Part]:
    """Data blocks with a profile along 2θ; the others, which may hold the radiation, stay."""
    starts = _places(content, rb"^data_")
    blocks = list(pairwise([*starts, len(content.data)]))
    return _parts(content, [block for block in blocks if _has_profile(content.data[slice(*block)])])


def _has_profile(block: bytes) -> bool:
    text = block.lower().replace(b".", b"_")
    return all(any(tag.encode() in text for tag in tags) for tags in (ANGLE_TAGS, INTENSITY_TAGS))


def _raw_parts(content: Content) -> list[Part]:
    if content.data.startswith(b"RAW1.01"):
        return _raw1_parts(content)
    return _raw4_parts(content) if content.data.startswith(b"RAW4") else _gsas_parts(content)


def _raw1_parts(content: Content) -> list[Part]:
    """Ranges of a header, a supplementary header and points; the file's header holds their number."""
    data, spans, place = content.data, list[Span](), _RAW1_HEADER
    while len(spans) < _MOST and place + _RAW1_RANGE <= len(data):
        header, points = struct.unpack_from("<II", data, place)
        size, more = struct.unpack_from("<II", data, place + 252)
        end = place + header + more + points * size
        if end > len(data) or header < _RAW1_RANGE or not points * size:
            break
        spans.append((place, end))
        place = end
    start, one = data[:_RAW1_COUNT], struct.pack("<I", 1)
    single = replace(content, data=start + one + data[_RAW1_COUNT + 4 :])
    return _parts(single, spans)


def _raw4_parts(content: Content) -> list[Part]:
    """Segments of the file, then ranges of a header, its own segments and points."""
    data, spans, place = content.data, list[Span](), _RAW4_HEADER
    while place + 8 <= len(data):
        segment, length = struct.unpack_from("<II", data, place)
        if segment in _RAW4_RANGE_SEGMENTS:
            break
        if length < 8:
            return []
        place += length
    while len(spans) < _MOST and place + _RAW4_RANGE <= len(data):
        (points,) = struct.unpack_from("<I", data, place + 88)
        size, more = struct.unpack_from("<II", data, place + 136)
        end = place + _RAW4_RANGE + more + points * size
        if end > len(data) or not points * size:
            break
        spans.append((place, end))
        place = end
    return _parts(content, spans)


def _rasx_parts(content: Content) -> list[Part]:
    """Folders Data0, Data1, …: each takes the place of the first."""
    folders = _numbered(content, r"data(\d+)/")
    return [partial(_in_place_of_first, content, folders, index) for index in range(len(folders))]


def _brml_parts(content: Content) -> list[Part]:
    """Files RawData0.xml, RawData1.xml, …: each takes the place of the first."""
    files = _numbered(content, r"experiment\d+/rawdata(\d+)\.xml")
    return [partial(_in_place_of_first, content, files, index) for index in range(len(files))]


def _numbered(content: Content, pattern: str) -> list[list[str]]:
    """Members of a zip that match, those with the same number and folder together, in the order of the numbers."""
    groups: dict[tuple[int, str], list[str]] = {}
    for path in sorted(content.members):
        if match := re.match(pattern, path):
            groups.setdefault((int(match[1]), match[0]), []).append(path)
    return [groups[key] for key in sorted(groups)]


def _in_place_of_first(content: Content, scans: Sequence[Sequence[str]], index: int) -> Content:
    """The zip with the members of one scan under the names of the first, by alphabet; those of the others are empty."""
    first, chosen = scans[0], scans[index]
    if len(first) != len(chosen):
        raise InputError(f"found {len(chosen)} files of a scan in a zip, expected {len(first)} as of the first scan")
    members = {**content.members, **dict.fromkeys(chain.from_iterable(scans), b"")}
    members |= {path: content.members[replacement] for path, replacement in zip(first, chosen, strict=True)}
    return replace(content, members=members, data=zip_members(members, content.names))


_SPLITTERS: dict[str, Callable[[Content], list[Part]]] = {
    ".xrdml": _xrdml_parts,
    ".ras": _ras_parts,
    ".rasx": _rasx_parts,
    ".brml": _brml_parts,
    ".raw": _raw_parts,
    **dict.fromkeys((".gsa", ".gsas", ".fxye"), _gsas_parts),
    ".cif": _cif_parts,
}
