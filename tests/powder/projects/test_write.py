"""Projects are files of a known kind, written completely or not at all."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.powder.projects.conftest import Refined
from vitreous.core.errors import InputError
from vitreous.powder.files import read_pattern
from vitreous.powder.projects import (
    PROJECTS,
    available_projects,
    check_projects,
    project_contents,
    project_files,
    write_project,
)


@pytest.mark.parametrize("suffix", PROJECTS)
def test_the_files_are_those_that_are_announced(suffix: str, thiosulfate: Refined, tmp_path: Path) -> None:
    path = tmp_path / f"sample{suffix}"
    files = write_project(thiosulfate.solution, path, thiosulfate.pattern)
    assert files == [file for file in project_files(path) if file in files]
    assert files[0] == path
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert all(file.stat().st_size > 100 for file in files)


@pytest.mark.parametrize("suffix", PROJECTS)
def test_files_are_plain_text_that_names_no_folder(suffix: str, thiosulfate: Refined, tmp_path: Path) -> None:
    for file in write_project(thiosulfate.solution, tmp_path / f"sample{suffix}"):
        text = file.read_bytes().decode("ascii")
        assert str(tmp_path) not in text
        assert "nan" not in text.split()


def test_only_the_project_of_gsas2_has_a_second_phase(thiosulfate: Refined, triclinic: Refined) -> None:
    for suffix, project in PROJECTS.items():
        one, two = (
            project_contents(thiosulfate.solution, f"a{suffix}", thiosulfate.pattern, second)
            for second in (None, triclinic.solution)
        )
        added = two.keys() - one.keys()
        assert added == ({"a_second.cif"} if project.program == "GSAS-II" else set())
        assert (two == one) is (project.phases == 1)


def test_a_program_that_needs_a_missing_package_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(available_projects()) == [project.program for project in PROJECTS.values()]
    monkeypatch.setitem(sys.modules, "rietx", None)
    assert "GSAS-II" not in available_projects()
    assert "FullProf" in available_projects()


def test_the_data_are_read_as_the_pattern(triclinic: Refined, tmp_path: Path) -> None:
    *_, data = write_project(triclinic.solution, tmp_path / "sample.inp", triclinic.pattern)
    again = read_pattern(data)
    np.testing.assert_allclose(again.two_theta, triclinic.pattern.two_theta, atol=1e-5)
    np.testing.assert_allclose(again.intensity, triclinic.pattern.intensity, rtol=1e-5)
    assert again.sigma is not None
    assert (again.sigma > 0).all()


@pytest.mark.parametrize("name", ["sample.gpx", "sample", "sample.txt", ".pcr"])
def test_another_suffix_is_one_line_with_the_choices(name: str) -> None:
    with pytest.raises(InputError) as error:
        check_projects([Path(name)], [])
    message = str(error.value)
    assert message.startswith(f"project: found {name}, expected")
    assert all(word in message for word in (".pcr (FullProf)", ".inp (TOPAS)", ".instprm (GSAS-II)", ".m50 (Jana)"))
    assert "\n" not in message


@pytest.mark.parametrize("name", ['a"b.inp', "a b.pcr", "a\nb.pcr", "-a.inp", "α.inp", "{a}.instprm"])
def test_names_that_programs_cannot_read_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="expected a name of letters, digits"):
        project_files(Path(name))


@pytest.mark.parametrize(("project", "measured"), [("a.pcr", "a.dat"), ("a.inp", "a.xye"), ("a.m50", "./a.xye")])
def test_the_measured_pattern_is_never_replaced(project: str, measured: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is the measured pattern; expected another name"):
        check_projects([tmp_path / project], [tmp_path / measured])
    check_projects([tmp_path / project], [tmp_path / "b.xye"])


def test_a_missing_folder_is_one_line(thiosulfate: Refined, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_project(thiosulfate.solution, tmp_path / "none" / "a.inp")
