"""Intensities of random structures: those of the structure simulator for the same atoms."""

import numpy as np
import pytest
import torch

from vitreous.powder.sim import space_groups
from vitreous.powder.sim.crystals import Crystals, Reflections, random_crystals
from vitreous.powder.sim.random_atoms import Atoms, atom_intensities, random_atoms, structure_intensities
from vitreous.powder.sim.space_groups import SYSTEMS
from vitreous.powder.sim.structure import Structure, expand, structure_lines

S_MAX = 0.45  # 1/Å


def draw(system: str, count: int) -> tuple[Reflections, Atoms, torch.Tensor]:
    kept: list[tuple[Reflections, Atoms, torch.Tensor]] = []

    def intensities(drawn: Reflections) -> torch.Tensor:
        atoms = random_atoms(drawn)
        kept.append((drawn, atoms, structure_intensities(drawn, atoms)))
        return kept[0][2]

    torch.manual_seed(3)
    random_crystals(system, count, S_MAX, intensities=intensities)
    return kept[0]


def structure(drawn: Reflections, atoms: Atoms, which: int) -> Structure:
    symbols = [str(symbol) for symbol in space_groups.load_table("tables")["symbols"]]
    occupied = atoms.share[which] > 0
    elements = tuple(symbols[z - 1] for z in atoms.elements[which][occupied].tolist())
    return Structure(
        "random", tuple(drawn.cell[which].double().tolist()),
        space_groups.operations(int(drawn.group[which])), elements,
        atoms.positions[which][occupied].double().numpy(), np.ones(len(elements)),
        np.full(len(elements), float(atoms.b_iso[which])),
    )  # fmt: skip


def total_near(at: np.ndarray, s: np.ndarray, intensity: np.ndarray) -> np.ndarray:
    """The intensity of all reflections with the same d as each of `at`, which are one line in a powder."""
    near = np.abs(at[:, None] - s) < 2e-5 * at[:, None]  # s is in single precision
    return near @ intensity


@pytest.mark.parametrize("system", SYSTEMS)
def test_intensities_are_those_of_the_structure(system: str) -> None:
    drawn, atoms, intensity = draw(system, 24)
    compared = 0
    for which in range(24):
        same = structure(drawn, atoms, which)
        order = len(same.operations[0])
        if len(expand(same).elements) != round(float(atoms.share[which].sum()) * order):
            continue  # an atom is so close to a special position that the structure simulator moves it there
        lines, own = structure_lines(same, S_MAX), drawn.owner == which
        at = lines.s.numpy()
        expected = total_near(at, at, lines.intensity.numpy())
        found = total_near(at, drawn.s[own].double().numpy(), intensity[own].double().numpy())
        strong = expected > 0.01 * expected.max(initial=0)
        if strong.sum() > 3:
            found *= np.median(expected[strong] / found[strong])
            close = np.abs(found - expected) < 1e-3 * expected.max()
            assert close.mean() > 0.97, int(drawn.group[which])  # two lines may be just as far apart as the limit
            compared += 1
    assert compared > 6


def test_some_lines_are_much_weaker_than_others() -> None:
    torch.manual_seed(0)
    crystals: Crystals = random_crystals("cubic", 200, 0.9, intensities=atom_intensities)
    lines = crystals.lines
    strongest = torch.zeros(200).scatter_reduce(0, lines.owner, lines.intensity, "amax")
    assert (lines.intensity < 1e-4 * strongest[lines.owner]).float().mean() > 0.1
