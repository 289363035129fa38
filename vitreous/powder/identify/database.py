"""`Database`: the crystals of a database file, memory-mapped, so that opening takes milliseconds whatever its size.

The file has the safetensors format. Its metadata are the version of the format, that of the package which built it and
the digest of the model of its embeddings. `FIXED` and `RAGGED` list its arrays.
"""

import json
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.powder.identify.contents import ELEMENT_WORDS, element_bits, elements_of_bits
from vitreous.powder.identify.entry import Entry, EntryLines
from vitreous.powder.sim.space_groups import SYSTEMS
from vitreous.powder.sim.structure import atomic_numbers

FORMAT = "vitreous phases 1"
"""In the metadata of a file; the number changes when older programs cannot read the file."""
STRONGEST = 8
"""Lines in the array `strongest`."""
_MAX_HEADER = 1 << 20  # bytes
TYPES: dict[str, np.dtype[Any]] = {
    "U8": np.dtype("u1"), "I16": np.dtype("<i2"), "I32": np.dtype("<i4"), "U32": np.dtype("<u4"),
    "F16": np.dtype("<f2"), "F32": np.dtype("<f4"), "I64": np.dtype("<i8"), "F64": np.dtype("<f8"),
}  # fmt: skip
FIXED: dict[str, tuple[str, tuple[int, ...]]] = {  # type and shape of the row of each entry
    "cell": ("F64", (6,)),  # Å and degrees
    "reduced": ("F64", (6,)),  # the Niggli-reduced cell
    "volume": ("F64", ()),  # Å³
    "cell_mass": ("F64", ()),  # g/mol
    "line_count": ("I64", ()),
    "text_length": ("I64", (4,)),  # bytes of the texts `TEXTS`
    "elements": ("U32", (ELEMENT_WORDS,)),  # bits
    "strongest": ("F32", (STRONGEST,)),  # 1/Å
    "sources": ("I32", ()),  # structures that were joined in the entry
    "spacegroup": ("I16", ()),
    "embedding": ("F16", (-1,)),
    "system": ("U8", ()),  # place in `SYSTEMS`
    "has_atoms": ("U8", ()),
}
RAGGED: dict[str, tuple[str, tuple[int, ...], str]] = {  # type and shape of an element, and the array of the lengths
    "line_s": ("F32", (), "line_count"),
    "line_intensity": ("F32", (), "line_count"),
    "line_hkl": ("I16", (3,), "line_count"),
    "text": ("U8", (), "text_length"),  # UTF-8
}
ITEMS: dict[str, tuple[str, tuple[int, ...]]] = {  # of the files or parts of files that were read
    "item": ("U8", (16,)),  # digest of the path in the source and the content
    "failures": ("U8", ()),  # JSON: a list of sources and the reasons why they were not read
}
TEXTS = ("name", "formula", "source", "symbol")
Table = Mapping[str, NDArray[Any]]
"""The arrays of a database by name."""


