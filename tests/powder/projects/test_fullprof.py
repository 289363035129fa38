"""FullProf: line structure and values of the control file, as its manual and rietx's reader have them."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.handover import read_fullprof, refine_elsewhere
from tests.powder.projects.conftest import Refined
from vitreous.powder.projects import refinement_start, write_project


@pytest.fixture
def lines(thiosulfate: Refined, tmp_path: Path) -> list[str]:
    path, _ = write_project(thiosulfate.solution, tmp_path / "sample.pcr", thiosulfate.pattern)
    return path.read_text().splitlines()


def after(lines: list[str], heading: str) -> list[str]:
    """The words of the line after a comment."""
    return lines[next(k for k, line in enumerate(lines) if line.startswith(heading)) + 1].split()


def test_the_flags_are_those_of_a_le_bail_fit(lines: list[str]) -> None:
    assert lines[0].startswith("COMM ")
    job, profile, phases, _, excluded = map(int, after(lines, "!Job")[:5])
    assert (job, profile, phases, excluded) == (0, 7, 1, 1)
    flags = list(map(float, after(lines, "!Nat")))
    atoms, kind, reflections = flags[0], flags[6], flags[7]
    assert (atoms, kind, reflections) == (0, 2, 0)  # no atoms, profile matching, reflections generated


def test_every_line_has_as_many_values_as_its_comment_has_names(lines: list[str]) -> None:
    for heading in ("!Job", "!Ipr", "! lambda1", "!NCY", "!Nat", "!  Scale", "!       U", "!     a ", "!  Pref1"):
        comment = next(line for line in lines if line.startswith(heading))
        names = re.split(r"->|#", comment)[0].lstrip("!").split()
        assert len(after(lines, heading)) == len(names), heading


def test_parameters_are_numbered_without_gaps(lines: list[str]) -> None:
    count = int(next(line for line in lines if "Number of refined" in line).split()[0])
    words = [word for line in lines if not line.startswith(("!", "COMM")) for word in line.split()]
    codes = {float(word) for word in words if re.fullmatch(r"\d+1\.00", word)}
    assert codes == {10.0 * n + 1 for n in range(1, count + 1)}


@pytest.mark.parametrize(
    ("system", "cell", "equal"),
    [
        ("cubic", (5, 5, 5, 90, 90, 90), "aaa..."),
        ("tetragonal", (5, 5, 7, 90, 90, 90), "aab..."),
        ("hexagonal", (5, 5, 7, 90, 90, 120), "aab..a"),
        ("orthorhombic", (5, 6, 7, 90, 90, 90), "abc..."),
        ("triclinic", (5, 6, 7, 80, 85, 95), "abcdef"),
    ],
)
def test_parameters_that_the_system_makes_equal_have_one_code(
    system: str, cell: tuple[float, ...], equal: str, triclinic: Refined, tmp_path: Path
) -> None:
    solution = triclinic.solution
    assert solution.fit is not None
    other = replace(solution, system=system, symbols=(), fit=replace(solution.fit, cell=tuple(map(float, cell))))
    text = write_project(other, tmp_path / "a.pcr")[0].read_text().splitlines()
    place = next(k for k, line in enumerate(text) if line.startswith("!     a "))
    codes = text[place + 2].split()
    names = {code: chr(ord("a") + k) for k, code in enumerate(dict.fromkeys(code for code in codes if code != "0.0"))}
    assert "".join(names.get(code, ".") for code in codes) == equal


def test_rietx_reads_the_values_of_the_fit(triclinic: Refined, tmp_path: Path) -> None:
    start = refinement_start(*triclinic)
    path, _ = write_project(triclinic.solution, tmp_path / "sample.pcr", triclinic.pattern)
    model = read_fullprof(path)
    cell = model.structure.phases[0].cell
    np.testing.assert_allclose([getattr(cell, name).value for name in ("a", "b", "c")], start.cell[:3], rtol=1e-6)
    profile, first, second = model.instrument.profile, *model.instrument.source.lines
    found = [getattr(profile, name).value for name in ("u", "v", "w", "x", "y")]
    np.testing.assert_allclose(found, start.shape[:5], rtol=1e-5, atol=1e-9)
    assert (first.wavelength.value, second.wavelength.value) == pytest.approx((start.wavelength, start.wavelength2))
    assert second.weight.value == pytest.approx(start.ratio, rel=1e-5)
    np.testing.assert_allclose(model.data.sigma, start.sigma, rtol=1e-5)


def test_rietx_refines_from_the_file_to_our_rwp(thiosulfate: Refined, tmp_path: Path) -> None:
    path, _ = write_project(thiosulfate.solution, tmp_path / "sample.pcr", thiosulfate.pattern)
    assert thiosulfate.solution.fit is not None
    assert refine_elsewhere(read_fullprof(path)) < 1.1 * thiosulfate.solution.fit.rwp
