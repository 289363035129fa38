"""The patterns of `identify_table`, with what is in them: measured minerals and mixtures, and simulated mixtures."""

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.retrieval import mixture
from vitreous.data.builtin import data_folder
from vitreous.powder.files import read_pattern
from vitreous.powder.identify.contents import element_bits, read_formula
from vitreous.powder.identify.database import FIXED, RAGGED, Database
from vitreous.powder.identify.duplicates import similarity
from vitreous.powder.identify.entry import powder_strength
from vitreous.powder.pattern import Pattern
from vitreous.powder.radiation import CU_KALPHA1, CU_KALPHA2
from vitreous.powder.sim.structure import Structure
from vitreous.powder.sim.structure_files import minerals

MINERALS, CLAYS = "reference minerals", "reference clays"
ROUND_ROBIN = "round robin"
LONG, SHORT = "precursors, 8 min", "precursors, 2 min"
SIMULATED, MISSING = "simulated", "one phase missing"
GROUPS = (MINERALS, CLAYS, ROUND_ROBIN, LONG, SHORT, SIMULATED, MISSING)
MOST_PHASES = 4
STRAIN = 0.4
"""Of the changes of cells in `benchmarks.retrieval`: lengths differ by up to 0.6 % from those of the database."""
_LEAST_FRACTION = 0.05
_LONGEST = 40.0  # Å, of an axis of a simulated mineral
_TWIN = 0.02  # relative difference of the lengths of twins of the same space group
_SIMILAR = 0.9  # cosine of their strong lines, broadened by 1 %, from which other entries are twins
_COMPOSITION = 0.03  # difference of the share of each element among the atoms of one substance
_CLAYS = ("illite", "ferrihydrite", "pyrophyllite", "tobelite")
_SYNONYMS = {"andalucite": "andalusite"}
_GASES = ("H", "He", "N", "O", "F", "Ne", "Cl", "Ar", "Kr", "Xe")
_PRECURSORS = {  # elements, and the numbers of space groups of what may have been weighed
    "In2O3": ("In O", (206, 199)), "La(OH)3": ("La O H", (176,)), "TiO2": ("Ti O", (136, 141)),
    "MnCO3": ("Mn C O", (167, 161)), "Li2CO3": ("Li C O", (15,)), "ZrO2": ("Zr O", (14,)), "NiO": ("Ni O", (225,)),
    "Bi2O3": ("Bi O", (14,)), "V2O5": ("V O", (59, 31)), "ZnO": ("Zn O", (186,)),
}  # fmt: skip


class Truth(NamedTuple):
    """A phase of a sample: its name, the entries that are right for it, and its mass fraction (0 to 1) if known."""

    name: str
    entries: frozenset[int]
    twins: frozenset[int] = frozenset()  # other entries that a pattern can hardly tell from it
    fraction: float | None = None
    share: float | None = None  # of the intensity


class Case(NamedTuple):
    """A pattern, the phases that the database has, and whether it lacks one."""

    group: str
    name: str
    pattern: Pattern
    truths: tuple[Truth, ...]
    database: Database
    missing: Truth | None = None


def reference_names(database: Database) -> list[tuple[str, frozenset[str]]]:
    """Reference minerals whose species is in the database: a name of the sample, and those of its species."""
    roots: dict[str, set[str]] = {}
    for i in range(database.count):
        name = database.name(i).lower()
        roots.setdefault(name, set()).add(name)
        roots.setdefault(name.partition("-")[0], set()).add(name)  # Chabazite-Ca
    found = []
    with np.load(data_folder() / "measured" / "rockjock_half.npz", allow_pickle=False) as data:
        for name, mineral in zip(data["name"].tolist(), data["mineral"].tolist(), strict=True):
            words = {_SYNONYMS.get(word, word) for word in [*name.lower().split("_"), mineral.lower()]}
            if species := frozenset().union(*(roots.get(word, ()) for word in words)):
                found.append((name, species))
    return found


def reference_case(database: Database, name: str, species: frozenset[str]) -> Case:
    """A measured reference mineral."""
    with np.load(data_folder() / "measured" / "rockjock_half.npz", allow_pickle=False) as data:
        angles = data["two_theta"].astype(float)
        intensity = data["intensity"][data["name"].tolist().index(name)].astype(float)
    rows = frozenset(i for i in range(database.count) if database.name(i).lower() in species)
    group = CLAYS if is_clay(species) else MINERALS
    pattern = Pattern(angles, intensity, None, CU_KALPHA1, name, CU_KALPHA2, 0.5)
    twins = frozenset(j for i in rows for j in _twins(database, i)) - rows
    return Case(group, name, pattern, (Truth("/".join(sorted(species)), rows, twins),), database)


