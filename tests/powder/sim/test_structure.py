"""Powder lines of real crystals equal pymatgen's and gemmi's."""

import gzip
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.data.builtin import data_folder
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.structure import FormFactors, Structure, expand, form_factors, structure_lines
from vitreous.powder.sim.structure_files import element_of_label, minerals, parse_operations, read_cif

WAVELENGTH = 1.540593  # Å, Cu Kα1
RANGE = (5.0, 90.0)  # degrees 2θ
S_MIN, S_MAX = (2 * math.sin(math.radians(t / 2)) / WAVELENGTH for t in RANGE)
MINERALS = data_folder() / "crystals" / "minerals.jsonl.gz"
A_SYSTEM = 10  # minerals compared in each crystal system

QUARTZ = """data_quartz
_chemical_formula_sum 'O2 Si'
_cell_length_a 4.9134(2)
_cell_length_b 4.9134(2)
_cell_length_c 5.4052(3)
_cell_angle_alpha 90
_cell_angle_beta 90
_cell_angle_gamma 120
_symmetry_space_group_name_H-M 'P 32 2 1'
loop_
_atom_site_label
_atom_site_type_symbol
_atom_site_fract_x
_atom_site_fract_y
_atom_site_fract_z
_atom_site_occupancy
_atom_site_U_iso_or_equiv
Si1 Si4+ 0.4697 0.0000 0.66667 1 0.0070
O1 O2- 0.4135 0.2669 0.7858 0.95 0.0130
"""


CUBIC, HEXAGONAL = (90.0, 90.0, 90.0), (90.0, 90.0, 120.0)
CRYSTALS: dict[str, tuple[tuple[float, ...], int, tuple[tuple[Any, ...], ...], int]] = {
    # cell, space group, sites (element, x, y, z), atoms in the cell
    "silicon": ((5.4311, 5.4311, 5.4311, *CUBIC), 227, (("Si", 0.125, 0.125, 0.125),), 8),
    "halite": ((5.6402, 5.6402, 5.6402, *CUBIC), 225, (("Na", 0, 0, 0), ("Cl", 0.5, 0.5, 0.5)), 8),
    "CsCl": ((4.123, 4.123, 4.123, *CUBIC), 221, (("Cs", 0, 0, 0), ("Cl", 0.5, 0.5, 0.5)), 2),
    "fluorite": ((5.4626, 5.4626, 5.4626, *CUBIC), 225, (("Ca", 0, 0, 0), ("F", 0.25, 0.25, 0.25)), 12),
    "pyrite": ((5.418, 5.418, 5.418, *CUBIC), 205, (("Fe", 0, 0, 0), ("S", 0.3851, 0.3851, 0.3851)), 12),
    "magnesium": ((3.2094, 3.2094, 5.2108, *HEXAGONAL), 194, (("Mg", 0.3333, 0.6667, 0.25),), 2),
    "quartz": (
        (4.9134, 4.9134, 5.4052, *HEXAGONAL),
        154,
        (("Si", 0.4697, 0, 0.66667), ("O", 0.4135, 0.2669, 0.7858)),
        9,
    ),
    "corundum": ((4.7602, 4.7602, 12.9933, *HEXAGONAL), 167, (("Al", 0, 0, 0.3522), ("O", 0.3063, 0, 0.25)), 30),
    "rutile": ((4.594, 4.594, 2.959, *CUBIC), 136, (("Ti", 0, 0, 0), ("O", 0.3053, 0.3053, 0)), 6),
    "FeB": ((5.506, 2.952, 4.061, *CUBIC), 62, (("Fe", 0.18, 0.25, 0.125), ("B", 0.036, 0.25, 0.61)), 8),
    "baddeleyite": (
        (5.1505, 5.2116, 5.3173, 90.0, 99.23, 90.0),
        14,
        (("Zr", 0.2754, 0.0395, 0.2083), ("O", 0.07, 0.3317, 0.3447), ("O", 0.4496, 0.7569, 0.4792)),
        12,
    ),
    "invented": ((5.1, 6.2, 7.4, 81.0, 95.0, 104.0), 2, (("Ca", 0.1, 0.2, 0.3), ("O", 0.6, 0.3, 0.8)), 4),
}


