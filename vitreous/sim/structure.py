"""Real crystals: their atoms from a CIF or the minerals file, and the lines of their powder patterns.

|F|² of the kinematic sum over the unit cell, form factors of International Tables C (1992), no anomalous scattering.
"""

import gzip
import json
import math
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.data.builtin import data_folder
from vitreous.data.extras import load_extra
from vitreous.errors import InputError
from vitreous.powder.cell import check_cell
from vitreous.sim import groups
from vitreous.sim.crystals import Lines

Cell = tuple[float, float, float, float, float, float]
Operations = tuple[NDArray[np.int64], NDArray[np.float64]]

_COINCIDENT = 0.1  # Å: images of one atom nearer than this are one atom on a special position
_FULLEST = 1.1  # refined occupancies come out a little above 1
_LARGEST_BOX = 1 << 25  # reflections tried for one pattern
_CHUNK = 1 << 21  # phases held at once
_CELL_TAGS = [f"_cell_length_{axis}" for axis in "abc"] + [f"_cell_angle_{name}" for name in ("alpha", "beta", "gamma")]
_TERM = re.compile(r"([+-]?)(?:(\d+\.?\d*|\.\d+)(?:/(\d+))?\*?)?([xyz]?)")


@dataclass(frozen=True, eq=False)
class Structure:
    """A crystal: its cell and symmetry, and the atoms of its asymmetric unit.

    cell: a, b, c in Å and α, β, γ in degrees. operations: rotations `(m, 3, 3)` and translations `(m, 3)`, centring
    included. positions: `(n, 3)` fractions of the cell; occupancy and b_iso (Å²): `(n,)`.
    """

    name: str
    cell: Cell
    operations: Operations
    elements: tuple[str, ...]
    positions: NDArray[np.float64]
    occupancy: NDArray[np.float64]
    b_iso: NDArray[np.float64]
    spacegroup: str | int | None = None

    def __post_init__(self) -> None:
        check_cell(self.cell, f"{self.name}: unit cell")
        if not self.elements:
            raise InputError(f"{self.name}: found no atoms")
        for element in self.elements:
            if element not in _numbers():
                raise InputError(f"{self.name}: unknown element {element!r}; expected H to Cf")


class Reflected(NamedTuple):
    """One line for each set of equivalent reflections, by rising `s` = 1/d in 1/Å; `intensity` = multiplicity·|F|²."""

    hkl: Tensor  # (M, 3) int16
    s: Tensor  # (M,) float64
    intensity: Tensor  # (M,) float64


def lines(structure: Structure, s_max: float, device: torch.device | str = "cpu") -> Reflected:
    """The lines with 1/d up to `s_max` (1/Å): those of the file's own symmetry, as far as the cell has it."""
    operations = symmetry(structure.cell, structure.operations)
    found, s = reflections(structure.name, structure.cell, operations, s_max, device)
    intensity = found.multiplicity * _squared_factors(expand(structure), found.hkl.double(), s)
    return Reflected(found.hkl, s, intensity)


def as_lines(structure: Structure, s_max: float, device: torch.device | str = "cpu") -> Lines:
    """The same for the simulator: a batch of one crystal, every equivalent reflection by itself."""
    found = lines(structure, s_max, device)
    return oriented(found, structure.cell, symmetry(structure.cell, structure.operations))


def oriented(found: Reflected, cell: Cell, operations: Operations) -> Lines:
    """Lines with each equivalent's own angles to a*, b* and c*: texture strengthens some and weakens others."""
    point = torch.as_tensor(np.unique(operations[0], axis=0), dtype=torch.float64, device=found.s.device)
    # Each equivalent is the image of hkl as often as any other: the images share the intensity.
    images = torch.einsum("mi,nij->mnj", found.hkl.double(), point)  # (M, n, 3)
    inverse = torch.as_tensor(np.linalg.inv(_metric(cell)), device=found.s.device)
    tilt = (images @ inverse).square() / (found.s.square()[:, None, None] * inverse.diagonal())
    s, intensity = (x[:, None].expand(-1, len(point)).flatten() for x in (found.s, found.intensity / len(point)))
    directions = torch.eye(3, device=s.device)
    return Lines(s.float(), intensity.float(), torch.zeros_like(s).long(), tilt.flatten(0, 1).float(), directions, 1)