def is_clay(species: frozenset[str]) -> bool:
    """Whether a species is one of the clays, which have no sharp lines."""
    return bool(species & set(_CLAYS))


def mixture_files() -> list[tuple[str, str]]:
    """Groups and names of the files of weighed mixtures."""
    names = [row["file"] for row in _weighed()]
    groups = [(ROUND_ROBIN, name) for name in names if name.startswith("cpd_")]
    return groups + [(LONG if "8min" in name else SHORT, name) for name in names if name.endswith(".xrdml")]


def mixture_case(database: Database, group: str, file: str) -> Case:
    """A measured mixture of weighed phases."""
    row = next(row for row in _weighed() if row["file"] == file)
    pattern = read_pattern(data_folder() / "measured" / "mixtures" / file, wavelength=float(row["wavelength"]))
    pattern = replace(
        pattern, wavelength=float(row["wavelength"]), wavelength2=float(row["wavelength2"]), ratio=0.5, name=file
    )
    truths = []
    for text in row["phases"].split(";"):
        name, percent = text.split()
        entries = _entries_of(database, name)
        twins = frozenset(j for i in entries for j in _twins(database, i)) - entries
        truths.append(Truth(name, entries, twins, float(percent) / 100))
    return Case(group, file, pattern, tuple(truths), database)


def simulated_case(database: Database, group: str, number: int, seed: int) -> Case:
    """A simulated mixture of 1 to 4 minerals; in the group `MISSING`, one of them is not in the database."""
    phases = number % MOST_PHASES + 1
    rng = np.random.default_rng((seed, number, GROUPS.index(group)))
    pool = _pool(database)
    chosen = rng.choice(pool, phases, replace=False).tolist()
    fractions = _LEAST_FRACTION + (1 - phases * _LEAST_FRACTION) * rng.dirichlet(np.ones(phases))
    weights = database.cell_mass[chosen] * database.volume[chosen]
    shares = fractions / weights * [_area(database, entry) for entry in chosen]
    shares /= shares.sum()
    structures = _structures()
    with torch.random.fork_rng([]):
        torch.manual_seed(int(rng.integers(2**31)))
        pattern = mixture([structures[database.source(entry)] for entry in chosen], shares, rng, STRAIN)
    pattern = replace(pattern, name=f"{group} {number}")
    lacking = int(rng.integers(phases)) if group == MISSING else -1
    truths = [_truth(database, *each) for each in zip(chosen, fractions.tolist(), shares.tolist(), strict=True)]
    if lacking < 0:
        return Case(group, f"{number}", pattern, tuple(truths), database)
    missing = truths.pop(lacking)
    absent = missing.entries | missing.twins
    keep = np.array([i not in absent for i in range(database.count)])
    place = np.cumsum(keep) - 1
    truths = [
        truth._replace(
            entries=frozenset(int(place[i]) for i in truth.entries if keep[i]),
            twins=frozenset(int(place[i]) for i in truth.twins if keep[i]),
        )
        for truth in truths
    ]
    return Case(group, f"{number}", pattern, tuple(truths), _chosen(database, keep), missing)


@lru_cache(maxsize=1)
def _weighed() -> list[dict[str, str]]:
    with (data_folder() / "measured" / "mixtures" / "mixtures.csv").open() as file:
        return list(csv.DictReader(file))


def _entries_of(database: Database, name: str) -> frozenset[int]:
    """Entries of a weighed phase: a mineral's name, or the formula of a precursor."""
    if name not in _PRECURSORS:
        return frozenset(i for i in range(database.count) if database.name(i).lower() == name.lower())
    elements, groups = _PRECURSORS[name]
    rows = np.flatnonzero(np.isin(database.spacegroup, groups) & database.having(elements.split()))
    exact = [i for i in rows.tolist() if _same_composition(database.formula(i), name, 0.001)]
    alike = (j for i in exact for j in _twins(database, i) if _same_composition(database.formula(j), name))
    return frozenset(exact).union(alike)


def _same_composition(formula: str, other: str, tolerance: float = _COMPOSITION) -> bool:
    """Whether the share of each element among the atoms is nearly the same."""
    first, second = _composition(formula), _composition(other)
    if not first or not second:
        return formula == other
    return all(abs(first.get(e, 0.0) - second.get(e, 0.0)) <= tolerance for e in first.keys() | second.keys())


