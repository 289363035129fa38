"""How often the true phases of a pattern are among the first entries of a database: by embedding, by lines, by both.

    python -m benchmarks.retrieval                             # the model of the package, 10 minutes
    python -m benchmarks.retrieval --model runs/embed          # a run of the recipe powder-embed
    python -m benchmarks.retrieval --lines-only --count 50     # without any model, two minutes

The database has the minerals of the data folder (setting VITREOUS_DATA), whose structures and cells no training uses.
Rows: simulated mixtures of one to four minerals with shares of intensity from 5 %, measured with the effects of a
laboratory, cells changed by up to 1.5 % and texture; the measured reference minerals of `measured/rockjock_half.npz`
whose species is in the database, clays apart. Columns: the share of phases of which an entry of the same species is
among the first 10, 50 and 200 entries. `both` orders entries by the sum of the two ranks, and `either` takes turns.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from vitreous.data.builtin import data_folder
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.database_file import entry_arrays
from vitreous.powder.identify.dispersion import copper_lines
from vitreous.powder.identify.entry import Entry, entry_of
from vitreous.powder.identify.retrieval import embed_lines, embedding_model, line_scores, similarities
from vitreous.powder.pattern import Pattern
from vitreous.powder.radiation import CU_KALPHA1, CU_KALPHA2
from vitreous.powder.sim.crystals import Lines
from vitreous.powder.sim.effects import Effects
from vitreous.powder.sim.embedding_source import MOST, random_shares
from vitreous.powder.sim.measurement import diffract, draw_values, record
from vitreous.powder.sim.structure import Cell, Structure, cell_symmetry, split_equivalents
from vitreous.powder.sim.structure_files import minerals
from vitreous.run.load import load
from vitreous.run.predictor import Predictor

FIRST = (10, 50, 200)
LABORATORY = Effects(
    two_theta=(0.0, 90.0), start=(5.0, 5.0), texture=(0.6, 1.4), zero=(-0.06, 0.06), displacement=(-0.06, 0.06),
    width=(0.05, 0.25), background=(0.0, 0.2), hump=(0.0, 0.05), impurity=(0.0, 0.0), counts=(1e3, 1e5),
)  # fmt: skip
_END = (60.0, 90.0)  # degrees
_STRAIN, _SHAPE = 0.01, 0.005  # of all lengths, and of each length that is free
_LONGEST = 40.0  # Å, of an axis of a simulated mineral
_CLAYS = ("illite", "ferrihydrite", "pyrophyllite")
_SYNONYMS = {"andalucite": "andalusite"}


class Case(NamedTuple):
    """A pattern and the species of its phases."""

    row: str
    pattern: Pattern
    species: tuple[frozenset[str], ...]  # for each phase, its names


def species_of(name: str) -> str:
    """The name of a mineral without the number of its structure."""
    return name.rpartition(" ")[0].lower()


def strained(structure: Structure, rng: np.random.Generator, scale: float = 1.0) -> Structure:
    """The same crystal with slightly other lengths; equal ones stay equal. `scale` multiplies the changes."""
    lengths = np.array(structure.cell[:3])
    distinct, which = np.unique(lengths.round(4), return_inverse=True)
    change = rng.uniform(-_STRAIN, _STRAIN) + rng.uniform(-_SHAPE, _SHAPE, len(distinct))[which]
    stretch = 1 + scale * change
    cell: Cell = (*(lengths * stretch).tolist(), *structure.cell[3:])
    return replace(structure, cell=cell)


def copper_batch(structure: Structure) -> Lines:
    """The lines of a structure with the dispersion of copper radiation, as a batch of one crystal."""
    operations = cell_symmetry(structure.cell, structure.operations)
    return split_equivalents(copper_lines(structure, LABORATORY.s_max), structure.cell, operations)


def mixture(
    structures: Sequence[Structure], shares: NDArray[np.float64], rng: np.random.Generator, strain: float = 1.0
) -> Pattern:
    """A measured pattern of crystals with these shares of its intensity; `strain` multiplies changes of the cells."""
    draws = draw_values(LABORATORY, 1, torch.device("cpu"))
    total = torch.zeros(1, LABORATORY.points)
    for structure, share in zip(structures, shares.tolist(), strict=True):
        own = draw_values(LABORATORY, 1, torch.device("cpu"))
        own = draws | {name: own[name] for name in ("texture", "width", "mixing")}
        lines = diffract(copper_batch(strained(structure, rng, strain)), LABORATORY, own)
        total += share * lines / lines.sum().clamp(min=1e-12)
    intensity = record(total, LABORATORY, draws)[0].double().numpy()
    angles = LABORATORY.angles().numpy()
    part = (angles >= LABORATORY.start[0]) & (angles <= rng.uniform(*_END))
    return Pattern(angles[part], intensity[part], None, CU_KALPHA1, "mixture", CU_KALPHA2, float(draws["alpha2"]))


def simulated_cases(structures: Sequence[Structure], count: int, seed: int = 7) -> Iterator[Case]:
    """`count` mixtures of each number of minerals."""
    rng = np.random.default_rng(seed)
    small = [each for each in structures if max(each.cell[:3]) < _LONGEST]
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        for phases in range(1, MOST + 1):
            done = 0
            while done < count:
                shares = random_shares(1)[0, 0].double().numpy()
                if (shares > 0).sum() != phases:
                    continue
                chosen = [small[i] for i in rng.choice(len(small), phases, replace=False)]
                pattern = mixture(chosen, shares[shares > 0], rng)
                yield Case(f"mixtures of {phases}", pattern, tuple(frozenset([species_of(s.name)]) for s in chosen))
                done += 1


def reference_cases(species: frozenset[str]) -> Iterator[Case]:
    """Measured reference minerals whose species is in the database."""
    with np.load(data_folder() / "measured" / "rockjock_half.npz", allow_pickle=False) as data:
        angles = data["two_theta"].astype(float)
        rows = zip(data["intensity"].astype(float), data["name"].tolist(), data["mineral"].tolist(), strict=True)
        for intensity, name, mineral in rows:
            words = {_SYNONYMS.get(word, word) for word in [*name.lower().split("_"), mineral.lower()]}
            if known := frozenset(words & species):
                row = "reference clays" if known & set(_CLAYS) else "reference minerals"
                pattern = Pattern(angles, intensity, None, CU_KALPHA1, name, CU_KALPHA2, 0.5)
                yield Case(row, pattern, (known,))


def build(structures: Sequence[Structure], model: Predictor | None) -> Database:
    """A database in memory, with embeddings if there is a model."""
    entries: list[Entry] = []
    for structure in track(structures, "lines of the entries"):
        entries.append(entry_of(structure, species_of(structure.name), "", structure.name))
    lines = [entry.lines for entry in entries]
    if model is None:
        return Database("minerals", entry_arrays(entries), {})
    parts = [embed_lines(lines[i : i + 64], model) for i in track(range(0, len(lines), 64), "embedding")]
    return Database("minerals", entry_arrays(entries, np.concatenate(parts)), {})


def ranks(scores: NDArray[np.floating]) -> NDArray[np.intp]:
    """The rank of each entry, 0 for the highest score."""
    return np.argsort(np.argsort(-scores, kind="stable"), kind="stable")


def evaluate(database: Database, cases: Sequence[Case], model: Predictor | None) -> None:
    """Print the table."""
    species = np.array([database.name(i) for i in range(database.count)])
    found: dict[str, dict[str, list[int]]] = {}
    seconds: dict[str, float] = {}
    for case in track(cases, "searching"):
        by: dict[str, NDArray[np.intp]] = {}
        started = time.perf_counter()
        by["lines"] = ranks(line_scores(database, case.pattern))
        seconds["lines"] = seconds.get("lines", 0.0) + time.perf_counter() - started
        if model is not None:
            started = time.perf_counter()
            by["embedding"] = ranks(similarities(database, case.pattern, model))
            seconds["embedding"] = seconds.get("embedding", 0.0) + time.perf_counter() - started
            by["both"] = ranks(-(by["lines"] + by["embedding"]).astype(float))
            by["either"] = ranks(-np.minimum(by["lines"], by["embedding"]).astype(float))
        for names in case.species:
            rows = np.flatnonzero(np.isin(species, list(names)))
            for way, rank in by.items():
                found.setdefault(case.row, {}).setdefault(way, []).append(int(rank[rows].min()))
    table = Table(title=f"Recall of phases among {database.count} entries")
    for heading in ("patterns", "phases", "by", *(f"first {n}" for n in FIRST)):
        table.add_column(heading, justify="left" if heading in ("patterns", "by") else "right")
    for row, ways in found.items():
        for place, (way, best) in enumerate(ways.items()):
            cells = [f"{np.mean(np.array(best) < n):.1%}" for n in FIRST]
            table.add_row(*((row, str(len(best))) if not place else ("", "")), way, *cells)
    Console(width=120).print(table)
    print("; ".join(f"{way}: {total / len(cases):.3f} s a pattern" for way, total in seconds.items()))


def main(model: Path | None = None, count: int = 100, lines_only: bool = False, entries: int = 0) -> None:
    """Print the table.

    Args:
        model: folder of a run of powder-embed; the model of the package by default.
        count: simulated mixtures of each number of phases.
        lines_only: use no model.
        entries: of the database, the first ones; all by default.
    """
    structures = list(minerals(b_iso=1.0))[: entries or None]
    predictor = None
    if not lines_only:
        predictor = load(model) if model is not None else embedding_model()  # type: ignore[assignment]
    known = frozenset(species_of(each.name) for each in structures)
    cases = [*simulated_cases(structures, count), *reference_cases(known)]
    evaluate(build(structures, predictor), cases, predictor)


if __name__ == "__main__":
    tyro.cli(main)