def symmetry(cell: Cell, operations: Operations) -> Operations:
    """The operations that the cell has; others would call reflections with different d equivalent."""
    metric = _metric(cell)
    rotations, translations = operations
    moved = np.abs(rotations.transpose(0, 2, 1) @ metric @ rotations - metric).max((1, 2))
    kept = moved <= 1e-6 * metric.max()
    return rotations[kept], translations[kept]


def reflections(
    name: str, cell: Cell, operations: Operations, s_max: float, device: torch.device | str = "cpu"
) -> tuple[groups.Reflections, Tensor]:
    """One reflection of each set of equivalents with 1/d up to `s_max`, and 1/d `(M,)`, which rises."""
    most = tuple(math.floor(length * s_max + 1e-9) for length in cell[:3])
    if math.prod(2 * m + 1 for m in most) > _LARGEST_BOX:
        raise InputError(f"{name}: too many reflections up to 1/d = {s_max:g}/Å for indices up to {most}")
    found = groups.distinct(*operations, (most[0], most[1], most[2]), device)
    hkl = found.hkl.double()
    s = ((hkl @ torch.as_tensor(np.linalg.inv(_metric(cell)), device=device)) * hkl).sum(1).sqrt()
    order = torch.argsort(s)[: int((s <= s_max).sum())]
    return groups.Reflections(*(part[order] for part in found)), s[order]


