"""Simulated patterns for a model that tells the crystal system and the extinction group from the raw profile.

Many of the patterns are as poor as those of fast scans: 50 counts in the strongest line, broad lines, high backgrounds,
amorphous humps, ranges that begin late and end early.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from vitreous.data.simulated import fixed_samples
from vitreous.data.source import Source, consecutive_parts
from vitreous.powder.bragg import q_from_two_theta
from vitreous.powder.grid import Q_AXIS
from vitreous.powder.radiation import CU_KALPHA1
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.crystals import Crystals, Device, crystals_with, random_cells, random_groups
from vitreous.powder.sim.effects import Effects
from vitreous.powder.sim.known_cells import draw_known, known_cells
from vitreous.powder.sim.measurement import measure, uniform
from vitreous.powder.sim.random_atoms import atom_intensities
from vitreous.powder.sim.source import equal_counts, q_grid, to_q
from vitreous.powder.sim.space_groups import SYSTEMS

POOR = Effects(
    counts=(50.0, 1e5), width=(0.05, 0.4), background=(0.0, 0.4), hump=(0.0, 0.15), start=(2.0, 15.0),
    texture=(0.6, 1.5), zero=(-0.06, 0.06), displacement=(-0.06, 0.06), impurity=(0.0, 0.05),
)  # fmt: skip
"""Effects of good and of poor measurements."""
_ENDS = (50.0, 90.0)  # degrees of copper radiation at which measurements end
_BOX = 6  # largest index of the reflections that tell extinction groups apart
_KNOWN = 0.6  # share of crystals with cells like those of known ones
_CHUNK = 256


@dataclass(frozen=True)
class ExtinctionGroup:
    """Space groups of one crystal system with the same absent reflections, which absences cannot tell apart.

    Groups that differ in the names of their axes count as one.
    """

    system: str
    groups: tuple[int, ...]  # numbers of the space groups

    @property
    def name(self) -> str:
        """The crystal system and the numbers of the space groups, e.g. `orthorhombic 33 62`."""
        return f"{self.system} {' '.join(map(str, self.groups))}"


@lru_cache(maxsize=1)
def extinction_groups() -> tuple[ExtinctionGroup, ...]:
    """The extinction groups of space groups that real crystals have, by system and number."""
    box = torch.arange(_BOX + 1, dtype=torch.float64)
    signed = torch.arange(-_BOX, _BOX + 1, dtype=torch.float64)
    frequency = space_groups.load_table("prior")["frequency"]
    members: dict[tuple[str, bytes], list[int]] = {}
    for system in SYSTEMS:
        orthorhombic = system == "orthorhombic"  # the signs of its indices do not matter, nor do the names of its axes
        hkl = torch.cartesian_prod(box, box, box) if orthorhombic else torch.cartesian_prod(box, signed, signed)
        names = tuple(permutations(range(3))) if orthorhombic else ((0, 1, 2),)
        for number in space_groups.groups_of_system(system):
            if frequency[number - 1] > 0:
                absent = min(space_groups.are_absent(hkl[:, order], number).numpy().tobytes() for order in names)
                members.setdefault((system, absent), []).append(number)
    return tuple(ExtinctionGroup(system, tuple(numbers)) for (system, _), numbers in members.items())


@lru_cache(maxsize=4)
def _class_of_group(device: torch.device) -> Tensor:
    """The number of the extinction group of each space group, `(231,)`."""
    table = torch.zeros(231, dtype=torch.long)
    for place, each in enumerate(extinction_groups()):
        table[list(each.groups)] = place
    return table.to(device)


def symmetry_samples(count: int, device: Device = "cpu", effects: Effects = POOR) -> tuple[Tensor, Tensor]:
    """Patterns on the grid in q `(count, 1, POINTS)` and the numbers of their extinction groups `(count,)`."""
    patterns, classes = [], []
    for system, n in zip(SYSTEMS, equal_counts(count), strict=True):
        if n:
            crystals = crystals_of_atoms(system, n, effects.s_max, device)
            patterns.append(shortened(to_q(measure(crystals.lines, effects), effects)))
            classes.append(_class_of_group(crystals.group.device)[crystals.group])
    order = torch.randperm(count, device=device)
    return torch.cat(patterns)[order], torch.cat(classes)[order]


def crystals_of_atoms(system: str, count: int, s_max: float, device: Device) -> Crystals:
    """Crystals of random atoms: most in cells like those of known crystals if the data folder has them."""
    known = round(_KNOWN * count) if known_cells(torch.device(device)) else 0
    cell, group = random_cells(system, count, device), random_groups(system, count, s_max, device)
    if known:
        first = draw_known(system, known, device)
        cell, group = torch.cat([first.cell, cell[known:]]), torch.cat([first.group, group[known:]])
    return crystals_with(system, cell, group, s_max, atom_intensities)


def shortened(x: Tensor) -> Tensor:
    """Patterns `(B, 1, POINTS)` with zeros beyond the ends of the measurements."""
    end = q_from_two_theta(uniform(_ENDS, len(x), x.device), CU_KALPHA1)
    return x * (q_grid().to(x) <= end[:, None])[:, None]


def symmetry_source(train: int = 1024, validation: int = 2048, test: int = 4096) -> Source:
    """Patterns of random crystals of all systems, with extinction groups as classes; training draws new ones."""
    x, y = fixed_samples(symmetry_samples, train + validation + test, 20243, _CHUNK)
    names = tuple(each.name for each in extinction_groups())
    return Source(
        "simulated powders of all systems", x, np.asarray(y), (Q_AXIS,), ("intensity",), names, (),
        consecutive_parts(train, validation, test), fresh=symmetry_samples,
    )  # fmt: skip


def with_counts(counts: float) -> Effects:
    """The effects of a laboratory diffractometer with this number of counts in the strongest line."""
    return replace(Effects(), counts=(counts, counts))
