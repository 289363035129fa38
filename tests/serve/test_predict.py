"""`/v1/predict`: the predictions of `vitreous predict`, for any form of request and any batch."""

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from tests.serve.clients import SumPredictor, make_client, make_sum_client, post, post_error
from vitreous.data import digits
from vitreous.predict import predict_files
from vitreous.run.load import load
from vitreous.serve import responses
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.models import ServedModel

PATH = "/v1/predict"


def predict(client: TestClient, **request: Any) -> dict[str, Any]:
    answer = post(client, PATH, **request)
    responses.PredictResponse.model_validate(answer)
    return answer


def encode_png(pixels: np.ndarray[Any, Any]) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


@pytest.mark.parametrize("model", ["vit", "vit.onnx", "cnn"])
def test_classes_equal_those_of_the_library(model: str, client: TestClient, paths: dict[str, Path]) -> None:
    x = digits().x[:9]
    rows = predict(client, json={"model": model, "samples": x.tolist()})["rows"]
    expected = load(paths[model])(x)
    assert [row["class"] for row in rows] == expected.labels
    np.testing.assert_allclose([row["probabilities"] for row in rows], expected.probabilities, atol=1e-5)


def test_quantities_have_intervals_and_units(client: TestClient, paths: dict[str, Path]) -> None:
    x = np.random.default_rng(1).normal(size=(3, 24)).cumsum(1)
    answer = predict(client, json={"model": "run", "samples": x.tolist(), "coverage": 0.8})
    expected = load(paths["run"])(x, 0.8)
    assert expected.values is not None
    assert expected.lower is not None
    assert expected.upper is not None
    for i, row in enumerate(answer["rows"]):
        (value,) = row["values"]
        assert (value["name"], value["unit"], row["row"]) == ("height", "mm", i)
        numbers = (expected.values[i, 0], expected.lower[i, 0], expected.upper[i, 0])
        np.testing.assert_allclose((value["value"], value["lower"], value["upper"]), numbers, rtol=1e-5)


def test_files_of_spectra_equal_the_command(client: TestClient, paths: dict[str, Path]) -> None:
    data = paths["run"].parent / "spectra.csv"
    rows = predict(client, data={"model": "run"}, files=[("file", ("a.csv", data.read_bytes()))] * 2)["rows"]
    expected = [record["height (mm)"] for record in predict_files(paths["run"], [data])]
    assert [(row["file"], row["row"]) for row in rows] == [(f, r) for f in (0, 1) for r in range(len(expected))]
    np.testing.assert_allclose([row["values"][0]["value"] for row in rows], expected * 2, rtol=1e-5)


def test_images_are_resized_and_scaled_to_the_white_of_the_data(
    client: TestClient, paths: dict[str, Path], tmp_path: Path
) -> None:
    pixels = (255 * digits().x[3, 0]).astype(np.uint8).repeat(3, 0).repeat(3, 1)
    (tmp_path / "three.png").write_bytes(encode_png(pixels))
    (expected,) = predict_files(paths["vit"], [tmp_path / "three.png"])
    (row,) = predict(client, data={"model": "vit"}, files=[("file", ("three.png", encode_png(pixels)))])["rows"]
    assert row["class"] == expected["class"]
    assert row["probability"] == pytest.approx(expected["probability"], abs=1e-5)


def test_the_name_of_a_single_model_is_optional() -> None:
    client, _ = make_sum_client()
    with client:
        (row,) = predict(client, json={"samples": [[1, 2, 3, 4, 5]]})["rows"]
    assert row["values"] == [{"name": "sum", "unit": "mm", "value": 15.0, "lower": None, "upper": None}]


def test_concurrent_clients_get_their_own_answers_in_fewer_batches() -> None:
    client, predictor = make_sum_client()
    with client, ThreadPoolExecutor(32) as threads:

        def is_right(number: int) -> bool:
            samples = [[number + k] * 5 for k in range(1 + number % 3)]
            rows = predict(client, json={"samples": samples})["rows"]
            return [row["values"][0]["value"] for row in rows] == [5.0 * sample[0] for sample in samples]

        assert all(threads.map(is_right, range(300)))
    assert len(predictor.sizes) < 300


