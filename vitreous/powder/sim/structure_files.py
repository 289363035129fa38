"""Read crystal structures: CIF files and the file of minerals."""

import gzip
import json
import math
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.data.builtin import data_folder
from vitreous.powder.cell import check_cell
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.structure import Cell, Operations, Structure, atomic_numbers, metric

_MAX_OCCUPANCY = 1.1  # refined occupancies may exceed 1 slightly
_CELL_TAGS = [f"_cell_length_{axis}" for axis in "abc"] + [f"_cell_angle_{name}" for name in ("alpha", "beta", "gamma")]
_SYMBOL = re.compile("[A-Z][a-z]?")  # an element in a chemical formula
_TERM = re.compile(r"([+-]?)(?:(\d+\.?\d*|\.\d+)(?:/(\d+))?\*?)?([xyz]?)")


def minerals(folder: Path | str | None = None, b_iso: float = 0.0) -> Iterator[Structure]:
    """The structures of `crystals/minerals.jsonl.gz` in the data folder, with `b_iso` (Å²) for every atom."""
    path = Path(folder or data_folder() / "crystals") / "minerals.jsonl.gz"
    if not path.is_file():
        raise InputError(f"{path}: no such file; VITREOUS_DATA names the folder that holds crystals/")
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield parse_mineral(f"{path}, line {number}", line, b_iso)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


def parse_mineral(location: str, line: str, b_iso: float = 0.0) -> Structure:
    """The structure of a line of the file of minerals; `location` is for messages."""
    try:
        record = json.loads(line)
        name, formula = f"{record['mineral']} {record['id']}", record["formula"]
        operations = parse_operations(location, record["operations"])
        labels, *columns = zip(*record["sites"], strict=True)
        numbers = np.array(columns, dtype=np.float64).T  # (n, 4): x, y, z, occupancy
        cell: Any = tuple(float(x) for x in record["cell"])
    except InputError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{location}: not a mineral ({error})") from None
    formula_elements = _SYMBOL.findall(formula)
    elements = tuple(element_of_label(location, label, formula_elements) for label in labels)
    b = np.full(len(elements), b_iso)
    return Structure(name, cell, operations, elements, numbers[:, :3], numbers[:, 3], b, record["spacegroup"])


def read_cif(path: Path | str, b_iso: float = 0.0) -> Structure:
    """The first structure of a CIF (also .gz); `b_iso` (Å²) is for atoms without a displacement parameter."""
    path = Path(path)
    return structure_of_block(str(path), _structure_block(path, load_extra("gemmi", "powder")), b_iso)


def structure_of_block(location: str, block: Any, b_iso: float = 0.0) -> Structure:
    """The structure of a block of a CIF that gemmi read; `location` is for messages."""
    gemmi = load_extra("gemmi", "powder")
    number = gemmi.cif.as_number
    cell: Any = tuple(number(block.find_value(tag) or "?") for tag in _CELL_TAGS)
    check_cell(cell, f"{location}: unit cell")
    small = gemmi.make_small_structure_from_block(block)
    formula_elements = _SYMBOL.findall(block.find_value("_chemical_formula_sum") or "")
    sites = [site for site in small.sites if site.occ != 0]
    for site in sites:
        if not all(map(math.isfinite, site.fract.tolist())):
            raise InputError(f"{location}: atom {site.label!r} has no position")
        if not 0 < site.occ <= _MAX_OCCUPANCY:
            raise InputError(f"{location}: atom {site.label!r} has an occupancy of {site.occ:g}, expected 0 to 1")
    operations = _cif_operations(location, small)
    labels = [site.type_symbol or site.label for site in sites]
    elements = tuple(element_of_label(location, label, formula_elements) for label in labels)
    positions = np.array([site.fract.tolist() for site in sites]).reshape(-1, 3)
    occupancy, b = (np.array([site.occ for site in sites]), np.array([_b_iso(site, cell) or b_iso for site in sites]))
    return Structure(location, cell, operations, elements, positions, occupancy, b, small.spacegroup_hm or None)