def _squared_factors(atoms: Structure, hkl: Tensor, s: Tensor) -> Tensor:
    """|F|² `(M,)` of a structure that lists its whole cell."""
    kinds = sorted(set(zip(atoms.elements, atoms.b_iso.tolist(), strict=True)))
    column = {kind: j for j, kind in enumerate(kinds)}
    weights = np.zeros((len(atoms.elements), len(kinds)))  # atoms of a kind share their form factor
    for i, kind in enumerate(zip(atoms.elements, atoms.b_iso.tolist(), strict=True)):
        weights[i, column[kind]] = atoms.occupancy[i]
    occupied, positions = (torch.as_tensor(x, device=s.device) for x in (weights, 2 * math.pi * atoms.positions.T))
    b = torch.tensor([b for _, b in kinds], dtype=torch.float64, device=s.device)
    factors = form_factors([element for element, _ in kinds], s) * torch.exp(-b * s[:, None] ** 2 / 4)
    squares = []
    rows = max(1, _CHUNK // len(atoms.elements))
    for part, f in zip(hkl.split(rows), factors.split(rows), strict=True):
        phase = part @ positions  # (M, 3) @ (3, N)
        real, imaginary = ((f * (wave @ occupied)).sum(1) for wave in (phase.cos(), phase.sin()))
        squares.append(real**2 + imaginary**2)
    return torch.cat(squares)


def form_factors(elements: Sequence[str], s: Tensor) -> Tensor:
    """f = Σ a exp(-b s²/4) + c: `(M,)` 1/d in 1/Å `-> (M, elements)` electrons."""
    rows = groups.tables()["form_factors"][[_numbers()[element] - 1 for element in elements]]
    table = torch.as_tensor(rows, dtype=s.dtype, device=s.device)
    a, b, c = table[:, :4], table[:, 4:8], table[:, 8]
    return (a * torch.exp(-b * s[:, None, None] ** 2 / 4)).sum(2) + c


def expand(structure: Structure) -> Structure:
    """The same crystal with every atom of its cell listed and no symmetry but the identity."""
    edges = np.linalg.cholesky(_metric(structure.cell))  # rows: the axes in Å
    x = structure.positions
    for _ in range(3):  # an atom near a special position goes there: to the mean of its images nearby
        offset = _images(x, structure.operations) - x[:, None]
        offset -= np.round(offset)
        near = np.linalg.norm(offset @ edges, axis=2) < _COINCIDENT  # (n, m)
        x = x + (offset * near[..., None]).sum(1) / near.sum(1, keepdims=True)
    images = _images(x, structure.operations) % 1.0
    squares = np.floor(images * 10**5 + 0.2718).astype(np.int64) % 10**5  # a grid with no special position on its edges
    distinct = [np.unique(row, return_index=True)[1] for row in squares @ np.array([10**10, 10**5, 1])]
    site = np.repeat(np.arange(len(x)), [len(each) for each in distinct])
    return Structure(
        structure.name,
        structure.cell,
        (np.eye(3, dtype=np.int64)[None], np.zeros((1, 3))),
        tuple(structure.elements[i] for i in site),
        images[site, np.concatenate(distinct)],
        structure.occupancy[site],
        structure.b_iso[site],
        1,
    )


def _images(x: NDArray[np.float64], operations: Operations) -> NDArray[np.float64]:
    """Positions `(n, 3)` under each of m operations: `(n, m, 3)`."""
    rotations, translations = operations
    turned = x @ rotations.reshape(-1, 3).T  # (n, 3) -> (n, m * 3)
    return np.asarray(turned.reshape(len(x), -1, 3) + translations)


def minerals(folder: Path | str | None = None, b_iso: float = 0.0) -> Iterator[Structure]:
    """The crystals of `crystals/minerals.jsonl.gz` in the data folder; `b_iso` (Å²) is given to every atom."""
    path = Path(folder or data_folder() / "crystals") / "minerals.jsonl.gz"
    if not path.is_file():
        raise InputError(f"{path}: no such file; VITREOUS_DATA names the folder that holds crystals/")
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield _mineral(f"{path}, line {number}", line, b_iso)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as fault:
        raise InputError(f"{path}: cannot be read ({fault})") from None


def _mineral(place: str, line: str, b_iso: float) -> Structure:
    try:
        record = json.loads(line)
        name, formula = f"{record['mineral']} {record['id']}", record["formula"]
        operations = _operations(place, record["operations"])
        labels, *columns = zip(*record["sites"], strict=True)
        numbers = np.array(columns, dtype=np.float64).T  # (n, 4): x, y, z, occupancy
        cell: Any = tuple(float(x) for x in record["cell"])
    except InputError:
        raise
    except (KeyError, TypeError, ValueError) as fault:
        raise InputError(f"{place}: not a mineral ({fault})") from None
    among = frozenset(re.findall("[A-Z][a-z]?", formula))
    elements = tuple(_element(place, label, among) for label in labels)
    b = np.full(len(elements), b_iso)
    return Structure(name, cell, operations, elements, numbers[:, :3], numbers[:, 3], b, record["spacegroup"])


def read_cif(path: Path | str, b_iso: float = 0.0) -> Structure:
    """The first crystal of a CIF (also .gz). Atoms without a displacement parameter get `b_iso` (Å²)."""
    gemmi = load_extra("gemmi", "powder")
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        blocks = list(gemmi.cif.read(str(path)))
    except (OSError, ValueError, RuntimeError) as fault:
        reason = str(fault).splitlines()[0].removeprefix(str(path)).lstrip(":")
        raise InputError(f"{path}: not a CIF ({reason})") from None
    block = next((b for b in blocks if b.find_value(_CELL_TAGS[0]) and b.find_values("_atom_site_fract_x")), None)
    if block is None:
        block = next((b for b in blocks if b.find_value(_CELL_TAGS[0])), None)
        raise InputError(f"{path}: found no {'unit cell (_cell_length_a)' if block is None else 'atoms'}")
    number = gemmi.cif.as_number
    cell: Any = tuple(number(block.find_value(tag) or "?") for tag in _CELL_TAGS)
    check_cell(cell, f"{path}: unit cell")
    small = gemmi.make_small_structure_from_block(block)
    if small.symops:
        operations = _operations(str(path), small.symops)
    elif small.spacegroup is not None:
        operations = _operations(str(path), [op.triplet() for op in small.spacegroup.operations()])
    elif 1 <= small.spacegroup_number <= 230:
        operations = groups.operations(small.spacegroup_number)
    else:
        raise InputError(f"{path}: found no symmetry operations and no space group")
    among = frozenset(re.findall("[A-Z][a-z]?", block.find_value("_chemical_formula_sum") or ""))
    sites = [site for site in small.sites if site.occ != 0]
    for site in sites:
        if not all(map(math.isfinite, site.fract.tolist())):
            raise InputError(f"{path}: atom {site.label!r} has no position")
        if not 0 < site.occ <= _FULLEST:
            raise InputError(f"{path}: atom {site.label!r} has an occupancy of {site.occ:g}, expected 0 to 1")
    return Structure(
        str(path),
        cell,
        operations,
        tuple(_element(str(path), site.type_symbol or site.label, among) for site in sites),
        np.array([site.fract.tolist() for site in sites]).reshape(-1, 3),
        np.array([site.occ for site in sites]),
        np.array([_b_iso(site, cell) or b_iso for site in sites]),
        small.spacegroup_hm or None,
    )


def _b_iso(site: Any, cell: Cell) -> float:
    """B in Å² from U, or from the trace of the anisotropic U, or 0 where the file has neither."""
    u = site.u_iso
    if not u and site.aniso.nonzero():
        metric = _metric(cell)
        lengths = np.sqrt(np.diag(np.linalg.inv(metric)))  # a*, b*, c*
        u = (np.array(site.aniso.as_mat33().tolist()) * np.outer(lengths, lengths) * metric).sum() / 3
    return 8 * math.pi**2 * float(u) if math.isfinite(u) else 0.0


def _operations(place: str, texts: Sequence[str]) -> Operations:
    pairs = [_operation(text) for text in texts]
    for text, pair in zip(texts, pairs, strict=True):
        if pair is None:
            raise InputError(f"{place}: {text!r} is no symmetry operation; expected such as 'x,1/2+y,-z'")
    rotations, translations = (np.array([pair[i] for pair in pairs if pair]) for i in (0, 1))
    if not (rotations == np.eye(3)).all((1, 2)).any():
        raise InputError(f"{place}: the symmetry operations lack 'x,y,z'")
    return rotations, translations


@lru_cache(maxsize=4096)
def _operation(text: str) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
    """'x,1/2+y,-z' as rotation and translation, or None where it is neither."""
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


@lru_cache(maxsize=1)
def _numbers() -> dict[str, int]:
    return {str(symbol): z for z, symbol in enumerate(groups.tables()["symbols"], 1)}


def _element(place: str, label: str, among: Collection[str]) -> str:
    """The element of an atom's label; `among`, the elements of the formula, decides where two would do."""
    letters = re.match("[A-Za-z]*", label.strip())
    word = letters.group() if letters else ""
    if word.upper().startswith("WAT"):
        return "O"
    one, two = word[:1].upper(), word[:2].capitalize()
    options = [two, one] if word[1:2].islower() else [one, two]  # CO3 is carbon, Co3 cobalt
    known = ["H" if symbol == "D" else symbol for symbol in options if symbol == "D" or symbol in _numbers()]
    if not known:
        raise InputError(f"{place}: unknown element in the label {label!r}")
    return next((symbol for symbol in known if symbol in among), known[0])


def _metric(cell: Cell) -> NDArray[np.float64]:
    """a_i · a_j in Å²."""
    lengths = np.array(cell[:3])
    alpha, beta, gamma = (round(math.cos(math.radians(angle)), 15) for angle in cell[3:])  # 90° gives 0
    cosines = [[1, gamma, beta], [gamma, 1, alpha], [beta, alpha, 1]]
    return np.asarray(np.outer(lengths, lengths) * cosines)
