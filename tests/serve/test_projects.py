"""`/v1/index` writes the projects of `vitreous index --project`."""

import base64
import io
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.powder import mixtures
from tests.serve.clients import make_client, post, post_error
from vitreous.cli import main
from vitreous.powder.files import write_pattern
from vitreous.powder.projects import PROJECTS
from vitreous.serve import responses
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics

PATH = "/v1/index"
PROGRAMS = [project.program for project in PROJECTS.values()]
CELL = [str(x) for x in mixtures.MAJOR]
SYSTEMS = mixtures.SYSTEMS


def contents(project: dict[str, Any]) -> dict[str, str]:
    """The files in the archive of a project."""
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(project["archive"]))) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    """A client of a service of searches only."""
    with make_client({}, Limits(), Metrics(), powder=True) as client:
        yield client


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with a pattern of two phases."""
    path = tmp_path_factory.mktemp("projects") / "mixture.xy"
    write_pattern(path, mixtures.two_phases())
    return path.read_bytes()


@pytest.fixture(scope="module")
def projects(client: TestClient, content: bytes) -> list[dict[str, Any]]:
    """The projects for an uploaded pattern of two phases."""
    form = {"projects": ",".join(PROGRAMS), "system": ",".join(SYSTEMS), "cell": ",".join(CELL)}
    files = {"file": ("../my shell.xy", content)}
    answer = post(client, PATH, data=form, files=files)
    responses.IndexResponse.model_validate(answer)
    records: list[dict[str, Any]] = answer["projects"]
    return records


def test_the_files_are_those_of_the_command(projects: list[dict[str, Any]], content: bytes, tmp_path: Path) -> None:
    (tmp_path / "mixture.xy").write_bytes(content)
    names = [str(tmp_path / f"start{suffix}") for suffix in PROJECTS]
    main(["index", str(tmp_path / "mixture.xy"), "--cell", *CELL, "--system", *SYSTEMS, "--project", *names])
    assert [project["program"] for project in projects] == PROGRAMS
    for project in projects:
        found = contents(project)
        assert list(found) == project["files"]
        assert found == {name: (tmp_path / name).read_text() for name in found}


def test_only_gsas2_has_both_phases(projects: list[dict[str, Any]]) -> None:
    assert {project["program"]: project["phases"] for project in projects} == {
        "FullProf": 1, "TOPAS": 1, "GSAS-II": 2, "Jana": 1,
    }  # fmt: skip


def test_the_advice_names_files_of_the_project(projects: list[dict[str, Any]]) -> None:
    for project in projects:
        assert any(name in project["advice"] for name in project["files"])
        assert project["program"] in project["advice"]


def test_a_client_s_file_name_is_not_used(projects: list[dict[str, Any]]) -> None:
    assert all(name.startswith("start") for project in projects for name in project["files"])
    assert not any("shell" in text for project in projects for text in contents(project).values())


def test_only_projects_that_were_asked_for_are_written(client: TestClient) -> None:
    pattern = mixtures.two_phases(share=1.0)
    request = {
        "two_theta": pattern.two_theta.tolist(), "intensity": pattern.intensity.tolist(), "cell": mixtures.MAJOR,
        "wavelength": mixtures.WAVELENGTH,
    }  # fmt: skip
    assert post(client, PATH, json=request)["projects"] == []
    (one,) = post(client, PATH, json=request | {"projects": ["TOPAS", "TOPAS"]})["projects"]
    assert (one["program"], one["phases"], one["files"]) == ("TOPAS", 1, ["start.inp", "start.xye"])


def test_there_are_none_without_a_refinement(client: TestClient) -> None:
    lines = {"peaks": True, "two_theta": [13.48, 19.12, 23.48], "system": ["cubic"], "wavelength": 1.2}
    answer = post(client, PATH, json=lines | {"projects": PROGRAMS})
    assert (answer["fit"], answer["projects"]) == (None, [])


@pytest.mark.parametrize(
    ("projects", "message"),
    [
        (["SHELX"], "projects.0: input should be 'FullProf', 'TOPAS', 'GSAS-II' or 'Jana'"),
        (["TOPAS"] * 9, "projects: list should have at most 8 items after validation, not 9"),
        ("TOPAS", "projects: input should be a valid list"),
    ],
)
def test_an_unknown_program_is_one_line(client: TestClient, projects: object, message: str) -> None:
    assert post_error(client, PATH, json={"example": "triclinic", "projects": projects}) == message


def test_a_service_without_rietx_offers_no_project_for_gsas2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rietx", None)
    with make_client({}, Limits(), Metrics(), powder=True) as client:
        offered = client.get("/v1/models").json()["powder"]["projects"]
        assert offered == ["FullProf", "TOPAS", "Jana"]
        error = post_error(client, PATH, json={"example": "triclinic", "projects": ["GSAS-II"]})
        assert "pip install 'vitreous[refine]'" in error