def crystal(name: str, b_iso: float = 0.0) -> Structure:
    cell, group, sites, _ = CRYSTALS[name]
    n = len(sites)
    positions = np.array([site[1:] for site in sites], dtype=float)
    elements = tuple(site[0] for site in sites)
    operations = space_groups.operations(group)
    return Structure(name, cell, operations, elements, positions, np.ones(n), np.full(n, b_iso), group)  # type: ignore[arg-type]


def lorentz_polarisation(two_theta: NDArray[np.float64]) -> NDArray[np.float64]:
    theta = np.radians(two_theta) / 2
    return np.asarray((1 + np.cos(2 * theta) ** 2) / (np.sin(theta) ** 2 * np.cos(theta)))


def pattern(structure: Structure, factors: FormFactors) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """2θ in degrees and intensities, as a diffractometer sees them."""
    result = structure_lines(structure, S_MAX, form_factors=factors)
    inside = result.s >= S_MIN
    two_theta = np.degrees(2 * np.arcsin(WAVELENGTH * result.s[inside].numpy() / 2))
    return two_theta, result.intensity[inside].numpy() * lorentz_polarisation(two_theta)


def sites_of(structure: Structure) -> dict[tuple[float, ...], dict[str, float]]:
    """What stands at each position of the whole cell."""
    atoms = expand(structure)
    sites: dict[tuple[float, ...], dict[str, float]] = {}
    for element, x, occupancy in zip(atoms.elements, atoms.positions, atoms.occupancy, strict=True):
        species = sites.setdefault(tuple(np.round(x, 7)), {})
        species[element] = species.get(element, 0.0) + occupancy
    return sites


def peer_pattern(structure: Structure) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    core, xrd = pytest.importorskip("pymatgen.core"), pytest.importorskip("pymatgen.analysis.diffraction.xrd")
    sites = sites_of(structure)
    peer = core.Structure(core.Lattice.from_parameters(*structure.cell), list(sites.values()), list(sites))
    result = xrd.XRDCalculator(WAVELENGTH).get_pattern(peer, scaled=False, two_theta_range=RANGE)
    return np.array(result.x), np.array(result.y)


def peer_form_factors(elements: Sequence[str], s: Tensor) -> Tensor:
    """pymatgen's f = Z - 41.78214 q Σ a exp(-b q), q = s²/4, in place of International Tables."""
    xrd, core = pytest.importorskip("pymatgen.analysis.diffraction.xrd"), pytest.importorskip("pymatgen.core")
    q, columns = s**2 / 4, []
    for element in elements:
        a, b = torch.tensor(xrd.ATOMIC_SCATTERING_PARAMS[element], dtype=s.dtype).T
        columns.append(core.Element(element).Z - 41.78214 * q * (a * torch.exp(-b * q[:, None])).sum(1))
    return torch.stack(columns, 1)


def difference(structure: Structure, factors: FormFactors = form_factors) -> float:
    """The largest difference of two patterns, in parts of the strongest line; lines within 0.001° are summed."""
    (x, y), (peer_x, peer_y) = pattern(structure, factors), peer_pattern(structure)
    assert np.abs(peer_x[:, None] - x).min(1).max() < 0.001
    position = np.concatenate([x, peer_x])
    order = np.argsort(position)
    window = np.cumsum(np.diff(position[order], prepend=0.0) > 0.001)
    ours, theirs = (np.bincount(window, np.concatenate(parts)[order]) for parts in ((y, 0 * peer_x), (0 * x, peer_y)))
    return float(np.abs(ours / ours.max() - theirs / theirs.max()).max())


@pytest.mark.parametrize("name", CRYSTALS)
def test_an_expanded_cell_has_the_right_number_of_atoms(name: str) -> None:
    assert len(expand(crystal(name)).elements) == CRYSTALS[name][-1]


@pytest.mark.parametrize("name", CRYSTALS)
def test_pattern_equals_that_of_pymatgen(name: str) -> None:
    assert difference(crystal(name)) < 0.02
    assert difference(crystal(name), peer_form_factors) < 2e-5  # it leaves out lines below 1e-5


