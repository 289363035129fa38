"""Jana: cell and symmetry in its notation, and the profile in its units."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.powder.projects.conftest import Refined
from vitreous.powder.extinction_symbols import extinction_symbols
from vitreous.powder.projects import refinement_start, write_project
from vitreous.powder.symmetry import RankedSymbol

CENTRES = {
    "P": ("x,y,z",),
    "C": ("x,y,z", "x+1/2,y+1/2,z"),
    "F": ("x,y,z", "x,y+1/2,z+1/2", "x+1/2,y,z+1/2", "x+1/2,y+1/2,z"),
    "R": ("x,y,z", "x+2/3,y+1/3,z+1/3", "x+1/3,y+2/3,z+2/3"),
}


def records(path: Path) -> dict[str, list[str]]:
    """The values of every keyword of an `.m50`."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        keyword, _, values = line.partition(" ")
        found.setdefault(keyword, []).append(values)
    return found


def test_the_cell_is_that_of_the_fit(thiosulfate: Refined, tmp_path: Path) -> None:
    path = write_project(thiosulfate.solution, tmp_path / "sample.m50")[0]
    (cell,), (group,) = records(path)["cell"], records(path)["spgroup"]
    assert list(map(float, cell.split())) == pytest.approx(refinement_start(thiosulfate.solution).cell)
    assert group.split()[:2] == ["P21/c", "14"]


@pytest.mark.parametrize(
    ("system", "centring", "name"),
    [
        ("monoclinic", "P", "P 1 21/c 1"), ("monoclinic", "C", "C 1 2/c 1"), ("orthorhombic", "P", "P n m a"),
        ("hexagonal", "R", "R -3 c"), ("cubic", "F", "F d -3 m"),
    ],
)  # fmt: skip
def test_the_operations_and_the_centring_make_the_space_group(
    system: str, centring: str, name: str, triclinic: Refined, tmp_path: Path
) -> None:
    gemmi = pytest.importorskip("gemmi")
    lattice = "trigonal" if centring == "R" else system
    group = next(g for symbol in extinction_symbols(lattice, centring) for g in symbol.groups if g.name == name)
    solution = replace(
        triclinic.solution, system=system, centring=centring, symbols=(RankedSymbol("", (group,), 1.0, 0),)
    )
    found = records(write_project(solution, tmp_path / "a.m50")[0])
    assert found["lattice"] == [centring]
    operations = [text.replace("x1", "x").replace("x2", "y").replace("x3", "z").split() for text in found["symmetry"]]
    expected = gemmi.find_spacegroup_by_name(name).operations()
    made = {
        gemmi.Op(",".join(parts)).combine(centre).wrap().triplet()
        for parts in operations
        for centre in map(gemmi.Op, CENTRES[centring])
    }
    assert made == {operation.wrap().triplet() for operation in expected}


def test_the_profile_is_in_centidegrees(triclinic: Refined, tmp_path: Path) -> None:
    files = write_project(triclinic.solution, tmp_path / "sample.m50", triclinic.pattern)
    heading, *lines = files[-1].read_text().splitlines()
    values = {name: float(value) for name, value in (line.split(": ") for line in lines)}
    start = refinement_start(*triclinic)
    assert "GSAS" in heading
    assert values["LX"] == pytest.approx(100 * start.shape.size, rel=1e-5)
    assert values["GW"] == pytest.approx(1e4 * start.shape.w / 5.545177, rel=1e-5)
    assert values["wavelength 2 (angstrom)"] == pytest.approx(start.wavelength2)


def test_the_cif_for_the_import_holds_the_space_group(thiosulfate: Refined, tmp_path: Path) -> None:
    gemmi = pytest.importorskip("gemmi")
    write_project(thiosulfate.solution, tmp_path / "sample.m50")
    structure = gemmi.read_small_structure(str(tmp_path / "sample_jana.cif"))
    assert structure.spacegroup.number == 14
