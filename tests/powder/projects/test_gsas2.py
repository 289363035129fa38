"""GSAS-II: what rietx and gemmi read from the files, and the script."""

import ast
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.handover import read_gsas2, refine_elsewhere
from tests.powder import mixtures
from tests.powder.projects.conftest import Refined, without_range
from vitreous.core.errors import InputError
from vitreous.powder.indexing import IndexOptions, index_pattern
from vitreous.powder.known import Known
from vitreous.powder.projects import check_projects, project_files, refinement_start, write_project
from vitreous.powder.radiation import NEUTRONS
from vitreous.powder.refinement.shifts import shift_functions


def write(refined: Refined, folder: Path) -> Path:
    return write_project(refined.solution, folder / "sample.instprm", refined.pattern)[0]


def test_rietx_reads_the_values_of_the_fit(triclinic: Refined, tmp_path: Path) -> None:
    start, model = refinement_start(*triclinic), read_gsas2(write(triclinic, tmp_path))
    profile, (first, second) = model.instrument.profile, model.instrument.source.lines
    found = [getattr(profile, name).value for name in ("u", "v", "w", "x", "y")]
    np.testing.assert_allclose(found, start.shape[:5], rtol=1e-9, atol=1e-12)
    assert (first.wavelength.value, second.wavelength.value) == (start.wavelength, start.wavelength2)
    assert second.weight.value == start.ratio
    assert model.instrument.zero_shift.value == start.mean_shift
    assert model.instrument.geometry.kind == "bragg_brentano"
    assert model.structure.phases[0].cell.lengths_angles() == pytest.approx(start.cell)


def test_the_phase_is_a_cif_with_cell_and_space_group(thiosulfate: Refined, tmp_path: Path) -> None:
    gemmi = pytest.importorskip("gemmi")
    write(thiosulfate, tmp_path)
    structure = gemmi.read_small_structure(str(tmp_path / "sample_phase.cif"))
    assert structure.spacegroup.xhm() == "P 1 21/c 1"
    assert structure.cell.parameters == pytest.approx(refinement_start(thiosulfate.solution).cell)


@pytest.mark.parametrize("example", ["thiosulfate", "triclinic"])
def test_the_script_names_the_files_and_holds_the_shifts(
    example: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    refined: Refined = request.getfixturevalue(example)
    write(refined, tmp_path)
    text, start = (tmp_path / "sample_gsas2.py").read_text(), refinement_start(*refined)
    words = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
    assert {"sample.xye", "sample.instprm", "sample_phase.cif", "LeBail", "chebyschev-1"} <= words
    for name in ("sample.xye", "sample.instprm", "sample_phase.cif"):
        assert (tmp_path / name).exists()
    values = {name: float(value) for name, value in re.findall(r'sample\["(\w+)"\]\[0\] = (\S+)', text)}
    (zero,) = re.findall(r'"Zero"\]\[1\] = (\S+)', text)
    (radius,) = re.findall(r'"Gonio. radius"\] = "[\w-]+", (\S+)', text)
    angle, factor = np.radians(start.positions), 0.09 / (math.pi * float(radius))
    if example == "triclinic":  # the equations of GSAS-II's GetReflPos
        shift = 4 * values["Shift"] * np.cos(angle / 2) + 100 * values["Transparency"] * np.sin(angle)
    else:
        shift = values["DisplaceX"] * np.cos(angle) + values["DisplaceY"] * np.sin(angle)
    expected = shift_functions(angle / 2) @ np.array(start.shifts)
    np.testing.assert_allclose(float(zero) - factor * shift, expected, atol=2e-4)


def test_a_range_within_the_fit_is_excluded(thiosulfate: Refined, tmp_path: Path) -> None:
    write(without_range(thiosulfate, 10, 11), tmp_path)
    text = (tmp_path / "sample_gsas2.py").read_text()
    (ranges,) = re.findall(r'data\["Limits"\]\[2:\] = (.*)  # excluded$', text, flags=re.MULTILINE)
    np.testing.assert_allclose(ast.literal_eval(ranges), [[10, 11]], atol=0.01)
    ast.parse(text)


def test_neutrons_have_their_own_type(thiosulfate: Refined, tmp_path: Path) -> None:
    solution = replace(thiosulfate.solution, radiation=NEUTRONS)
    assert "Type:PNC" in write(Refined(solution, thiosulfate.pattern), tmp_path).read_text()
    assert "Type:PXC" in write(thiosulfate, tmp_path).read_text()


def test_without_rietx_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rietx", None)
    with pytest.raises(InputError, match=r"pip install 'vitreous\[refine\]'"):
        check_projects([Path("a.instprm")], [])
    check_projects([Path("a.pcr"), Path("a.inp"), Path("a.m50")], [])


def test_two_phases_are_refined_together(tmp_path: Path) -> None:
    options = IndexOptions(systems=mixtures.SYSTEMS, hints=False, known=Known(cell=mixtures.MAJOR))
    result = index_pattern(mixtures.two_phases(), options)
    assert result.best is not None
    assert result.fit is not None
    path = tmp_path / "mixture.instprm"
    files = write_project(result.best, path, result.pattern, result.second)
    assert files == project_files(path)
    script = ast.parse((tmp_path / "mixture_gsas2.py").read_text())
    names = {node.value for node in ast.walk(script) if isinstance(node, ast.Constant)}
    assert {"mixture_phase.cif", "mixture_second.cif"} <= names
    model = read_gsas2(path)
    cells = [phase.cell.lengths_angles() for phase in model.structure.phases]
    assert cells == [pytest.approx(cell, rel=1e-3) for cell in (mixtures.MAJOR, mixtures.MINOR)]
    assert refine_elsewhere(model) < 1.1 * result.fit.rwp


def test_rietx_refines_from_the_files_to_our_rwp(thiosulfate: Refined, tmp_path: Path) -> None:
    assert thiosulfate.solution.fit is not None
    assert refine_elsewhere(read_gsas2(write(thiosulfate, tmp_path))) < 1.1 * thiosulfate.solution.fit.rwp