@pytest.fixture(scope="module")
def some_minerals() -> dict[str, list[Structure]]:
    """Small cells, spread over the file, in each crystal system."""
    if not MINERALS.is_file():
        pytest.skip(f"{MINERALS} is absent; set VITREOUS_DATA")
    with gzip.open(MINERALS, "rt") as file:
        systems = [json.loads(line)["system"] for line in file]
    fit: dict[str, list[Structure]] = {system: [] for system in space_groups.SYSTEMS}
    for system, mineral in zip(systems, minerals(), strict=True):
        images = len(mineral.elements) * len(mineral.operations[0])
        if images <= 400 and all(sum(species.values()) <= 1 for species in sites_of(mineral).values()):
            fit[system].append(mineral)
    return {system: result[:: len(result) // A_SYSTEM][:A_SYSTEM] for system, result in fit.items()}


@pytest.mark.parametrize("system", space_groups.SYSTEMS)
def test_patterns_of_minerals_equal_those_of_pymatgen(system: str, some_minerals: dict[str, list[Structure]]) -> None:
    assert len(some_minerals[system]) == A_SYSTEM
    for mineral in some_minerals[system]:
        assert difference(mineral, peer_form_factors) < 2e-5, mineral.name


def test_tabulated_form_factors_change_few_patterns_of_minerals(some_minerals: dict[str, list[Structure]]) -> None:
    # those of pymatgen differ from International Tables by 1-2 % for Pd, Y, La, Ta, and for H, which is bonded there
    differences = np.array([difference(mineral) for result in some_minerals.values() for mineral in result])
    assert np.median(differences) < 0.005
    assert np.mean(differences < 0.02) >= 0.95
    assert differences.max() < 0.05


def test_structure_factors_of_a_cif_equal_those_of_gemmi(tmp_path: Path) -> None:
    gemmi = pytest.importorskip("gemmi")
    path = tmp_path / "quartz.cif"
    path.write_text(QUARTZ)
    small = gemmi.read_small_structure(str(path))
    small.change_occupancies_to_crystallographic()
    calculator = gemmi.StructureFactorCalculatorX(small.cell)
    group = small.spacegroup.operations()
    result = structure_lines(read_cif(path), S_MAX)
    for hkl, intensity in zip(result.hkl.tolist(), result.intensity.tolist(), strict=True):
        images = len(group.sym_ops) // group.epsilon_factor(hkl)
        multiplicity = images if group.is_reflection_centric(hkl) else 2 * images
        expected = multiplicity * abs(calculator.calculate_sf_from_small_structure(small, hkl)) ** 2
        assert intensity == pytest.approx(expected, rel=1e-3, abs=0.05)


@pytest.mark.parametrize("name", CRYSTALS)
def test_symmetry_changes_no_intensity(name: str) -> None:
    structure = crystal(name, b_iso=0.5)
    with_symmetry, without = structure_lines(structure, 1.0), structure_lines(expand(structure), 1.0)
    assert (with_symmetry.s.diff() >= 0).all()
    s = without.s.unique()
    s = s[torch.cat([torch.tensor([True]), s.diff() > 1e-9])]  # each 1/d once
    sums = [
        torch.zeros_like(s).index_add(0, (each.s[:, None] - s).abs().argmin(1), each.intensity)
        for each in (with_symmetry, without)
    ]
    torch.testing.assert_close(sums[0], sums[1], rtol=1e-6, atol=1e-6 * sums[1].max().item())


def test_symmetry_that_the_cell_does_not_have_merges_no_lines() -> None:
    strained = crystal("halite")
    strained = Structure("strained", (5.64, 5.64, 5.70, *CUBIC), strained.operations, *_atoms(strained))
    result = structure_lines(strained, 0.5)
    doublet = [hkl for hkl in result.hkl.tolist() if sorted(map(abs, hkl)) == [0, 0, 2]]
    assert len(doublet) == 2
    assert result.intensity.sum() == pytest.approx(structure_lines(expand(strained), 0.5).intensity.sum().item())


def _atoms(structure: Structure) -> tuple[Any, ...]:
    return structure.elements, structure.positions, structure.occupancy, structure.b_iso


def test_an_atom_near_a_special_position_counts_once() -> None:
    exact = crystal("rutile")
    moved = Structure(
        "moved", exact.cell, exact.operations, exact.elements, exact.positions + 0.004, *_atoms(exact)[2:]
    )
    assert len(expand(moved).elements) == 6


def test_displacement_reduces_a_line_by_the_debye_waller_factor() -> None:
    still, moving = structure_lines(crystal("silicon"), 1.0), structure_lines(crystal("silicon", b_iso=0.8), 1.0)
    torch.testing.assert_close(moving.intensity, still.intensity * torch.exp(-0.8 * still.s**2 / 2))


def test_half_the_atoms_give_a_quarter_of_the_intensity() -> None:
    full = crystal("silicon")
    half = Structure("half", full.cell, full.operations, full.elements, full.positions, full.occupancy / 2, full.b_iso)
    torch.testing.assert_close(structure_lines(half, 1.0).intensity * 4, structure_lines(full, 1.0).intensity)


def test_chunks_do_not_change_the_result() -> None:
    baddeleyite = crystal("baddeleyite")
    whole, chunked = structure_lines(baddeleyite, 1.0), structure_lines(baddeleyite, 1.0, chunk=50)
    for ours, expected in zip(chunked, whole, strict=True):
        torch.testing.assert_close(ours, expected)
    arguments = (*space_groups.operations(14), (5, 5, 5))
    reflections, chunked_reflections = (space_groups.unique_reflections(*arguments, chunk=n) for n in (1 << 22, 50))
    for ours, expected in zip(chunked_reflections, reflections, strict=True):
        assert torch.equal(ours, expected)


def test_there_are_no_lines_below_the_first() -> None:
    assert len(structure_lines(crystal("silicon"), 0.1).s) == 0


@pytest.mark.parametrize(
    ("label", "formula", "element"),
    [
        ("Fe2", "", "Fe"), ("O1", "", "O"), ("SiT", "", "Si"), ("Wat", "W", "O"), ("WatM3", "", "O"), ("OH", "", "O"),
        ("D", "", "H"), ("D12", "Dy", "H"), ("CO3", "", "C"), ("Co3", "", "Co"), ("NH4", "", "N"), ("Ow", "", "O"),
        ("CL1", "NaCl", "Cl"), ("CA1", "CaCO", "C"), ("Os1", "SiO", "O"), ("HgCO3*", "", "Hg"), ("W1", "W", "W"),
        ("FE3+", "FeO", "Fe"), ("Si4+", "", "Si"), ("Oc", "", "O"),
    ],
)  # fmt: skip
def test_a_label_names_an_element(label: str, formula: str, element: str) -> None:
    assert element_of_label("here", label, re.findall("[A-Z][a-z]?", formula)) == element


@pytest.mark.parametrize("label", ["M1", "X", "", "12", "T*", "?"])
def test_a_label_without_an_element_is_refused(label: str) -> None:
    with pytest.raises(InputError, match="here: unknown element in the label"):
        element_of_label("here", label, ())


@pytest.mark.parametrize("text", ["x,y", "x,y,w", "x,y,z,x", "x,x,z", "x/2,y,z", "x,y,1/0+z", "x,,z", "x,y,z+", ""])
def test_an_invalid_operation_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a symmetry operation"):
        parse_operations("here", ["x,y,z", text])


def test_operations_are_read_as_gemmi_reads_them() -> None:
    gemmi = pytest.importorskip("gemmi")
    texts = [op.triplet() for n in (14, 88, 142, 167, 178, 227, 230) for op in gemmi.SpaceGroup(n).operations()]
    rotations, translations = parse_operations("here", [*texts, " X, 0.5+Y, -z - .25"])
    assert rotations[:-1].tolist() == [(np.array(gemmi.Op(text).rot) // 24).tolist() for text in texts]
    expected = np.array([gemmi.Op(text).tran for text in texts]) / 24 % 1
    assert np.abs(translations[:-1] - expected).max() < 1e-12
    assert translations[-1].tolist() == [0, 0.5, 0.75]


WRONG = {
    "no cell": ("_cell_", "_other_", "found no unit cell"),
    "a cell that is not numbers": ("4.9134(2)", "abc", "unit cell: found .*nan.*, expected finite numbers"),
    "a missing angle": ("_cell_angle_gamma 120", "", "unit cell: found .*nan.*, expected finite numbers"),
    "a negative length": ("5.4052(3)", "-5.4", "expected 1 to 200 Å"),
    "a length of 0": ("5.4052(3)", "0", "expected 1 to 200 Å"),
    "a length beyond 200 Å": ("5.4052(3)", "540", "expected 1 to 200 Å"),
    "an angle of 180°": ("gamma 120", "gamma 180", "found angles"),
    "angles that do not close": ("alpha 90", "alpha 20", "found angles"),
    "an unknown element": ("O1 O2-", "Q1 Qz", "unknown element in the label 'Qz'"),
    "no element": ("O1 O2-", "M1 ?", "unknown element in the label 'M1'"),
    "no position": ("0.4135", "?", "atom 'O1' has no position"),
    "too much of an atom": ("0.95", "3", "atom 'O1' has an occupancy of 3"),
    "no symmetry": ("_symmetry", "_other", "found no symmetry operations and no space group"),
    "no atoms": ("_atom_site_", "_other_", "found no atoms"),
    "two tags alike": ("_cell_length_b", "_cell_length_a", "not a CIF"),
    "another kind of file": (QUARTZ, "two_theta,intensity\n10,3\n", "not a CIF"),
    "nothing": (QUARTZ, "", "found no unit cell"),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_invalid_cif_gives_an_error_of_one_line(what: str, tmp_path: Path) -> None:
    pytest.importorskip("gemmi")
    old, new, message = WRONG[what]
    path = tmp_path / "wrong.cif"
    path.write_text(QUARTZ.replace(old, new))
    with pytest.raises(InputError, match=message) as caught:
        read_cif(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_missing_cif_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("gemmi")
    with pytest.raises(InputError, match="no such file"):
        read_cif(tmp_path / "none.cif")


@pytest.mark.parametrize(
    ("tags", "number"),
    [
        ("_symmetry_Int_Tables_number 154", 154),
        ("_space_group_name_H-M_alt 'P 32 2 1'", 154),
        ("loop_\n_space_group_symop_operation_xyz\n'x, y, z'\n'-x,-y,z+1/2'", 4),
    ],
)
def test_symmetry_of_a_cif_is_found_by_operations_name_or_number(tags: str, number: int, tmp_path: Path) -> None:
    pytest.importorskip("gemmi")
    path = tmp_path / "quartz.cif"
    path.write_text(QUARTZ.replace("_symmetry_space_group_name_H-M 'P 32 2 1'", tags))
    result = read_cif(path, b_iso=0.4)
    assert len(result.operations[0]) == len(space_groups.operations(number)[0])
    assert result.elements == ("Si", "O")
    assert result.occupancy.tolist() == [1, 0.95]
    assert result.b_iso.tolist() == pytest.approx([8 * math.pi**2 * u for u in (0.007, 0.013)])


def test_anisotropic_displacement_alone_gives_its_mean(tmp_path: Path) -> None:
    pytest.importorskip("gemmi")
    names = ("label", *(f"U_{ij}" for ij in (11, 22, 33, 12, 13, 23)))
    loop = "loop_\n" + "".join(f"_atom_site_aniso_{name}\n" for name in names)
    row = "Si1 0.01 0.01 0.01 0.005 0 0\n"  # a sphere, in hexagonal axes
    path = tmp_path / "quartz.cif"
    path.write_text(QUARTZ.replace(" 0.0070", " ?") + loop + row)
    assert read_cif(path).b_iso[0] == pytest.approx(8 * math.pi**2 * 0.01)


def test_an_error_about_a_mineral_names_file_line_and_label(tmp_path: Path) -> None:
    record = {"id": 1, "mineral": "Halite", "formula": "Na Cl", "spacegroup": "P 1", "operations": ["x,y,z"]}
    record |= {"cell": [5.64, 5.64, 5.64, 90, 90, 90], "sites": [["Na", 0, 0, 0, 1], ["Q1", 0.5, 0.5, 0.5, 1]]}
    path = tmp_path / "minerals.jsonl.gz"
    for change, message in (
        ({}, "unknown element in the label 'Q1'"),
        ({"sites": []}, "not a mineral"),
        ({"cell": None}, "not a mineral"),
        ({"operations": ["x,y"]}, "'x,y' is not a symmetry operation"),
    ):
        path.write_bytes(gzip.compress(json.dumps(record | change).encode()))
        with pytest.raises(InputError, match=rf"{path}, line 1: {message}"):
            list(minerals(tmp_path))
    path.write_bytes(b"not gzip")
    with pytest.raises(InputError, match="cannot be read"):
        list(minerals(tmp_path))
    with pytest.raises(InputError, match="no such file"):
        list(minerals(tmp_path / "elsewhere"))


def test_too_many_reflections_are_refused() -> None:
    silicon = crystal("silicon")
    large = Structure("large", (199.0, 199.0, 199.0, *CUBIC), silicon.operations, *_atoms(silicon))
    with pytest.raises(InputError, match="large: too many reflections"):
        structure_lines(large, 2.0)
