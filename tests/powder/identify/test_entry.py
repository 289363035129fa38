"""Entries of a database: what they say of a crystal, whatever the setting of its cell."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.powder.identify.crystals import crystal
from vitreous.core.errors import InputError
from vitreous.powder.identify.crystal_symmetry import crystal_system, space_group_number
from vitreous.powder.identify.dispersion import copper_lines
from vitreous.powder.identify.entry import MOST_LINES, S_MAX, entry_of, entry_of_cell, powder_strength
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.structure import Structure, structure_lines

CUBE = (5.64, 5.64, 5.64, 90.0, 90.0, 90.0)


def test_quartz_is_described(tmp_path: Path) -> None:
    quartz = entry_of(crystal(tmp_path, "quartz"), "Quartz", "Si O2", "quartz.cif")
    assert (quartz.name, quartz.formula, quartz.source) == ("Quartz", "SiO2", "quartz.cif")
    assert (quartz.spacegroup, quartz.number, quartz.system) == ("P 32 2 1", 154, "trigonal")
    assert quartz.elements == {"Si", "O"}
    assert quartz.cell_mass == pytest.approx(3 * 60.08, abs=0.02)
    assert quartz.cell_mass / quartz.volume / 0.60221 == pytest.approx(2.65, abs=0.01)  # g/cm³
    strongest = quartz.lines.s[powder_strength(quartz.lines.s, quartz.lines.intensity).argmax()]
    assert 1 / strongest == pytest.approx(3.343, abs=0.002)


def test_lines_are_those_of_the_structure_by_ascending_s(tmp_path: Path) -> None:
    rutile = crystal(tmp_path, "rutile")
    found, expected = entry_of(rutile, "", "", "").lines, copper_lines(rutile, S_MAX)
    assert np.array_equal(found.hkl, expected.hkl.numpy())
    assert found.s == pytest.approx(expected.s.numpy(), rel=1e-6)
    assert found.intensity == pytest.approx(expected.intensity.numpy(), rel=1e-5)
    assert (np.diff(found.s) >= 0).all()


def test_a_centred_cell_has_the_reduced_cell_of_its_lattice(tmp_path: Path) -> None:
    halite = entry_of(crystal(tmp_path, "halite"), "", "", "")
    assert halite.reduced == pytest.approx((5.6402 / 2**0.5,) * 3 + (60.0,) * 3)


def test_two_settings_of_a_crystal_have_one_lattice_group_and_pattern() -> None:
    """P 21/c and P 21/n of one crystal: c' = -a - c."""
    change = np.array([[1, 0, -1], [0, 1, 0], [0, 0, -1]])  # columns: the new axes
    cell = (6.0, 9.0, 7.5, 90.0, 100.0, 90.0)
    rotations, translations = space_groups.operations(14)
    inverse = np.linalg.inv(change)
    turned = np.rint(inverse @ rotations @ change).astype(np.int64), (translations @ inverse.T) % 1.0
    x = np.array([[0.1, 0.2, 0.3], [0.4, 0.15, 0.8]])
    ac = 6.0 * 7.5 * np.cos(np.radians(100.0))
    c = float(np.sqrt(36 + 56.25 + 2 * ac))
    beta = float(np.degrees(np.arccos((-36 - ac) / (6 * c))))
    ones = np.ones(2)
    first = Structure("c", cell, (rotations, translations), ("Fe", "O"), x, ones, ones)
    second = replace(first, cell=(6.0, 9.0, c, 90.0, beta, 90.0), operations=turned, positions=x @ inverse.T)
    a, b = (entry_of(each, "x", "", "") for each in (first, second))
    assert a.number == b.number == 14
    assert a.volume == pytest.approx(b.volume)
    assert a.reduced == pytest.approx(b.reduced, abs=1e-6)
    strength = [powder_strength(each.lines.s, each.lines.intensity) for each in (a, b)]
    assert np.sort(strength[0])[-50:] == pytest.approx(np.sort(strength[1])[-50:], rel=1e-3)


def test_hydrogen_that_the_structure_lacks_counts_in_the_mass(tmp_path: Path) -> None:
    brucite = entry_of(crystal(tmp_path, "brucite"), "", "Mg O2 H2", "")
    assert brucite.cell_mass == pytest.approx(58.32, abs=0.01)
    assert brucite.elements == {"Mg", "O", "H"}


def test_a_structure_without_a_formula_is_named_by_its_atoms(tmp_path: Path) -> None:
    fluorite = entry_of(crystal(tmp_path, "fluorite"), "", "", "")
    assert (fluorite.name, fluorite.formula) == ("CaF2", "CaF2")


@pytest.mark.parametrize("number", range(1, 231, 3))
def test_operations_tell_system_and_group(number: int) -> None:
    pytest.importorskip("gemmi")
    operations = space_groups.operations(number)
    assert crystal_system(operations[0]) == space_groups.system_of(number)
    assert space_group_number(operations) == number


def test_a_large_structure_takes_little_time_and_keeps_its_strongest_lines() -> None:
    random = np.random.default_rng(0)
    atoms = 2000
    ones = np.ones(atoms)
    operations = space_groups.operations(2)
    cell = (40.0, 45.0, 50.0, 85.0, 80.0, 75.0)
    large = Structure("large", cell, operations, ("C",) * atoms, random.random((atoms, 3)), ones, ones)
    start = time.process_time()
    lines = entry_of(large, "", "", "").lines
    assert time.process_time() - start < 5
    assert len(lines.s) == MOST_LINES
    some = structure_lines(large, 0.1)
    strong = some.s[some.intensity > some.intensity.max() / 2]
    assert np.isin(strong.numpy().astype(np.float32), lines.s).all()


def test_a_cell_without_atoms_has_the_lines_that_its_group_allows() -> None:
    pytest.importorskip("gemmi")
    entry = entry_of_cell(CUBE, "F m -3 m", "salt", "Na Cl", "list")
    assert not entry.has_atoms
    assert entry.cell_mass == 0
    assert (entry.number, entry.system, entry.elements) == (225, "cubic", {"Na", "Cl"})
    assert entry.lines.hkl[0].tolist() == [1, 1, 1]
    assert entry.lines.intensity[0] == 8
    assert entry_of_cell(CUBE, "225", "", "", "").lines.s == pytest.approx(entry.lines.s)


def test_a_cell_without_a_group_has_the_symmetry_of_its_metric() -> None:
    entry = entry_of_cell(CUBE, None, "", "", "list")
    assert (entry.number, entry.system, entry.spacegroup) == (0, "cubic", "")
    assert entry.lines.hkl[0].tolist() == [1, 0, 0]
    assert entry.lines.intensity[0] == 6


@pytest.mark.parametrize(
    ("group", "formula", "message"),
    [("231", "", "space group '231'"), ("P 63/m", "", "does not have the symmetry"), (None, "Xx2", "formula 'Xx2'")],
)
def test_a_row_that_contradicts_itself_is_refused(group: str | None, formula: str, message: str) -> None:
    pytest.importorskip("gemmi")
    with pytest.raises(InputError, match=message):
        entry_of_cell(CUBE, group, "x", formula, "list, line 2")