@lru_cache(maxsize=10_000)
def _composition(formula: str) -> dict[str, float]:
    """The share of each element among the atoms."""
    parsed = read_formula(formula)
    counts = dict(parsed.counts) if parsed is not None else {}
    return {symbol: count / sum(counts.values()) for symbol, count in counts.items()}


@lru_cache(maxsize=1000)
def _twins(database: Database, entry: int) -> list[int]:
    """Entries that a pattern can hardly tell from an entry, itself too.

    They have its space group and nearly its cell, or nearly its strong lines.
    """
    near = np.abs(database.reduced[:, :3] / database.reduced[entry, :3] - 1).max(axis=1) < _TWIN
    near &= np.abs(database.reduced[:, 3:] - database.reduced[entry, 3:]).max(axis=1) < np.degrees(_TWIN)
    near &= database.spacegroup == database.spacegroup[entry]
    lines, strongest = database.lines(entry), database.strongest[entry, 0]
    shared = (np.abs(database.strongest / strongest - 1) < _TWIN).any(axis=1)  # others cannot be alike
    rows = np.flatnonzero(near | shared).tolist()
    return [i for i in rows if near[i] or similarity(database.lines(i), lines) > _SIMILAR]


def _truth(database: Database, entry: int, fraction: float, share: float) -> Truth:
    """A simulated phase and the entries that are right for it."""
    name, formula = database.name(entry), database.formula(entry)
    group = np.flatnonzero(database.spacegroup == database.spacegroup[entry]).tolist()
    same = {i for i in group if database.formula(i) == formula}
    if name != formula:
        same |= {i for i in range(database.count) if database.name(i).lower() == name.lower()}
    twins = _twins(database, entry)
    same |= {i for i in twins if _same_composition(database.formula(i), formula)}
    return Truth(f"{name} {formula}", frozenset(same), frozenset(twins) - same, fraction, share)


def solid_entries(database: Database) -> NDArray[np.bool_]:
    """Whether entries `(n,)` are solid at room temperature: all but elements that are gases."""
    bits = element_bits([*({symbol} for symbol in _GASES)])
    return ~(database.elements[:, None] == bits).all(axis=2).any(axis=1)


@lru_cache(maxsize=2)
def _pool(database: Database) -> NDArray[np.int64]:
    """Entries that are simulated: minerals with atoms that are solid at room temperature and have no long axis."""
    short = database.has_atoms & solid_entries(database) & (database.cell[:, :3].max(axis=1) < _LONGEST)
    return np.array([i for i in np.flatnonzero(short).tolist() if database.source(i) in _structures()])


@lru_cache(maxsize=1)
def _structures() -> dict[str, Structure]:
    """The structures of the minerals by the source of their entries."""
    found = {}
    for structure in minerals(b_iso=1.0):
        number = structure.name.rpartition(" ")[2]
        found[f"minerals {number.zfill(7) if re.fullmatch(r'[0-9]+', number) else number}"] = structure
    return found


def _area(database: Database, entry: int) -> float:
    """Calculated intensity of all lines up to 90° with copper radiation, electrons²."""
    lines = database.lines(entry)
    inside = lines.s < 2 * np.sin(np.pi / 4) / CU_KALPHA1
    return float(powder_strength(lines.s[inside], lines.intensity[inside]).sum())


def _chosen(database: Database, keep: NDArray[np.bool_]) -> Database:
    """The database with some of its entries only."""
    arrays = {name: database.arrays[name][keep] for name in FIXED}
    for name, (_, _, lengths) in RAGGED.items():
        length = database.arrays[lengths]
        arrays[name] = database.arrays[name][np.repeat(keep, length.sum(1) if length.ndim == 2 else length)]
    return Database(database.path, arrays, {"embedding": database.model})


def without_embedding(database: Database) -> Database:
    """The database as one that was built without the model."""
    return Database(database.path, {**database.arrays, "embedding": np.empty((database.count, 0), np.float16)}, {})


def databases(folder: Path) -> Iterator[Path]:
    """The files of the minerals alone and with the structures of the precursors; built if they are not there."""
    import shutil

    from vitreous.powder.identify.build import build_database

    plain, extended = folder / "minerals.db", folder / "precursors.db"
    if not plain.is_file():
        build_database([data_folder() / "crystals" / "minerals.jsonl.gz"], plain, jobs=1)
    if not extended.is_file():
        partial = folder / "partial.db"
        shutil.copyfile(plain, partial)
        build_database([Path(__file__).parent / "precursors"], partial, jobs=1)
        partial.rename(extended)
    yield from (plain, extended)
