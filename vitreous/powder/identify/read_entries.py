"""The entries of an item of a source: of a CIF, of a line of a file of structures, or of a row of a list of cells."""

import json
from collections.abc import Callable
from typing import Any

from vitreous.core.errors import InputError, first_line
from vitreous.core.extras import load_extra
from vitreous.powder.identify.entry import B_ISO, Entry, entry_of, entry_of_cell
from vitreous.powder.identify.sources import Item
from vitreous.powder.sim.structure import Cell
from vitreous.powder.sim.structure_files import parse_mineral, structure_of_block

_NAMES = ("_chemical_name_mineral", "_chemical_name_common", "_chemical_name_systematic")
_LONGEST_NAME = 200  # characters
_MISSING = "<missing>"  # in the name of a mineral
_ANGLES = {"alpha": 90.0, "beta": 90.0, "gamma": 90.0}

Failures = list[tuple[str, str]]
"""Sources that could not be read, and the reasons."""


def entries_of_item(item: Item) -> tuple[list[Entry], Failures]:
    """The entries of an item, and what of it could not be read."""
    if item.reason:
        return [], [(item.source, item.reason)]
    try:
        return _READERS[item.kind](item)
    except Exception as error:  # whatever a file contains, a build of thousands must go on
        return [], [(item.source, _reason(item.source, error))]


def _reason(source: str, error: Exception) -> str:
    text = first_line(error).removeprefix(source).lstrip(":, ")
    return text if isinstance(error, InputError) else f"cannot be read ({text})"


def _cif_entries(item: Item) -> tuple[list[Entry], Failures]:
    """Of every block with a cell and atoms; blocks without a cell are about something else."""
    cif = load_extra("gemmi", "powder").cif
    try:
        text = item.content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = item.content.decode("latin-1")
    try:
        blocks = [block for block in cif.read_string(text) if block.find_value("_cell_length_a")]
    except (ValueError, RuntimeError) as error:
        raise InputError(f"not a CIF ({first_line(error)})") from None
    if not blocks:
        raise InputError("found no unit cell (_cell_length_a)")
    with_atoms = [block for block in blocks if block.find_values("_atom_site_fract_x")]
    if not with_atoms:
        raise InputError("found no atoms")
    entries: list[Entry] = []
    failures: Failures = []
    for block in with_atoms:
        source = item.source if len(with_atoms) == 1 else f"{item.source} {block.name}"
        try:
            entries.append(_entry_of_block(block, source))
        except Exception as error:  # the other blocks may be good
            failures.append((source, _reason(source, error)))
    return entries, failures


def _entry_of_block(block: Any, source: str) -> Entry:
    as_string = load_extra("gemmi", "powder").cif.as_string
    words = [" ".join(as_string(block.find_value(tag) or "").split()) for tag in (*_NAMES, "_chemical_formula_sum")]
    *names, formula = ("" if word in ("?", ".") else word for word in words)
    name = next(filter(None, names), "")[:_LONGEST_NAME]
    return entry_of(structure_of_block(source, block, B_ISO), name, formula, source)


def _structure_entries(item: Item) -> tuple[list[Entry], Failures]:
    structure = parse_mineral(item.source, item.content.decode(), B_ISO)
    record = json.loads(item.content)
    name = "" if record["mineral"] == _MISSING else str(record["mineral"])
    number = str(record["id"])
    source = f"{item.source.partition('.')[0]} {number.zfill(7) if number.isdigit() else number}"
    return [entry_of(structure, name[:_LONGEST_NAME], str(record["formula"]), source)], []


def _cell_entries(item: Item) -> tuple[list[Entry], Failures]:
    row = json.loads(item.content)
    values = []
    for name in ("a", "b", "c", *_ANGLES):
        word = row.get(name, _ANGLES.get(name, ""))
        try:
            values.append(float(word))
        except ValueError:
            raise InputError(f"column {name}: found {str(word)[:50]!r}, expected a number") from None
    a, b, c, alpha, beta, gamma = values
    cell: Cell = (a, b, c, alpha, beta, gamma)
    name, formula = row.get("name", "")[:_LONGEST_NAME], row.get("formula", "")
    return [entry_of_cell(cell, row.get("spacegroup"), name, formula, item.source)], []


_READERS: dict[str, Callable[[Item], tuple[list[Entry], Failures]]] = {
    "cif": _cif_entries,
    "structure": _structure_entries,
    "cell": _cell_entries,
}