def _structure_block(path: Path, gemmi: Any) -> Any:
    """The first block of a CIF with a cell and atoms."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        blocks = list(gemmi.cif.read(str(path)))
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0].removeprefix(str(path)).lstrip(":")
        raise InputError(f"{path}: not a CIF ({reason})") from None
    with_cell = [block for block in blocks if block.find_value(_CELL_TAGS[0])]
    if not with_cell:
        raise InputError(f"{path}: found no unit cell (_cell_length_a)")
    block = next((block for block in with_cell if block.find_values("_atom_site_fract_x")), None)
    if block is None:
        raise InputError(f"{path}: found no atoms")
    return block


def _cif_operations(location: str, small: Any) -> Operations:
    """From the operations, the space group symbol or its number, in this order."""
    if small.symops:
        return parse_operations(location, small.symops)
    if small.spacegroup is not None:
        return parse_operations(location, [op.triplet() for op in small.spacegroup.operations()])
    if 1 <= small.spacegroup_number <= 230:
        return space_groups.operations(small.spacegroup_number)
    raise InputError(f"{location}: found no symmetry operations and no space group")


def _b_iso(site: Any, cell: Cell) -> float:
    """B in Å² from U or from the trace of the anisotropic U; 0 if the file has neither."""
    u = site.u_iso
    if not u and site.aniso.nonzero():
        tensor = metric(cell)
        lengths = np.sqrt(np.diag(np.linalg.inv(tensor)))  # a*, b*, c*
        u = (np.array(site.aniso.as_mat33().tolist()) * np.outer(lengths, lengths) * tensor).sum() / 3
    return 8 * math.pi**2 * float(u) if math.isfinite(u) else 0.0


def parse_operations(location: str, texts: Sequence[str]) -> Operations:
    """Rotations and translations of operations such as 'x,1/2+y,-z'; `location` is for messages."""
    pairs = [_parse_operation(text) for text in texts]
    for text, pair in zip(texts, pairs, strict=True):
        if pair is None:
            raise InputError(f"{location}: {text!r} is not a symmetry operation; expected one like 'x,1/2+y,-z'")
    rotations, translations = (np.array([pair[i] for pair in pairs if pair]) for i in (0, 1))
    if not (rotations == np.eye(3)).all((1, 2)).any():
        raise InputError(f"{location}: the symmetry operations lack 'x,y,z'")
    return rotations, translations


@lru_cache(maxsize=4096)
def _parse_operation(text: str) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
    """Rotation and translation, or None if the text is not an operation."""
    rotation, translation = np.zeros((3, 3), dtype=np.int64), np.zeros(3)
    parts = re.sub(r"\s", "", text).lower().split(",")
    if len(parts) != 3:
        return None
    for i, part in enumerate(parts):
        terms = [m for m in _TERM.finditer(part) if m.group()]
        if "".join(m.group() for m in terms) != part:
            return None
        for sign, number, divisor, axis in (m.groups() for m in terms):
            if not (number or axis) or divisor == "0":
                return None
            value = float(Fraction(number or 1) / int(divisor or 1)) * (-1 if sign == "-" else 1)
            if axis and value != round(value):
                return None
            if axis:
                rotation[i, "xyz".index(axis)] += round(value)
            else:
                translation[i] += value
    return (rotation, translation % 1.0) if abs(round(np.linalg.det(rotation))) == 1 else None


def element_of_label(location: str, label: str, formula_elements: Collection[str]) -> str:
    """The element of an atom label; the elements of the formula decide between two readings."""
    letters = re.match("[A-Za-z]*", label.strip())
    word = letters.group() if letters else ""
    if word.upper().startswith("WAT"):
        return "O"
    one, two = word[:1].upper(), word[:2].capitalize()
    options = [two, one] if word[1:2].islower() else [one, two]  # CO3 is carbon, Co3 cobalt
    elements = ["H" if symbol == "D" else symbol for symbol in options if symbol == "D" or symbol in atomic_numbers()]
    if not elements:
        raise InputError(f"{location}: unknown element in the label {label!r}")
    return next((symbol for symbol in elements if symbol in formula_elements), elements[0])
