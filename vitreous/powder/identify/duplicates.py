"""Structures of one phase, which a database joins in one entry.

Two structures are of one phase if they have the same elements and space group, nearly the same reduced cell and
density, nearly the same strong lines, and the same name or composition: neighbours in a series of solid solutions that
have names of their own stay apart. The first of several represents them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vitreous.powder.identify.contents import read_formula
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.entry import EntryLines, powder_strength


@dataclass(frozen=True)
class DuplicateTuning:
    """How near two structures of one phase are; the last two were chosen on pairs of the AMCSD minerals.

    Args:
        length: relative difference of the lengths of the reduced cells.
        angle: degrees, difference of their angles.
        density: relative difference of mass over volume; solid solutions differ in it before they do in the cell.
        composition: difference of the share of any element among the atoms, if the names differ.
        similarity: least cosine of the strong lines, broadened.
        width: relative standard deviation of a broadened line.
        lines: strong lines that are compared.
    """

    length: float = 0.005
    angle: float = 0.5
    density: float = 0.03
    composition: float = 0.01
    similarity: float = 0.95
    width: float = 0.01
    lines: int = 16


DUPLICATE_TUNING = DuplicateTuning()
_Key = tuple[bytes, int, str, bool, int]


@dataclass
class _Phases:
    """The entries that represent their phases so far, found by elements, space group and volume."""

    tables: Sequence[Database]
    tuning: DuplicateTuning
    table: NDArray[np.int64]  # (N,), the table of each structure
    row: NDArray[np.int64]  # (N,), and its row there
    buckets: dict[_Key, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stacked = {
            name: np.concatenate([each.arrays[name] for each in self.tables])
            for name in ("elements", "spacegroup", "reduced", "volume", "cell_mass", "has_atoms")
        }
        sizes = [each.count for each in self.tables]
        place = (np.cumsum(sizes) - sizes)[self.table] + self.row
        elements, spacegroup, self.reduced, volume, mass, atoms = (values[place] for values in stacked.values())
        self.density = (mass / volume).tolist()
        lengths, angles = self.reduced[:, :3], np.radians(self.reduced[:, 3:])
        cosines = np.cos(angles)
        root = 1 + 2 * cosines.prod(1) - (cosines**2).sum(1)
        log_volume = np.log(lengths.prod(1) * np.sqrt(np.maximum(root, 1e-12)))
        step = 8 * self.tuning.length  # changes of volume by lengths and angles within the tolerance are smaller
        self.bin = np.floor(log_volume / step).astype(np.int64).tolist()
        # Without a number, the symbol must be the same.
        symbols = [
            "" if number else self.tables[t].symbol(r)
            for number, t, r in zip(spacegroup.tolist(), self.table.tolist(), self.row.tolist(), strict=True)
        ]
        rows = zip(elements, spacegroup.tolist(), symbols, atoms.tolist(), strict=True)
        self.keys = [(bits.tobytes(), number, symbol, bool(has)) for bits, number, symbol, has in rows]

    def add(self, k: int) -> None:
        self.buckets.setdefault((*self.keys[k], self.bin[k]), []).append(k)

    def find(self, k: int) -> int | None:
        """The first entry of the same phase as structure k."""
        near = [j for step in (-1, 0, 1) for j in self.buckets.get((*self.keys[k], self.bin[k] + step), ())]
        if not near:
            return None
        order = np.sort(np.array(near))
        difference = np.abs(self.reduced[order] - self.reduced[k])
        alike = (difference[:, :3] <= self.tuning.length * self.reduced[k, :3]).all(1)
        alike &= (difference[:, 3:] <= self.tuning.angle).all(1)
        return next((j for j in order[alike].tolist() if self._same_contents(j, k)), None)

    def _same_contents(self, j: int, k: int) -> bool:
        if not self._same_substance(self._texts(j), self._texts(k)):
            return False
        if not self.density[k]:  # without atoms
            return True
        if abs(self.density[j] / self.density[k] - 1) > self.tuning.density:
            return False
        return similarity(self._lines(j), self._lines(k), self.tuning) >= self.tuning.similarity

    def _same_substance(self, first: tuple[str, str], second: tuple[str, str]) -> bool:
        """Whether formulas and names, of entries with the same elements, are those of one phase."""
        if first[1].casefold() == second[1].casefold():
            return True
        shares = [_shares(formula) for formula, _ in (first, second)]
        if not shares[0] or shares[0].keys() != shares[1].keys():
            return False
        return all(abs(share - shares[1][symbol]) <= self.tuning.composition for symbol, share in shares[0].items())

    def _texts(self, k: int) -> tuple[str, str]:
        """Formula and name."""
        table, row = self.tables[self.table[k]], int(self.row[k])
        return table.formula(row), table.name(row)

    def _lines(self, k: int) -> EntryLines:
        table: Database = self.tables[int(self.table[k])]
        return table.lines(int(self.row[k]))


def join_duplicates(
    tables: Sequence[Database], table: NDArray[np.int64], row: NDArray[np.int64], distinct: int,
    tuning: DuplicateTuning = DUPLICATE_TUNING,
) -> NDArray[np.int64]:  # fmt: skip
    """The structure `(N,)` that represents each of N structures, which are rows of tables; itself if it is new.

    Args:
        distinct: how many of the first structures are known to be of different phases.
    """
    phases = _Phases(tables, tuning, table, row)
    owner = np.arange(len(row))
    for k in range(len(row)):
        found = phases.find(k) if k >= distinct else None
        if found is None:
            phases.add(k)
        else:
            owner[k] = found
    return owner


def similarity(a: EntryLines, b: EntryLines, tuning: DuplicateTuning = DUPLICATE_TUNING) -> float:
    """The cosine between the strongest lines of two crystals with Cu Kα, as Gaussian lines along ln(1/d)."""
    first, second = _profile(a, tuning), _profile(b, tuning)
    norm = _overlap(first, first, tuning) * _overlap(second, second, tuning)
    return _overlap(first, second, tuning) / float(np.sqrt(norm)) if norm > 0 else 0.0


@lru_cache(maxsize=4096)
def _shares(formula: str) -> dict[str, float]:
    """Shares of the elements among the atoms; empty if the formula cannot be read."""
    read = read_formula(formula)
    counts = dict(read.counts) if read is not None else {}
    return {symbol: count / sum(counts.values()) for symbol, count in counts.items()}


def _profile(lines: EntryLines, tuning: DuplicateTuning) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    strength = powder_strength(lines.s, lines.intensity)
    strongest = np.argsort(-strength, kind="stable")[: tuning.lines]
    return np.log(lines.s[strongest].astype(np.float64)), strength[strongest] / max(strength.max(initial=0.0), 1e-30)


def _overlap(
    a: tuple[NDArray[np.float64], NDArray[np.float64]], b: tuple[NDArray[np.float64], NDArray[np.float64]],
    tuning: DuplicateTuning,
) -> float:  # fmt: skip
    closeness = np.exp(-(((a[0][:, None] - b[0]) / (2 * tuning.width)) ** 2))
    return float(a[1] @ closeness @ b[1])
