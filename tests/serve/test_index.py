"""Unit cells over HTTP are those of `vitreous index`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from tests.serve.models import sums_client
from vitreous.powder.example import example
from vitreous.powder.files import ANODES, write_pattern
from vitreous.powder.indexing import Wanted, index_file
from vitreous.serve import answers

TRICLINIC = (5.5818, 7.1262, 8.9047, 97.513, 102.227, 108.961)
NAMES = ("a", "b", "c", "alpha", "beta", "gamma")


def asked(client: TestClient, **request: Any) -> dict[str, Any]:
    reply = client.post("/v1/index", **request)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    answers.Indexed.model_validate(found)
    return found


def refused(client: TestClient, status: int = 422, **request: Any) -> str:
    reply = client.post("/v1/index", **request)
    assert reply.status_code == status, reply.text
    return str(reply.json()["error"])


@pytest.fixture(scope="module")
def triclinic(client: TestClient) -> dict[str, Any]:
    return asked(client, json={"example": "triclinic"})


def test_the_cell_of_an_example_is_found_and_refined(triclinic: dict[str, Any]) -> None:
    assert triclinic["verdict"] == "likely"
    fit = triclinic["fit"]
    for name, wanted in zip(NAMES, TRICLINIC, strict=True):
        assert abs(fit[name] - wanted) < 4 * fit["errors"][name] + 1e-3
        assert triclinic["cells"][0][name] == pytest.approx(wanted, rel=2e-3)
    assert fit["text"].startswith("a = 5.58")


def test_curves_ticks_and_lines_lie_on_one_axis(triclinic: dict[str, Any]) -> None:
    pattern, fit = triclinic["pattern"], triclinic["fit"]
    assert len(pattern["two_theta"]) == len(pattern["intensity"]) == pattern["points"]
    assert len({len(fit[name]) for name in ("two_theta", "observed", "calculated", "background")}) == 1
    seen = np.array([peak["two_theta"] for peak in triclinic["peaks"][:20]])
    ticks = np.array([tick["two_theta"] for tick in triclinic["cells"][0]["ticks"]])
    assert np.abs(seen[:, None] - ticks).min(1).max() < 0.03
    assert ticks.min() >= pattern["two_theta"][0] - 0.1
    assert all(len(tick["hkl"]) == 3 for tick in fit["ticks"])


def test_what_is_downloaded_can_be_read_again(triclinic: dict[str, Any]) -> None:
    gemmi = pytest.importorskip("gemmi")
    block = gemmi.cif.read_string(triclinic["cif"]).sole_block()
    assert gemmi.cif.as_number(block.find_value("_cell_length_a")) == pytest.approx(triclinic["fit"]["a"], abs=1e-4)
    assert gemmi.cif.as_number(block.find_value("_cell_volume")) == pytest.approx(319.6, abs=0.2)
    header, *rows = triclinic["csv"].splitlines()
    assert header.startswith("system,centring,a (Å)")
    assert len(rows) == len(triclinic["cells"])


def test_an_upload_gives_what_the_command_gives(client: TestClient, tmp_path: Path) -> None:
    path = tmp_path / "measured.xye"
    write_pattern(tmp_path / "measured.xy", example("thiosulfate"))
    content = (tmp_path / "measured.xy").read_bytes()
    path.write_bytes(content)
    found = asked(
        client, data={"most": "3", "system": "monoclinic,orthorhombic"}, files={"file": ("m.xy", content)}
    )  # fmt: skip
    wanted = index_file(tmp_path / "measured.xy", Wanted(systems=("monoclinic", "orthorhombic"), most=3))
    assert [cell["m20"] for cell in found["cells"]] == pytest.approx([s.m20 for s in wanted.solutions], rel=1e-4)
    assert len(found["cells"]) == 3


def test_a_list_of_lines_needs_a_wavelength_and_gives_a_cell(client: TestClient, triclinic: dict[str, Any]) -> None:
    lines = {name: [peak[name] for peak in triclinic["peaks"][:25]] for name in ("two_theta", "intensity")}
    assert "wavelength" in refused(client, json={"peaks": True, **lines})
    found = asked(client, json={"peaks": True, "anode": "Cu", **lines})
    assert found["pattern"] is None
    assert found["fit"] is None
    assert found["cells"][0]["a"] == pytest.approx(5.5818, rel=3e-3)
    text = "\n".join(f"{x} {y}" for x, y in zip(*lines.values(), strict=True)).encode()
    again = asked(client, data={"peaks": "true", "anode": "Cu"}, files={"file": ("lines.txt", text)})
    assert again["cells"][0]["m20"] == pytest.approx(found["cells"][0]["m20"])


def test_numbers_of_an_amorphous_sample_have_no_cell(client: TestClient) -> None:
    x = np.arange(5, 60, 0.05)
    y = 1000 * np.exp(-(((x - 22) / 6) ** 2)) + 50
    found = asked(client, json={"two_theta": x.tolist(), "intensity": y.tolist(), "wavelength": 1.5406})
    assert found["verdict"] in ("none", "unsure")
    assert found["hints"]
    assert found["cif"] == "" or found["cells"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "expected one of example and two_theta"),
        ({"example": "triclinic", "two_theta": [1]}, "expected one of example and two_theta"),
        ({"two_theta": [1.0]}, "intensity: expected"),
        ({"two_theta": [1.0, 2.0], "intensity": [1.0]}, "found 1 numbers of intensity for 2"),
        ({"two_theta": [float(i) for i in range(1, 90)], "intensity": [float(i % 7) for i in range(1, 90)]}, "wavelen"),
        ({"example": "triclinic", "system": ["round"]}, "system: unknown choice 'round'"),
        ({"example": "triclinic", "anode": "Xx"}, "anode: unknown choice 'Xx'"),
        ({"example": "triclinic", "anode": "Cu", "wavelength": 1.5}, "found both wavelength"),
        ({"example": "triclinic", "wavelength": 1e9}, "expected 0.1 to 10"),
        ({"example": "triclinic", "most": 0}, "most: input should be greater"),
        ({"peaks": True, "two_theta": [10.0] * 500, "anode": "Cu"}, "expected 200 at most"),
    ],
)
def test_wrong_questions_are_told(body: dict[str, Any], reason: str, client: TestClient) -> None:
    told = refused(client, json=body)
    assert reason in told
    assert "--" not in told


def test_examples_and_files_that_are_not_there(client: TestClient) -> None:
    assert "expected one of: triclinic" in refused(client, 404, json={"example": "none"})
    two = [("file", ("a.xy", b"1 2")), ("file", ("b.xy", b"1 2"))]
    assert refused(client, data={}, files=two) == "file: found 2, expected one"


def test_without_powder_there_is_no_index() -> None:
    client, _ = sums_client()
    with client:
        assert "--powder" in refused(client, 404, json={"example": "triclinic"})
        told = client.get("/v1/models").json()
        assert (told["powder"], told["anodes"]) == (None, list(ANODES))
        assert client.get("/v1/examples").json()["patterns"] == []
