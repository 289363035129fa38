"""Extinction symbols of Bravais lattices, the space groups of each, and which reflections they make absent.

`tools/make_extinction_table.py` writes the table, in the settings of our conventional cells.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vitreous.powder.lattice_prior import bravais_name
from vitreous.powder.sim.space_groups import are_absent, load_table

TABLE = Path(__file__).with_name("extinctions.json")
_RAREST = 0.5  # crystals: the frequency of a space group that none of the prior's crystals has


@dataclass(frozen=True)
class SpaceGroup:
    """A space group in a setting.

    Args:
        number: in the International Tables.
        name: Hermann-Mauguin symbol in this setting.
        axes: (3, 3), the axes of the setting as columns, in those of the standard setting.
        share: of crystals with this extinction symbol that have this group.
    """

    number: int
    name: str
    axes: tuple[tuple[int, int, int], ...]
    share: float


@dataclass(frozen=True)
class ExtinctionSymbol:
    """Space groups with the same absent reflections, likeliest first, which absences cannot tell apart.

    Args:
        symbol: as in the International Tables, e.g. `P 1 21/c 1`.
        groups: in the setting of the conventional cell.
        frequency: number of crystals, among those of the prior, that have one of the groups in this setting.
    """

    symbol: str
    groups: tuple[SpaceGroup, ...]
    frequency: float

    def absent(self, hkl: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which reflections `(n, 3)` are absent."""
        group = self.groups[0]
        standard = hkl @ np.linalg.inv(np.array(group.axes, dtype=np.float64))
        return are_absent(torch.as_tensor(standard).round(), group.number).numpy()


@lru_cache(maxsize=32)
def extinction_symbols(system: str, centring: str) -> tuple[ExtinctionSymbol, ...]:
    """The extinction symbols of a Bravais lattice, those with fewest absences first."""
    counts = load_table("prior")["frequency"]
    table = _table()
    settings: dict[int, int] = {}  # of each space group, how many settings this lattice has
    rows = table[bravais_name(system, centring)]
    for row in rows:
        for group in row["groups"]:
            settings[group["number"]] = settings.get(group["number"], 0) + 1
    symbols = []
    for row in rows:
        weights = [max(float(counts[g["number"] - 1]), _RAREST) / settings[g["number"]] for g in row["groups"]]
        total = sum(weights)
        groups = [
            SpaceGroup(group["number"], group["name"], tuple(map(tuple, group["axes"])), weight / total)
            for group, weight in zip(row["groups"], weights, strict=True)
        ]
        groups.sort(key=lambda group: -group.share)
        symbols.append(ExtinctionSymbol(row["symbol"], tuple(groups), total))
    return tuple(symbols)


@lru_cache(maxsize=1)
def _table() -> dict[str, list[dict[str, Any]]]:
    table: dict[str, list[dict[str, Any]]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table
