"""Cells and space groups as real crystals have them together, each a little changed.

The package's own statistics (`prior.npz`) draw the lengths of a cell and the space group apart. Real crystals of a
space group have cells of certain shapes, which a model that must guess from little has to know.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitreous.data.builtin import data_folder
from vitreous.powder.sim.crystals import Device, longest_axes
from vitreous.powder.sim.space_groups import SYSTEMS, system_of

_LEFT_OUT = "amcsd"  # the minerals of the benchmarks
_STRAIN = 0.03  # deviation of the logarithm of a length, in random crystals from known ones
_TURN = 1.5  # degrees, deviation of an angle that is free


class KnownCells(NamedTuple):
    """Cells `(n, 6)` and the numbers of their space groups `(n,)`."""

    cell: Tensor
    group: Tensor


@lru_cache(maxsize=4)
def known_cells(device: torch.device) -> dict[str, KnownCells]:
    """The cells of `crystals/cells.npz` in the data folder that are no minerals', by system; empty without the file."""
    path = data_folder() / "crystals" / "cells.npz"
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as data:
        used = data["source"] != _LEFT_OUT
        groups, cells, reduced = (data[name][used] for name in ("spacegroup", "conventional", "niggli"))
    systems = np.array([system_of(int(number)) for number in groups])
    found = {}
    for system in SYSTEMS:
        cell = (reduced if system == "triclinic" else cells).astype(np.float32)
        kept = (systems == system) & (cell[:, :3] < 0.9 * np.array(longest_axes(system))).all(1)
        group = torch.as_tensor(groups[kept].astype(np.int64), device=device)
        found[system] = KnownCells(torch.as_tensor(cell[kept], device=device), group)
    return found


def draw_known(system: str, count: int, device: Device) -> KnownCells:
    """Random known crystals of a system with other lengths and angles, as far as the system lets them be free."""
    known = known_cells(torch.device(device))[system]
    chosen = torch.randint(len(known.group), (count,), device=device)
    cell, group = known.cell[chosen], known.group[chosen]
    stretch = torch.exp(_STRAIN * torch.randn(count, 3, device=device))
    turn = _TURN * torch.randn(count, 3, device=device)
    if system in ("tetragonal", "trigonal", "hexagonal"):
        stretch[:, 1] = stretch[:, 0]
    if system == "cubic":
        stretch = stretch[:, :1].expand(-1, 3)
    if system == "monoclinic":
        turn = turn * torch.tensor([0.0, 1.0, 0.0], device=device)
    if system not in ("monoclinic", "triclinic"):
        turn = torch.zeros_like(turn)
    return KnownCells(torch.cat([cell[:, :3] * stretch, cell[:, 3:] + turn], dim=1), group)
