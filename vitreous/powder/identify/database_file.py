"""Write database files: entries as arrays, and rows of several databases as one file."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitreous.core.atomic import open_atomically
from vitreous.core.version import __version__
from vitreous.powder.identify.contents import element_bits
from vitreous.powder.identify.database import FIXED, FORMAT, ITEMS, RAGGED, STRONGEST, TYPES, Table
from vitreous.powder.identify.entry import Entry, EntryLines, powder_strength
from vitreous.powder.sim.space_groups import SYSTEMS

_ROWS = 1024  # entries in memory at once
_ITEM_SIZE = 16
_WORDS = {name: row[0] for table in (FIXED, RAGGED, ITEMS) for name, row in table.items()}  # of the types
_KINDS = {  # in the order of the file, the widest first, so that all arrays are aligned
    name: TYPES[word] for name, word in sorted(_WORDS.items(), key=lambda pair: (-TYPES[pair[1]].itemsize, pair[0]))
}


class Selection(NamedTuple):
    """Rows of a table of entries, in ascending order."""

    table: Table
    rows: NDArray[np.int64]


def entry_arrays(entries: Sequence[Entry], embedding: NDArray[np.float16] | None = None) -> dict[str, NDArray[Any]]:
    """Entries as the arrays of a database, without embeddings if there are none."""
    texts = [[text.encode() for text in (e.name, e.formula, e.source, e.spacegroup)] for e in entries]
    values: dict[str, Any] = {
        "cell": [e.cell for e in entries],
        "reduced": [e.reduced for e in entries],
        "volume": [e.volume for e in entries],
        "cell_mass": [e.cell_mass for e in entries],
        "line_count": [len(e.lines.s) for e in entries],
        "text_length": [[len(text) for text in row] for row in texts],
        "elements": element_bits(e.elements for e in entries),
        "strongest": [strongest_lines(e.lines) for e in entries],
        "sources": np.ones(len(entries)),
        "spacegroup": [e.number for e in entries],
        "embedding": np.empty((len(entries), 0)) if embedding is None else embedding,
        "system": [SYSTEMS.index(e.system) for e in entries],
        "has_atoms": [e.has_atoms for e in entries],
        "line_s": np.concatenate([np.empty(0), *(e.lines.s for e in entries)]),
        "line_intensity": np.concatenate([np.empty(0), *(e.lines.intensity for e in entries)]),
        "line_hkl": np.concatenate([np.empty((0, 3)), *(e.lines.hkl for e in entries)]),
        "text": np.frombuffer(b"".join(text for row in texts for text in row), np.uint8),
    }
    arrays = {}
    for name, value in values.items():
        kind, shape = FIXED[name] if name in FIXED else RAGGED[name][:2]
        arrays[name] = np.asarray(value, dtype=TYPES[kind]).reshape(-1, *shape) if -1 not in shape else value
    return arrays


def strongest_lines(lines: EntryLines) -> NDArray[np.float32]:
    """1/d of the strongest lines with Cu Kα `(8,)`, strongest first; 0 after the last."""
    order = np.argsort(-powder_strength(lines.s, lines.intensity), kind="stable")[:STRONGEST]
    found = np.zeros(STRONGEST, dtype=np.float32)
    found[: len(order)] = lines.s[order]
    return found


def write_database(
    path: Path, selections: Sequence[Selection], items: NDArray[np.uint8], failures: Sequence[tuple[str, str]],
    model: str = "", replaced: Mapping[str, NDArray[Any]] | None = None,
) -> None:  # fmt: skip
    """Write the selected rows in their order as a database file, little of it in memory at once.

    Args:
        items: digests `(k, 16)` of what was read.
        failures: sources that could not be read, and the reasons.
        model: digest of the model of the embeddings.
        replaced: arrays of `FIXED` with a row for each selected entry, in place of those of the tables.
    """
    text = json.dumps([list(failure) for failure in failures], ensure_ascii=False, separators=(",", ":"))
    extra: dict[str, NDArray[Any]] = {
        **(replaced or {}),
        "item": items.reshape(-1, _ITEM_SIZE),
        "failures": np.frombuffer(text.encode(), np.uint8),
    }
    shapes = {name: extra[name].shape if name in extra else _shape(name, selections) for name in _KINDS}
    header = _header(shapes, {"builder": __version__, "embedding": model, "format": FORMAT})
    with open_atomically(path) as file:
        file.write(header)
        for name in _KINDS:
            for part in [extra[name]] if name in extra else _parts(name, selections):
                file.write(np.ascontiguousarray(part, dtype=_KINDS[name]).tobytes())


def _header(shapes: Mapping[str, Sequence[int]], metadata: Mapping[str, str]) -> bytes:
    """The header of the safetensors format: the length of a JSON text, and the text."""
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, kind in _KINDS.items():
        start, end = end, end + math.prod(shapes[name]) * kind.itemsize
        header[name] = {"dtype": _WORDS[name], "shape": list(shapes[name]), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _shape(name: str, selections: Sequence[Selection]) -> tuple[int, ...]:
    """Of an array of all selected rows."""
    if name in FIXED:
        return sum(len(rows) for _, rows in selections), *selections[0].table[name].shape[1:]
    _, shape, lengths = RAGGED[name]
    return sum(int(table[lengths][rows].sum()) for table, rows in selections), *shape


def _parts(name: str, selections: Sequence[Selection]) -> Iterator[NDArray[Any]]:
    """An array of all selected rows, in parts."""
    for table, rows in selections:
        for chosen in np.array_split(rows, range(_ROWS, len(rows), _ROWS)):
            if name in FIXED:
                yield table[name][chosen]
                continue
            lengths = table[RAGGED[name][2]]
            lengths = lengths.sum(1) if lengths.ndim == 2 else lengths
            ends = np.cumsum(lengths)
            yield from _runs(table[name], ends - lengths, ends, chosen)


def _runs(
    array: NDArray[Any], starts: NDArray[np.int64], ends: NDArray[np.int64], rows: NDArray[np.int64]
) -> Iterator[NDArray[Any]]:
    """The ragged rows of an array; rows that follow each other are one piece."""
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    for run in np.split(rows, breaks):
        if len(run):
            yield array[starts[run[0]] : ends[run[-1]]]
