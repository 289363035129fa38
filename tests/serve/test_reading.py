"""`/v1/index` with a file: axis, columns, scans and neutrons as fields, within limits."""

from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from tests.powder.files.contents import X, Y, rows, xrdml
from tests.serve.clients import post, post_error
from vitreous.powder.radiation import KEV_ANGSTROM

PATH = "/v1/index"
SPACINGS = 5.6402 / np.sqrt([3.0, 4, 8, 11, 12, 16, 19, 20, 24, 27])
ENERGIES = KEV_ANGSTROM / (2 * SPACINGS * np.sin(np.radians(6)))
PEAKS = {"peaks": "true", "system": "cubic"}


@pytest.mark.parametrize(
    ("columns", "fields"),
    [
        ((SPACINGS,), {"axis": "d", "anode": "Cu"}),
        ((0 * SPACINGS, 0 * SPACINGS + 3, SPACINGS), {"axis": "d", "columns": "3,2", "wavelength": "1.2"}),
        ((ENERGIES,), {"axis": "energy", "fixed_angle": "12"}),
    ],
)
def test_a_list_of_lines_is_read_as_the_fields_say(
    client: TestClient, columns: tuple[np.ndarray, ...], fields: dict[str, str]
) -> None:
    answer = post(client, PATH, data=PEAKS | fields, files={"file": ("lines.txt", rows(*columns).encode())})
    assert answer["cells"][0]["a"] == pytest.approx(5.6402, rel=1e-4)
    assert ("energies at 2θ = 12°" in " ".join(answer["hints"])) == ("fixed_angle" in fields)


def test_scans_are_merged_and_neutrons_are_named(client: TestClient) -> None:
    fields = {"scan": "merge", "neutrons": "true", "wavelength": "1.54", "system": "cubic"}
    table = rows(X, Y)
    answer = post(client, PATH, data=fields, files={"file": ("x.xy", f"{table}\n{table}".encode())})
    assert answer["pattern"]["points"] == len(X)
    assert max(answer["pattern"]["intensity"]) == pytest.approx(2 * Y.max())
    assert answer["pattern"]["radiation"] == "neutrons"
    assert "2 scans were added" in answer["hints"]


@pytest.mark.parametrize(
    ("name", "content", "fields", "message"),
    [
        ("x.xy", rows(X, Y), {"axis": "tof"}, "axis: input should be '2theta'"),
        ("x.xy", rows(X, Y), {"axis": "energy"}, "needs the fixed angle of its detector: give fixed_angle (2θ"),
        ("x.xy", rows(X, Y), {"axis": "energy", "fixed_angle": "200"}, "fixed_angle: input should be less than 180"),
        ("x.xy", rows(X, Y), {"columns": "1,2,3,4"}, "columns: list should have at most 3"),
        ("x.xy", rows(X, Y), {"columns": "1," + "n" * 300}, "columns.1: string should have at most 200"),
        ("x.xy", rows(X, Y), {"columns": "1,7"}, "columns: found 7, expected 1 to 2"),
        ("x.xy", rows(X, Y), {"scan": "0"}, "scan"),
        ("x.xy", rows(X, Y), {"scan": "1000"}, "scan"),
        ("x.xy", rows(X, Y) * 2, {"anode": "Cu"}, "choose one with scan 1 or combine them with scan merge"),
        ("x.xrdml", xrdml().decode(), {"axis": "d"}, "axis: only for columns of text"),
        ("x.xy", rows(X, Y), {"neutrons": "true", "anode": "Cu"}, "found both neutrons and anode Cu"),
    ],
)
def test_invalid_fields_are_errors(
    client: TestClient, name: str, content: str, fields: dict[str, Any], message: str
) -> None:
    error = post_error(client, PATH, data=fields, files={"file": (name, content.encode())})
    assert message in error
    assert "--" not in error


def test_numbers_have_no_columns_and_no_scans(client: TestClient) -> None:
    for field in ({"axis": "d"}, {"columns": ["1", "2"]}, {"scan": 1}, {"fixed_angle": 12}):
        assert next(iter(field)) in post_error(client, PATH, json={"example": "triclinic", **field})
