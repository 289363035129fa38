"""`/v1/identify`: the phases of `identify_pattern`, within the limits of the service."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from tests.mutations import mutate_uploads, send_upload
from tests.powder.identify.samples import KNOWN, sample
from tests.serve.clients import make_client, make_sum_client, post, post_error
from vitreous.powder.files import write_pattern
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.identification import IdentifyOptions, identify_pattern
from vitreous.powder.pattern import Pattern, pattern_from_arrays
from vitreous.serve.identify_response import IdentifyResponse
from vitreous.serve.identify_worker import IdentifyJob, PatternSettings, identify
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.patterns import read_options, thin_curves
from vitreous.serve.requests import IdentifyNumbers

PATH = "/v1/identify"
MASSES = {"quartz": 0.5, "halite": 0.3, "fluorite": 0.2}


def numbers(pattern: Pattern) -> dict[str, Any]:
    """A pattern as the numbers of a request."""
    return {"two_theta": pattern.two_theta.tolist(), "intensity": pattern.intensity.tolist(), "anode": "Cu"}


def ask(client: TestClient, **request: Any) -> dict[str, Any]:
    answer = post(client, PATH, **request)
    IdentifyResponse.model_validate(answer)
    return answer


def is_close(found: Any, expected: Any) -> bool:
    """Whether an answer has all that is expected, with numbers that differ little."""
    if isinstance(expected, dict):
        return all(is_close(found[name], value) for name, value in expected.items())
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(is_close, found, expected))
    return bool(found == (pytest.approx(expected, rel=1e-3, abs=1e-5) if isinstance(expected, float) else expected))


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Pattern:
    """A mixture of three phases of the database."""
    return sample(tmp_path_factory.mktemp("mixture"), MASSES)


@pytest.fixture(scope="module")
def answer(client: TestClient, mixture: Pattern) -> dict[str, Any]:
    return ask(client, json=numbers(mixture))


def test_phases_have_their_fractions_and_cells(answer: dict[str, Any]) -> None:
    assert (answer["verdict"], answer["database"]) == ("likely", "my.db")
    assert [phase["name"] for phase in answer["phases"]] == list(MASSES)
    for phase, mass in zip(answer["phases"], MASSES.values(), strict=True):
        assert phase["mass_fraction"] == pytest.approx(mass, abs=0.02)
        assert phase["mass_text"].endswith(" %")
        assert phase["text"].startswith("a = ")
    quartz = answer["phases"][0]
    assert quartz["cell"] == pytest.approx([4.914, 4.914, 5.405, 90, 90, 120], rel=1e-3)
    assert (quartz["formula"], quartz["system"]) == ("SiO2", "trigonal")


def test_the_answer_is_that_of_the_package(answer: dict[str, Any], mixture: Pattern, database: Path) -> None:
    pattern = pattern_from_arrays(mixture.two_theta, mixture.intensity, None, None, "Cu")
    expected = identify_pattern(pattern, Database.open(database)).to_dict()
    del expected["pattern"]
    assert is_close(answer, expected)


def test_curves_lie_on_one_axis_and_add_up_to_the_pattern(answer: dict[str, Any]) -> None:
    curves = answer["curves"]
    observed, background, parts = (np.array(curves[name]) for name in ("observed", "background", "parts"))
    assert len(curves["two_theta"]) == len(observed) == len(background)
    assert parts.shape == (3, len(observed))
    assert answer["measured"]["points"] >= len(observed)
    calculated = background + parts.sum(0)
    assert np.corrcoef(calculated, observed)[0, 1] > 0.99


def test_reflections_lie_at_the_lines_of_their_phase(answer: dict[str, Any]) -> None:
    x = np.array(answer["curves"]["two_theta"])
    for phase, part in zip(answer["phases"], np.array(answer["curves"]["parts"]), strict=True):
        ticks = np.array([tick["two_theta"] for tick in phase["ticks"]])
        assert (np.diff(ticks) >= 0).all()
        assert x[0] <= ticks[0] <= ticks[-1] <= x[-1]
        assert np.abs(ticks - x[part.argmax()]).min() < 0.06
    halite = {tuple(np.abs(tick["hkl"])) for tick in answer["phases"][1]["ticks"]}
    assert (2, 0, 0) in {tuple(sorted(hkl, reverse=True)) for hkl in halite}


def test_the_csv_has_a_row_for_each_phase(answer: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(answer["csv"])))
    assert [row["phase"] for row in rows] == list(MASSES)
    assert sum(float(row["mass (%)"]) for row in rows) == pytest.approx(100, abs=0.01)
    assert float(rows[1]["a (Å)"]) == pytest.approx(5.6402, rel=1e-3)


def test_an_upload_gives_the_same_phases(client: TestClient, mixture: Pattern, tmp_path: Path) -> None:
    write_pattern(tmp_path / "x.xy", mixture)
    content = (tmp_path / "x.xy").read_bytes()
    form = {"anode": "Cu", "elements": "Si,Na,Cl", "exclude_elements": ["Na"], "max_phases": "2"}
    found = ask(client, data=form, files={"file": ("../secret.xy", content)})
    assert [phase["name"] for phase in found["phases"]] == ["quartz"]
    assert "secret" not in str(found)


def test_lines_of_no_phase_make_the_answer_unsure(client: TestClient, tmp_path: Path) -> None:
    assert "rutile" not in KNOWN
    found = ask(client, json=numbers(sample(tmp_path, {"halite": 0.6, "rutile": 0.4})))
    assert found["verdict"] == "unsure"
    assert found["phases"][0]["name"] == "halite"
    assert found["unknown_phase_probability"] > 0.9
    lines = [line["two_theta"] for line in found["unexplained_lines"]]
    assert np.abs(np.array(lines) - 27.4).min() < 0.1  # (1 1 0) of rutile
    assert found["hints"]


def test_at_most_as_many_phases_as_asked_for_are_found(client: TestClient, mixture: Pattern) -> None:
    assert len(ask(client, json=numbers(mixture) | {"max_phases": 1})["phases"]) == 1


def test_the_largest_number_of_phases_is_that_of_the_package() -> None:
    most = IdentifyNumbers.model_json_schema()["properties"]["max_phases"]["maximum"]
    assert IdentifyOptions(most=most).most == most


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"elements": ["Xx"]}, "elements: found 'Xx', expected symbols of elements, such as Fe"),
        ({"elements": ["U"]}, "elements: found U, which no entry of my.db contains"),
        ({"elements": ["Si"], "exclude_elements": ["O"]}, "elements: found no entry of the database with these"),
        ({"elements": ["Fe"] * 33}, "elements: list should have at most 32 items"),
        ({"exclude_elements": ["Fe"] * 33}, "exclude_elements: list should have at most 32 items"),
        ({"elements": ["F" * 300]}, "elements.0: string should have at most 200 characters"),
        ({"elements": "Fe"}, "elements: input should be a valid list"),
        ({"max_phases": 0}, "max_phases: input should be greater than or equal to 1"),
        ({"max_phases": 13}, "max_phases: input should be less than or equal to 12"),
        ({"anode": "Xx"}, "anode: unknown choice 'Xx'"),
        ({"anode": "Cu", "wavelength": 1.5}, "found both wavelength"),
        ({"anode": None}, "wavelength"),
        ({"two_theta": None}, "example, two_theta: expected one of them"),
        ({"example": "triclinic"}, "example, two_theta: expected one of them"),
        ({"example": "triclinic", "two_theta": None}, "the example states its radiation; omit anode and wavelength"),
        ({"intensity": [1.0]}, "found 1 numbers of intensity for "),
        ({"intensity": None}, "intensity: expected as many numbers"),
        ({"peaks": True}, "peaks: extra inputs are not permitted"),
    ],
)
def test_invalid_requests_are_errors(
    fields: dict[str, Any], message: str, client: TestClient, mixture: Pattern, database: Path
) -> None:
    error = post_error(client, PATH, json=numbers(mixture) | fields)
    assert message in error
    assert "--" not in error
    assert str(database.parent) not in error


def test_a_pattern_without_lines_is_an_error(client: TestClient) -> None:
    x = np.arange(10, 60, 0.05)
    background = {"two_theta": x.tolist(), "intensity": (100 + x).tolist(), "anode": "Cu"}
    assert "found no lines, expected a pattern of a crystalline sample" in post_error(client, PATH, json=background)


def test_an_unknown_example_is_not_found(client: TestClient) -> None:
    assert "expected one of: triclinic" in post_error(client, PATH, 404, json={"example": "none"})


def test_mutated_uploads_are_answered_or_refused_in_one_line(
    client: TestClient, mixture: Pattern, tmp_path: Path
) -> None:
    write_pattern(tmp_path / "x.xy", mixture.part(mixture.two_theta < 40))
    seed = (PATH, {"anode": "Cu", "max_phases": "1"}, "a.xy", (tmp_path / "x.xy").read_bytes())
    statuses = set()
    for how, upload in mutate_uploads([seed], 40):
        reply = send_upload(client, upload)
        statuses.add(reply.status_code)
        assert reply.status_code in (200, 404, 413, 415, 422), (how, reply.text)
        if reply.status_code != 200:
            assert len(reply.json()["error"].splitlines()) == 1
    assert {200, 422} <= statuses


def test_points_and_time_are_limited(mixture: Pattern, database: Path) -> None:
    few = Limits(points=100, search_seconds=30)
    with make_client({}, few, Metrics(), powder=True, database=database) as client:
        assert "points, expected at most 100" in post_error(client, PATH, json=numbers(mixture))
    short = Limits(search_seconds=0.1)
    with make_client({}, short, Metrics(), powder=True, database=database) as client:
        assert "no answer within the time limit" in post_error(client, PATH, 503, json=numbers(mixture))


def test_long_curves_keep_their_peaks_in_few_points() -> None:
    class Curves:
        two_theta = np.linspace(5, 150, 90_000)
        observed = np.exp(-(((two_theta - 60) / 0.01) ** 2))
        parts = np.stack([observed, 2 * observed])

    thin = thin_curves(Curves(), "observed", "parts")
    assert len(thin["two_theta"]) <= 20_000
    assert max(thin["observed"]) == pytest.approx(Curves.observed.max(), rel=1e-5)
    assert [len(part) for part in thin["parts"]] == [len(thin["two_theta"])] * 2
    assert max(thin["parts"][1]) == pytest.approx(2 * max(thin["observed"]), rel=1e-4)


def test_a_database_that_has_been_damaged_is_not_the_fault_of_a_client(mixture: Pattern, tmp_path: Path) -> None:
    (tmp_path / "my.db").write_bytes(b"nothing")
    settings = PatternSettings(None, None, read_options(IdentifyNumbers()))
    job = IdentifyJob(settings, Limits(), pattern=mixture, database=tmp_path / "my.db", wanted=IdentifyOptions())
    with pytest.raises(RuntimeError, match=r"^the database cannot be opened$"):
        identify(job)


def test_models_name_the_database_and_its_size(client: TestClient) -> None:
    assert client.get("/v1/models").json()["database"] == {"name": "my.db", "phases": len(KNOWN)}


def test_identify_is_not_served_without_a_database() -> None:
    client, _ = make_sum_client()
    with client:
        assert "--database FILE" in post_error(client, PATH, 404, json={"example": "triclinic"})
        assert client.get("/v1/models").json()["database"] is None
