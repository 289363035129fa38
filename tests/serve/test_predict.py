"""What the service predicts is what `vitreous predict` does, however it is asked and with whom it is computed."""

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from tests.serve.models import Sums, client_of, sums_client
from vitreous.data import digits
from vitreous.predict import load, predict
from vitreous.serve import answers
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.served import Served


def asked(client: TestClient, **request: Any) -> dict[str, Any]:
    reply = client.post("/v1/predict", **request)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    answers.Predicted.model_validate(found)
    return found


def refused(client: TestClient, status: int, **request: Any) -> str:
    reply = client.post("/v1/predict", **request)
    assert reply.status_code == status, reply.text
    (reason,) = reply.json().values()
    assert "\n" not in reason
    return str(reason)


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


@pytest.mark.parametrize("model", ["vit", "vit.onnx", "cnn"])
def test_classes(model: str, client: TestClient, paths: dict[str, Path]) -> None:
    x = digits().x[:9]
    found = asked(client, json={"model": model, "samples": x.tolist()})
    wanted = load(paths[model])(x)
    assert [row["class"] for row in found["rows"]] == wanted.labels
    np.testing.assert_allclose([row["probabilities"] for row in found["rows"]], wanted.probabilities, atol=1e-5)


def test_quantities_with_intervals_and_units(client: TestClient, paths: dict[str, Path]) -> None:
    x = np.random.default_rng(1).normal(size=(3, 24)).cumsum(1)
    found = asked(client, json={"model": "run", "samples": x.tolist(), "coverage": 0.8})
    wanted = load(paths["run"])(x, 0.8)
    assert wanted.values is not None
    assert wanted.lower is not None
    assert wanted.upper is not None
    for i, row in enumerate(found["rows"]):
        (value,) = row["values"]
        assert (value["name"], value["unit"], row["row"]) == ("height", "mm", i)
        ends = (wanted.values[i, 0], wanted.lower[i, 0], wanted.upper[i, 0])
        np.testing.assert_allclose((value["value"], value["lower"], value["upper"]), ends, rtol=1e-5)


def test_a_file_of_spectra(client: TestClient, paths: dict[str, Path]) -> None:
    data = paths["run"].parent / "spectra.csv"
    found = asked(client, data={"model": "run"}, files=[("file", ("a.csv", data.read_bytes()))] * 2)
    wanted = [record["height (mm)"] for record in predict(paths["run"], [data], None)]
    assert [(row["file"], row["row"]) for row in found["rows"]] == [(f, r) for f in (0, 1) for r in range(len(wanted))]
    np.testing.assert_allclose([row["values"][0]["value"] for row in found["rows"]], wanted * 2, rtol=1e-5)


def test_pictures_are_resized_and_brought_to_the_white_of_the_data(
    client: TestClient, paths: dict[str, Path], tmp_path: Path
) -> None:
    pixels = (255 * digits().x[3, 0]).astype(np.uint8).repeat(3, 0).repeat(3, 1)
    (tmp_path / "three.png").write_bytes(png(pixels))
    (wanted,) = predict(paths["vit"], [tmp_path / "three.png"], None)
    found = asked(client, data={"model": "vit"}, files=[("file", ("three.png", png(pixels)))])
    (row,) = found["rows"]
    assert row["class"] == wanted["class"]
    assert row["probability"] == pytest.approx(wanted["probability"], abs=1e-5)


def test_a_lone_model_need_not_be_named() -> None:
    client, _ = sums_client()
    with client:
        (row,) = asked(client, json={"samples": [[1, 2, 3, 4, 5]]})["rows"]
    assert row["values"] == [{"name": "sum", "unit": "mm", "value": 15.0, "lower": None, "upper": None}]


def test_many_clients_at_once_each_get_their_own_answer_in_fewer_batches() -> None:
    client, sums = sums_client()
    with client, ThreadPoolExecutor(32) as threads:

        def ask(number: int) -> bool:
            samples = [[number + k] * 5 for k in range(1 + number % 3)]
            rows = asked(client, json={"samples": samples})["rows"]
            return [row["values"][0]["value"] for row in rows] == [5.0 * sample[0] for sample in samples]

        assert all(threads.map(ask, range(300)))
    assert len(sums.sizes) < 300


def test_a_model_whose_answers_depend_on_the_batch_answers_one_at_a_time() -> None:
    predictor, metrics = Sums(), Metrics()
    predictor.precision = "int8"  # type: ignore[attr-defined]
    served = Served("sums", predictor, Limits(), metrics, Path("sums"))
    with client_of({"sums": served}, Limits(), metrics) as client:
        asked(client, json={"samples": [[1, 2, 3, 4, 5]] * 20})
    assert predictor.sizes == [1] * 20


def test_a_sample_with_no_finite_answer_spoils_no_other() -> None:
    client, sums = sums_client()
    with client, ThreadPoolExecutor(2) as threads:
        sums.gate.clear()
        first = threads.submit(client.post, "/v1/predict", json={"samples": [[0] * 5]})
        assert sums.entered.wait(10)
        bad = threads.submit(refused, client, 422, json={"samples": [[1e308] * 5]})
        sums.gate.set()
        good = asked(client, json={"samples": [[1.0] * 5]})
        assert "no finite answer" in bad.result(10)
        assert first.result(10).status_code == 200
        assert good["rows"][0]["values"][0]["value"] == 5.0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"samples": [[1, 2]]}, "samples of shape"),
        ({"samples": []}, "samples: list should have at least 1 item"),
        ({"samples": [[1, 2, 3, 4, "5"]]}, "expected numbers"),
        ({"samples": [[1, 2, 3, 4, 5], [1]]}, "unequal length"),
        ({"samples": [[1, 2, 3, 4, 10**40]]}, "expected numbers"),
        ({"samples": "no"}, "samples: input should be a valid"),
        ({"samples": [[1] * 5], "coverage": 1.5}, "coverage: input should be less than 1"),
        ({"samples": [[1] * 5], "coverage": 0.5}, "calibrated on a validation part"),
        ({"samples": [[1] * 5], "colour": "red"}, "colour: extra inputs are not permitted"),
        ({}, "samples: field required"),
    ],
)
def test_wrong_numbers_are_told_in_one_line(body: dict[str, Any], reason: str) -> None:
    client, _ = sums_client()
    with client:
        assert reason in refused(client, 422, json=body)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 50_000, b"[1]", b'{"samples": [[1, 2, 3, 4, NaN]]}'])
def test_what_is_no_json_is_told(text: bytes) -> None:
    client, _ = sums_client()
    with client:
        refused(client, 422, content=text, headers={"content-type": "application/json"})


def test_other_contents_and_models_are_told(client: TestClient) -> None:
    refused(client, 415, content=b"1,2,3", headers={"content-type": "text/csv"})
    assert "expected one of: run, vit" in refused(client, 404, json={"model": "none", "samples": [[1]]})
    assert "expected one of: run, vit" in refused(client, 422, json={"samples": [[1]]})
    assert "gives probabilities" in refused(client, 422, json={"model": "vit", "samples": [[1]], "coverage": 0.9})
    upload = {"data": {"model": "vit", "anode": "Cu"}, "files": {"file": ("a.png", png(np.zeros((8, 8), np.uint8)))}}
    assert "anode: is for powder patterns" in refused(client, 422, **upload)
    assert "expected a file" in refused(client, 422, data={"model": "vit"}, files={"file": ("", b"")})
