"""The extinction symbol of a simulated crystal is ranked first."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from vitreous.powder.refinement.refine import Refinement, refinement
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.structure import Cell, Structure, structure_lines
from vitreous.powder.symmetry import RankedSymbol, rank_symbols

WAVELENGTH = 1.540598
WIDTH = 0.12  # degrees, FWHM
GENERAL = ((0.13, 0.21, 0.37), (0.42, 0.09, 0.18), (0.27, 0.44, 0.11), (0.61, 0.33, 0.79), (0.83, 0.16, 0.54))


@dataclass(frozen=True)
class Crystal:
    """A crystal and the range of its pattern in degrees of 2θ."""

    group: int
    system: str
    centring: str
    cell: Cell
    elements: tuple[str, ...]
    positions: tuple[tuple[float, float, float], ...]
    limits: tuple[float, float]


MONOCLINIC: Cell = (5.6, 7.3, 6.1, 90.0, 104.0, 90.0)
ATOMS = ("Fe", "S", "O", "O", "C")
GLIDE = Crystal(14, "monoclinic", "P", MONOCLINIC, ATOMS, GENERAL, (10.0, 62.0))
NO_GLIDE = Crystal(10, "monoclinic", "P", MONOCLINIC, ATOMS, GENERAL, (10.0, 62.0))
ORTHORHOMBIC = Crystal(19, "orthorhombic", "P", (8.1, 5.3, 7.4, 90.0, 90.0, 90.0), ATOMS, GENERAL, (10.0, 62.0))
SILICON = Crystal(227, "cubic", "F", (5.431, 5.431, 5.431, 90.0, 90.0, 90.0), ("Si",), ((0.125,) * 3,), (20.0, 130.0))
SALT = Crystal(
    225, "cubic", "F", (5.64, 5.64, 5.64, 90.0, 90.0, 90.0), ("Na", "Cl"), ((0.0,) * 3, (0.5,) * 3), (20.0, 110.0)
)
CRYSTALS = (GLIDE, NO_GLIDE, ORTHORHOMBIC, SILICON, SALT)


def pattern(crystal: Crystal) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Angles and counts: 20,000 of the strongest line on a background of 200."""
    count = len(crystal.elements)
    structure = Structure(
        "simulated", crystal.cell, space_groups.operations(crystal.group), crystal.elements,
        np.array(crystal.positions), np.ones(count), np.full(count, 0.8),
    )  # fmt: skip
    lines = structure_lines(structure, 2 * np.sin(np.radians(crystal.limits[1] / 2)) / WAVELENGTH)
    theta = np.arcsin(lines.s.numpy() * WAVELENGTH / 2)
    area = lines.intensity.numpy() * (1 + np.cos(2 * theta) ** 2) / (np.sin(theta) ** 2 * np.cos(theta))
    x = np.arange(*crystal.limits, 0.02)
    curve = np.exp(-4 * np.log(2) * ((x[:, None] - np.degrees(2 * theta)) / WIDTH) ** 2) @ area
    return x, np.random.default_rng(0).poisson(200 + 20_000 * curve / curve.max()).astype(float)


@cache
def refined(crystal: Crystal, stretch: float = 1.0) -> Refinement:
    """The refinement from the true cell, or from one with longer axes."""
    start = [value * (stretch if i < 3 else 1) for i, value in enumerate(crystal.cell)]
    return refinement(
        *pattern(crystal), start, wavelength=WAVELENGTH, system=crystal.system, centring=crystal.centring
    )  # fmt: skip


def ranked(crystal: Crystal, stretch: float = 1.0) -> list[RankedSymbol]:
    return rank_symbols(refined(crystal, stretch), crystal.system, crystal.centring)


@pytest.mark.parametrize("crystal", CRYSTALS, ids=lambda crystal: crystal.group)
def test_probabilities_sum_to_one_and_fall(crystal: Crystal) -> None:
    probabilities = [symbol.probability for symbol in ranked(crystal)]
    assert sum(probabilities) == pytest.approx(1)
    assert probabilities == sorted(probabilities, reverse=True)


@pytest.mark.parametrize("crystal", CRYSTALS, ids=lambda crystal: crystal.group)
@pytest.mark.parametrize("stretch", [1.0, 1.002])
def test_a_lattice_without_screws_and_glides_has_no_absences(crystal: Crystal, stretch: float) -> None:
    assert min(symbol.absences for symbol in ranked(crystal, stretch)) == 0


def test_p21_c_is_recognised() -> None:
    first = ranked(GLIDE)[0]
    assert first.symbol == "P 1 21/c 1"
    assert first.probability > 0.9
    assert first.groups[0].number == 14


def test_a_crystal_without_absences_is_given_no_glide_plane() -> None:
    symbols = ranked(NO_GLIDE)
    assert symbols[0].symbol == "P 1 - 1"
    assert 10 in [group.number for group in symbols[0].groups]
    assert sum(symbol.probability for symbol in symbols if set(symbol.symbol) & set("acn")) < 0.05


def test_three_screw_axes_are_recognised() -> None:
    first = ranked(ORTHORHOMBIC)[0]
    assert first.symbol == "P 21 21 21"
    assert [group.number for group in first.groups] == [19]


def test_the_diamond_glides_of_silicon_are_recognised() -> None:
    first = ranked(SILICON)[0]
    assert first.symbol == "F d - -"
    assert first.groups[0].number == 227


def test_a_face_centred_crystal_without_glides_is_given_none() -> None:
    first = ranked(SALT)[0]
    assert first.symbol == "F - - -"
    assert first.groups[0].number == 225


def test_the_answer_does_not_depend_on_the_cell_from_which_the_refinement_starts() -> None:
    near, off = ranked(GLIDE), ranked(GLIDE, stretch=1.002)
    assert off[0].symbol == near[0].symbol
    assert {each.symbol: each.absences for each in off} == {each.symbol: each.absences for each in near}


def test_a_symbol_as_json_names_its_groups_with_shares() -> None:
    entry = ranked(GLIDE)[0].to_dict()
    assert entry["space_groups"] == [{"number": 14, "name": "P 1 21/c 1", "share": 1.0}]
    assert 0 <= entry["probability"] <= 1