class Database:
    """The n crystals of a database file; `Database.open` reads one.

    Attributes:
        cell: `(n, 6)` float64, a, b, c in Å and α, β, γ in degrees.
        reduced: `(n, 6)` float64, the Niggli-reduced cells of the lattices.
        volume: `(n,)` float64, of the cell, Å³.
        cell_mass: `(n,)` float64, g/mol, of the atoms in the cell; 0 for entries without atoms.
        spacegroup: `(n,)` int16, numbers; 0 where it is unknown.
        elements: `(n, 4)` uint32, bit z - 1 is set for the element of the atomic number z.
        embedding: `(n, d)` float16; d is 0 in a database that was built without the model.
        strongest: `(n, 8)` float32, 1/d in 1/Å of the lines that are strongest with Cu Kα, strongest first; 0 if fewer.
        sources: `(n,)` int32, structures that were joined in each entry as duplicates.
        has_atoms: `(n,)` bool; the others can be identified and not quantified.
    """

    def __init__(self, path: Path | str, arrays: Table, metadata: Mapping[str, str]) -> None:
        self.path = Path(path)
        self.arrays = arrays
        self.model = metadata.get("embedding", "")  # digest of the model of the embeddings, or ""
        self.builder = metadata.get("builder", "")  # version of the package
        self.cell, self.reduced, self.volume = arrays["cell"], arrays["reduced"], arrays["volume"]
        self.cell_mass, self.spacegroup, self.elements = arrays["cell_mass"], arrays["spacegroup"], arrays["elements"]
        self.embedding, self.strongest, self.sources = arrays["embedding"], arrays["strongest"], arrays["sources"]
        self.has_atoms: NDArray[np.bool_] = arrays["has_atoms"].view(np.bool_)
        self.line_start = _starts(arrays["line_count"])  # (n + 1,), in the arrays of lines
        self._text_start = _starts(arrays["text_length"])  # (4 n + 1,)

    @classmethod
    def open(cls, path: Path | str, may_be_empty: bool = False) -> Self:
        """Open a database file; raises `InputError` if the file is something else or has no entries."""
        path = Path(path)
        arrays, metadata = _map_file(path)
        _check_arrays(path, arrays)
        if not may_be_empty and not len(arrays["cell"]):
            raise InputError(f"{path}: found no entries, expected a database of phases")
        return cls(path, arrays, metadata)

    @property
    def count(self) -> int:
        """Number of entries."""
        return len(self.cell)

    def __len__(self) -> int:
        return self.count

    def name(self, i: int) -> str:
        """Name of the phase, e.g. `Quartz`."""
        return self._text(i, "name")

    def formula(self, i: int) -> str:
        """Chemical formula, e.g. `SiO2`."""
        return self._text(i, "formula")

    def source(self, i: int) -> str:
        """The file that the entry comes from, and the place in it."""
        return self._text(i, "source")

    def symbol(self, i: int) -> str:
        """Symbol of the space group as the source writes it; empty if there was none."""
        return self._text(i, "symbol")

    def lines(self, i: int) -> EntryLines:
        """The lines of an entry."""
        i = range(self.count)[i]  # which a negative number counts from the end
        rows = slice(self.line_start[i], self.line_start[i + 1])
        return EntryLines(*(self.arrays[name][rows] for name in ("line_hkl", "line_s", "line_intensity")))

    @cached_property
    def determined(self) -> NDArray[np.int64]:
        """How many structures `(n,)` of the same name and space group as each entry were read: how common it is."""
        kinds: dict[tuple[str, int], int] = {}
        groups = self.spacegroup.tolist()
        places = [kinds.setdefault((self.name(i).lower(), group), len(kinds)) for i, group in enumerate(groups)]
        total = np.bincount(places, self.sources, len(kinds)).astype(np.int64)
        return np.asarray(total[places])

    def entry(self, i: int) -> Entry:
        """Everything that is known of an entry."""
        cell, reduced = (tuple(each[i].tolist()) for each in (self.cell, self.reduced))
        return Entry(
            name=self.name(i),
            formula=self.formula(i),
            source=self.source(i),
            spacegroup=self.symbol(i),
            number=int(self.spacegroup[i]),
            system=SYSTEMS[self.arrays["system"][i]],
            cell=cell,
            reduced=reduced,
            cell_mass=float(self.cell_mass[i]),
            elements=elements_of_bits(self.elements[i]),
            lines=self.lines(i),
            has_atoms=bool(self.has_atoms[i]),
        )

    def having(self, required: Collection[str] = (), excluded: Collection[str] = ()) -> NDArray[np.bool_]:
        """Whether each entry `(n,)` has all the required elements and none of the excluded ones."""
        chosen = np.ones(self.count, dtype=np.bool_)
        for symbol in (*required, *excluded):
            bits = self.elements & element_bits([[_element(symbol)]])
            contains = bits.any(axis=1)
            if symbol in required and not contains.any():
                raise InputError(f"elements: found {symbol}, which no entry of {self.path} contains")
            chosen &= contains if symbol in required else ~contains
        return chosen

    def item_ids(self) -> list[bytes]:
        """Identifiers of the items of the sources that were read, those that failed too."""
        return [row.tobytes() for row in self.arrays["item"]]

    def _text(self, i: int, kind: str) -> str:
        place = len(TEXTS) * range(self.count)[i] + TEXTS.index(kind)
        start, end = self._text_start[place : place + 2]
        return self.arrays["text"][start:end].tobytes().decode(errors="replace")


def _element(symbol: str) -> str:
    if symbol not in atomic_numbers():
        raise InputError(f"elements: found {symbol[:50]!r}, expected symbols of elements, such as Fe")
    return symbol


def _starts(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each of the ragged rows starts, and where the last ends."""
    return np.concatenate([[0], np.cumsum(lengths)])


def _map_file(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays and the metadata of a database file."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError(f"{path}: no such file, expected a database made by vitreous powder database")
    try:
        with safe_open(path, framework="np") as file:  # which checks that the header and the size agree
            metadata = file.metadata() or {}
    except (SafetensorError, OSError):
        raise InputError(f"{path}: not a database of phases, expected a file of vitreous powder database") from None
    if metadata.get("format") != FORMAT:
        made = metadata.get("format", "another kind of file")[:100]
        raise InputError(f"{path}: found {made!r}, expected {FORMAT!r}; build it again with vitreous powder database")
    content = np.memmap(path, dtype=np.uint8, mode="r")
    start = 8 + int(content[:8].view("<u8")[0])
    if start > _MAX_HEADER:
        raise InputError(f"{path}: found a header of {start} bytes, expected {_MAX_HEADER} at most")
    header = json.loads(content[8:start].tobytes())
    arrays = {}
    for name, layout in header.items():
        if name == "__metadata__" or layout["dtype"] not in TYPES:
            continue
        first, last = (start + offset for offset in layout["data_offsets"])
        values = np.asarray(content[first:last]).view(TYPES[layout["dtype"]])
        arrays[name] = values.reshape(layout["shape"])
    return arrays, metadata


def _check_arrays(path: Path, arrays: Table) -> None:
    """Raise `InputError` unless all arrays are there with their types and lengths."""
    expected = {**FIXED, **{name: (kind, shape) for name, (kind, shape, _) in RAGGED.items()}, **ITEMS}
    count = len(arrays["cell"]) if "cell" in arrays else -1
    for name, (kind, shape) in expected.items():  # the lengths of ragged arrays come before these
        array = arrays.get(name, np.empty(()))
        fits = array.dtype == TYPES[kind] and array.ndim == 1 + len(shape)
        fits = fits and all(size in (-1, found) for size, found in zip(shape, array.shape[1:], strict=True))
        if fits and name in FIXED:
            fits = len(array) == count
        if fits and name in RAGGED:
            lengths = arrays[RAGGED[name][2]]
            fits = bool((lengths >= 0).all()) and int(lengths.sum()) == len(array)
        if not fits:
            raise InputError(f"{path}: is damaged (its array {name} is missing or has another size)")