def test_a_model_whose_answers_depend_on_the_batch_answers_one_at_a_time() -> None:
    predictor, metrics = SumPredictor(), Metrics()
    predictor.precision = "int8"
    model = ServedModel("sums", predictor, Limits(), metrics, Path("sums"))
    with make_client({"sums": model}, Limits(), metrics) as client:
        predict(client, json={"samples": [[1, 2, 3, 4, 5]] * 20})
    assert predictor.sizes == [1] * 20


def test_a_sample_without_a_finite_answer_does_not_affect_others() -> None:
    client, predictor = make_sum_client()
    with client, ThreadPoolExecutor(2) as threads:
        predictor.gate.clear()
        first = threads.submit(client.post, PATH, json={"samples": [[0] * 5]})
        assert predictor.entered.wait(10)
        infinite = threads.submit(post_error, client, PATH, json={"samples": [[1e308] * 5]})
        predictor.gate.set()
        finite = predict(client, json={"samples": [[1.0] * 5]})
        assert "is not finite" in infinite.result(10)
        assert first.result(10).status_code == 200
        assert finite["rows"][0]["values"][0]["value"] == 5.0


@pytest.mark.parametrize(
    ("body", "message"),
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
def test_invalid_fields_are_errors(body: dict[str, Any], message: str) -> None:
    client, _ = make_sum_client()
    with client:
        assert message in post_error(client, PATH, json=body)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 50_000, b"[1]", b'{"samples": [[1, 2, 3, 4, NaN]]}'])
def test_invalid_json_is_an_error(text: bytes) -> None:
    client, _ = make_sum_client()
    with client:
        post_error(client, PATH, content=text, headers={"content-type": "application/json"})


def test_another_content_type_is_an_error(client: TestClient) -> None:
    post_error(client, PATH, 415, content=b"1,2,3", headers={"content-type": "text/csv"})


def test_an_unknown_or_missing_model_is_an_error(client: TestClient) -> None:
    assert "expected one of: run, vit" in post_error(client, PATH, 404, json={"model": "none", "samples": [[1]]})
    assert "expected one of: run, vit" in post_error(client, PATH, json={"samples": [[1]]})


def test_options_of_other_models_are_errors(client: TestClient) -> None:
    message = post_error(client, PATH, json={"model": "vit", "samples": [[1]], "coverage": 0.9})
    assert "predicts probabilities" in message
    upload = {"data": {"model": "vit", "anode": "Cu"}}
    image = {"file": ("a.png", encode_png(np.zeros((8, 8), np.uint8)))}
    assert "anode: only for powder patterns" in post_error(client, PATH, **upload, files=image)


def test_a_file_needs_a_name(client: TestClient) -> None:
    assert "expected a file" in post_error(client, PATH, data={"model": "vit"}, files={"file": ("", b"")})


def test_a_sample_without_a_finite_answer_is_named() -> None:
    client, _ = make_sum_client()
    with client:
        message = post_error(client, PATH, json={"samples": [[1.0] * 5, [1e308] * 5]})
    assert message.startswith("input: the answer for sample 1 is not finite")


@pytest.mark.parametrize("model", ["vit", "vit.onnx"])
def test_every_answer_says_how_familiar_its_sample_is(client: TestClient, model: str) -> None:
    noise = np.random.default_rng(0).random((20, 8, 8))
    digit = client.get("/v1/examples").json()["samples"]
    samples = [each["sample"][0] for each in digit if each["model"] == "vit"] + noise.tolist()
    rows = predict(client, json={"model": model, "samples": samples})["rows"]
    familiarity = np.array([row["familiarity"] for row in rows])
    assert (familiarity[-20:] < 0.01).all()
    assert (familiarity[:-20] >= 0.01).any()
