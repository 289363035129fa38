"""Where a model looked, as numbers: those of `vitreous explain`, on axes that say where they lie."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from vitreous.data import Axis, digits
from vitreous.insight.attention import attention_maps
from vitreous.insight.attribution import METHODS, Question
from vitreous.insight.units import boxes, model_input, spread
from vitreous.serve import answers
from vitreous.serve.explained import _axes, _bins, _farthest, _steps
from vitreous.train.predictor import load


def asked(client: TestClient, **request: Any) -> dict[str, Any]:
    reply = client.post("/v1/explain", **request)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    answers.Explained.model_validate(found)
    return found


def refused(client: TestClient, **request: Any) -> str:
    reply = client.post("/v1/explain", **request)
    assert reply.status_code == 422, reply.text
    return str(reply.json()["error"])


def test_maps_of_a_picture_are_those_of_the_library(client: TestClient, paths: dict[str, Path]) -> None:
    sample = digits().x[5]
    found = asked(client, json={"model": "vit", "sample": sample.tolist()})
    run = load(paths["vit"])
    assert [each["name"] for each in found["maps"]] == ["attention", "rollout"]
    units = boxes(run.model.config)
    assert units is not None
    for each in found["maps"]:
        wanted = spread(METHODS[each["name"]](Question(run, sample)), units, (8, 8))
        np.testing.assert_allclose(each["values"], wanted, rtol=1e-3)
    np.testing.assert_allclose(found["sample"], sample, rtol=1e-4)
    assert found["answer"] == Question(run, sample).answer
    assert found["row"]["class"] == run(sample[None]).labels[0]


def test_heads_of_a_layer(client: TestClient, paths: dict[str, Path]) -> None:
    sample = digits().x[5]
    found = asked(client, json={"model": "vit", "sample": sample.tolist(), "heads": True, "layer": 0})
    assert [each["name"] for each in found["heads"]] == ["layer 0, head 0", "layer 0, head 1"]
    run = load(paths["vit"])
    maps = attention_maps(run.model, model_input(run, sample[None]), [0])[0, 0]  # type: ignore[arg-type]
    units = boxes(run.model.config)
    assert units is not None
    np.testing.assert_allclose(found["heads"][1]["values"], spread(maps[1], units, (8, 8)), rtol=1e-3)


def test_a_spectrum_of_a_file_lies_on_its_axis(client: TestClient, paths: dict[str, Path]) -> None:
    content = (paths["run"].parent / "spectra.csv").read_bytes()
    found = asked(client, data={"model": "run", "row": "7", "maps": "rollout"}, files={"file": ("s.csv", content)})
    (axis,) = found["axes"]
    assert (axis["unit"], axis["origin"], axis["spacing"], axis["count"]) == ("", 500.0, 2.0, 24)
    assert np.shape(found["maps"][0]["values"]) == (24,)
    assert found["row"]["row"] == 7
    predicted = client.post("/v1/predict", data={"model": "run"}, files={"file": ("s.csv", content)}).json()["rows"][7]
    assert found["row"]["values"][0]["value"] == pytest.approx(predicted["values"][0]["value"], rel=1e-5)


def test_a_cnn_is_explained_by_gradients(client: TestClient) -> None:
    found = asked(client, json={"model": "cnn", "sample": digits().x[0].tolist(), "target": "3"})
    assert [each["name"] for each in found["maps"]] == ["integrated gradients"]
    assert found["answer"].startswith("3, probability")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"model": "vit.onnx"}, "vit.onnx cannot be looked into"),
        ({"maps": ["tea leaves"]}, "maps: unknown choice 'tea leaves'"),
        ({"target": "ten"}, "target: unknown choice 'ten'"),
        ({"heads": True, "layer": 2}, "layer: found 2, expected one of 2 layers"),
    ],
)
def test_what_cannot_be_drawn_is_told(more: dict[str, Any], reason: str, client: TestClient) -> None:
    assert reason in refused(client, json={"model": "vit", "sample": digits().x[0].tolist()} | more)


def test_a_row_that_is_not_there_is_told(client: TestClient, paths: dict[str, Path]) -> None:
    content = (paths["run"].parent / "spectra.csv").read_bytes()
    upload = {"data": {"model": "run", "row": "80"}, "files": {"file": ("s.csv", content)}}
    assert refused(client, **upload) == "row: found 80, but the file holds 80 sample(s), counted from 0"


def test_long_spectra_become_coarser_and_keep_their_lines() -> None:
    sample = np.zeros((1, 100_001))
    sample[0, 77_777] = 5.0
    steps = _steps((100_001,))
    coarse = _farthest(sample, steps)
    (axis,) = _axes([Axis("q", "1/Å", 1.0, 0.1)], steps, (100_001,))
    assert axis["count"] == coarse.shape[1] <= 2048
    place = axis["origin"] + axis["spacing"] * coarse[0].argmax()
    assert abs(place - (1.0 + 0.1 * 77_777)) <= 0.1 * steps[0]
    assert coarse.max() == 5.0


def test_bins_of_a_picture_hold_its_neighbours() -> None:
    picture = np.arange(16.0).reshape(4, 4)
    np.testing.assert_array_equal(_bins(picture, (2, 2)).mean(-1), [[2.5, 4.5], [10.5, 12.5]])
