"""`/v1/index`: the unit cells of `vitreous index`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from tests.serve.clients import make_sum_client, post, post_error
from vitreous.powder.example import example
from vitreous.powder.files import write_pattern
from vitreous.powder.indexing import IndexOptions, index_file
from vitreous.powder.radiation import ANODES
from vitreous.serve import responses

TRICLINIC = (5.5818, 7.1262, 8.9047, 97.513, 102.227, 108.961)
PATH = "/v1/index"
NAMES = ("a", "b", "c", "alpha", "beta", "gamma")


def index(client: TestClient, **request: Any) -> dict[str, Any]:
    answer = post(client, PATH, **request)
    responses.IndexResponse.model_validate(answer)
    return answer


@pytest.fixture(scope="module")
def triclinic(client: TestClient) -> dict[str, Any]:
    return index(client, json={"example": "triclinic"})


def test_the_cell_of_an_example_is_found_and_refined(triclinic: dict[str, Any]) -> None:
    assert triclinic["verdict"] == "likely"
    fit = triclinic["fit"]
    for name, expected in zip(NAMES, TRICLINIC, strict=True):
        assert abs(fit[name] - expected) < 4 * fit["errors"][name] + 1e-3
        assert triclinic["cells"][0][name] == pytest.approx(expected, rel=2e-3)
    assert fit["text"].startswith("a = 5.58")


def test_curves_ticks_and_peaks_lie_on_one_axis(triclinic: dict[str, Any]) -> None:
    pattern, fit = triclinic["pattern"], triclinic["fit"]
    assert len(pattern["two_theta"]) == len(pattern["intensity"]) == pattern["points"]
    assert len({len(fit[name]) for name in ("two_theta", "observed", "calculated", "background")}) == 1
    peaks = np.array([peak["two_theta"] for peak in triclinic["peaks"][:20]])
    ticks = np.array([tick["two_theta"] for tick in triclinic["cells"][0]["ticks"]])
    assert np.abs(peaks[:, None] - ticks).min(1).max() < 0.03
    assert ticks.min() >= pattern["two_theta"][0] - 0.1
    assert all(len(tick["hkl"]) == 3 for tick in fit["ticks"])


def test_cif_and_csv_can_be_read(triclinic: dict[str, Any]) -> None:
    gemmi = pytest.importorskip("gemmi")
    block = gemmi.cif.read_string(triclinic["cif"]).sole_block()
    assert gemmi.cif.as_number(block.find_value("_cell_length_a")) == pytest.approx(triclinic["fit"]["a"], abs=1e-4)
    assert gemmi.cif.as_number(block.find_value("_cell_volume")) == pytest.approx(319.6, abs=0.2)
    header, *rows = triclinic["csv"].splitlines()
    assert header.startswith("system,centring,a (Å)")
    assert len(rows) == len(triclinic["cells"])


def test_an_upload_gives_the_cells_of_the_command(client: TestClient, tmp_path: Path) -> None:
    path = tmp_path / "measured.xye"
    write_pattern(tmp_path / "measured.xy", example("thiosulfate"))
    content = (tmp_path / "measured.xy").read_bytes()
    path.write_bytes(content)
    answer = index(
        client, data={"most": "3", "system": "monoclinic,orthorhombic"}, files={"file": ("m.xy", content)}
    )  # fmt: skip
    expected = index_file(tmp_path / "measured.xy", IndexOptions(systems=("monoclinic", "orthorhombic"), most=3))
    assert [cell["m20"] for cell in answer["cells"]] == pytest.approx([s.m20 for s in expected.solutions], rel=1e-4)
    assert len(answer["cells"]) == 3


def test_a_peak_list_with_a_wavelength_gives_a_cell(client: TestClient, triclinic: dict[str, Any]) -> None:
    lines = {name: [peak[name] for peak in triclinic["peaks"][:25]] for name in ("two_theta", "intensity")}
    assert "wavelength" in post_error(client, PATH, json={"peaks": True, **lines})
    answer = index(client, json={"peaks": True, "anode": "Cu", **lines})
    assert answer["pattern"] is None
    assert answer["fit"] is None
    assert answer["cells"][0]["a"] == pytest.approx(5.5818, rel=3e-3)
    text = "\n".join(f"{x} {y}" for x, y in zip(*lines.values(), strict=True)).encode()
    again = index(client, data={"peaks": "true", "anode": "Cu"}, files={"file": ("lines.txt", text)})
    assert again["cells"][0]["m20"] == pytest.approx(answer["cells"][0]["m20"])


def test_what_is_known_is_used_and_told(client: TestClient, triclinic: dict[str, Any]) -> None:
    lines = {name: [peak[name] for peak in triclinic["peaks"][:25]] for name in ("two_theta", "intensity")}
    assert (triclinic["known"], triclinic["calibration"]) == ({}, None)
    cell = [triclinic["cells"][0][name] for name in NAMES]
    known = {"cell": cell, "formula": "C2H4O2", "density": 1.3}
    answer = index(client, json={"peaks": True, "anode": "Cu", **known, **lines})
    assert answer["known"] == known
    assert answer["cells"][0]["volume"] == pytest.approx(triclinic["cells"][0]["volume"], rel=0.01)
    expected = triclinic["cells"][0]["volume"] * 1.3 * 0.6022 / 60.05
    assert answer["cells"][0]["formula_units"] == pytest.approx(expected, rel=0.01)
    text = "\n".join(f"{x} {y}" for x, y in zip(*lines.values(), strict=True)).encode()
    form = {"peaks": "true", "anode": "Cu", "cell": ",".join(map(str, cell))}
    again = index(client, data=form, files={"file": ("lines.txt", text)})
    assert again["cells"][0]["a"] == pytest.approx(answer["cells"][0]["a"], rel=1e-4)


def test_an_amorphous_pattern_has_no_likely_cell(client: TestClient) -> None:
    x = np.arange(5, 60, 0.05)
    y = 1000 * np.exp(-(((x - 22) / 6) ** 2)) + 50
    answer = index(client, json={"two_theta": x.tolist(), "intensity": y.tolist(), "wavelength": 1.5406})
    assert answer["verdict"] in ("none", "unsure")
    assert answer["hints"]
    assert answer["cif"] == "" or answer["cells"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "example, two_theta: expected one of them"),
        ({"example": "triclinic", "two_theta": [1]}, "example, two_theta: expected one of them"),
        ({"two_theta": [1.0]}, "intensity: expected"),
        ({"two_theta": [1.0, 2.0], "intensity": [1.0]}, "found 1 numbers of intensity for 2"),
        ({"two_theta": [float(i) for i in range(1, 90)], "intensity": [float(i % 7) for i in range(1, 90)]}, "wavelen"),
        ({"example": "triclinic", "system": ["round"]}, "system: unknown choice 'round'"),
        ({"example": "triclinic", "anode": "Xx"}, "anode: unknown choice 'Xx'"),
        ({"example": "triclinic", "anode": "Cu", "wavelength": 1.5}, "found both wavelength"),
        ({"example": "triclinic", "wavelength": 1e9}, "expected 0.1 to 10"),
        ({"example": "triclinic", "most": 0}, "most: input should be greater"),
        ({"example": "triclinic", "standard": "/etc/passwd.cif"}, "standard: input should be 'Si', 'LaB6', 'Al2O3'"),
        ({"example": "triclinic", "standard": "Si"}, "standard: found "),
        ({"example": "triclinic", "standard": "Si", "zero": 0}, "found both zero and standard"),
        ({"example": "triclinic", "cell": [5.0] * 7}, "cell: list should have at most 6 items"),
        ({"example": "triclinic", "cell": [4, 6]}, "cell: found 2 numbers, expected system tetragonal"),
        ({"example": "triclinic", "formula": "Na2!"}, "formula: found 'Na2!', expected one such as"),
        ({"example": "triclinic", "formula": "O" * 500}, "formula: string should have at most 200"),
        ({"example": "triclinic", "density": 1.5}, "density: found 1.5 g/cm³ alone, expected a formula"),
        ({"peaks": True, "two_theta": [10.0] * 500, "anode": "Cu"}, "expected at most 200"),
    ],
)
def test_invalid_requests_are_errors(body: dict[str, Any], message: str, client: TestClient) -> None:
    error = post_error(client, PATH, json=body)
    assert message in error
    assert "--" not in error


def test_an_unknown_example_and_two_files_are_errors(client: TestClient) -> None:
    assert "expected one of: triclinic" in post_error(client, PATH, 404, json={"example": "none"})
    two = [("file", ("a.xy", b"1 2")), ("file", ("b.xy", b"1 2"))]
    assert post_error(client, PATH, data={}, files=two) == "file: found 2, expected one"


def test_index_is_not_served_without_powder() -> None:
    client, _ = make_sum_client()
    with client:
        assert "--powder" in post_error(client, PATH, 404, json={"example": "triclinic"})
        models = client.get("/v1/models").json()
        assert (models["powder"], models["anodes"]) == (None, list(ANODES))
        assert client.get("/v1/examples").json()["patterns"] == []
