"""`/v1/explain`: the maps of the library, on axes with units."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from tests.serve.clients import post, post_error
from vitreous.data import Axis, digits
from vitreous.insight.attention import attention_maps
from vitreous.insight.attribution import METHODS, ExplainedSample
from vitreous.insight.regions import model_input, patch_boxes, spread_to_grid
from vitreous.run.predictor import load
from vitreous.serve import responses
from vitreous.serve.arrays import bin_values, coarsen_sample
from vitreous.serve.explain import coarse_axes, coarse_steps

PATH = "/v1/explain"


def explain(client: TestClient, **request: Any) -> dict[str, Any]:
    answer = post(client, PATH, **request)
    responses.ExplainResponse.model_validate(answer)
    return answer


def test_maps_of_an_image_equal_those_of_the_library(client: TestClient, paths: dict[str, Path]) -> None:
    sample = digits().x[5]
    answer = explain(client, json={"model": "vit", "sample": sample.tolist()})
    run = load(paths["vit"])
    assert [map_["name"] for map_ in answer["maps"]] == ["attention", "rollout"]
    units = patch_boxes(run.model.config)
    assert units is not None
    for map_ in answer["maps"]:
        expected = spread_to_grid(METHODS[map_["name"]](ExplainedSample(run, sample)), units, (8, 8))
        np.testing.assert_allclose(map_["values"], expected, rtol=1e-3)
    np.testing.assert_allclose(answer["sample"], sample, rtol=1e-4)
    assert answer["answer"] == ExplainedSample(run, sample).answer
    assert answer["row"]["class"] == run(sample[None]).labels[0]


def test_heads_of_a_layer_equal_those_of_the_library(client: TestClient, paths: dict[str, Path]) -> None:
    sample = digits().x[5]
    answer = explain(client, json={"model": "vit", "sample": sample.tolist(), "heads": True, "layer": 0})
    assert [head["name"] for head in answer["heads"]] == ["layer 0, head 0", "layer 0, head 1"]
    run = load(paths["vit"])
    maps = attention_maps(run.model, model_input(run, sample[None]), [0])[0, 0]  # type: ignore[arg-type]
    units = patch_boxes(run.model.config)
    assert units is not None
    np.testing.assert_allclose(answer["heads"][1]["values"], spread_to_grid(maps[1], units, (8, 8)), rtol=1e-3)


def test_maps_of_a_spectrum_lie_on_its_axis(client: TestClient, paths: dict[str, Path]) -> None:
    upload = {"file": ("s.csv", (paths["run"].parent / "spectra.csv").read_bytes())}
    answer = explain(client, data={"model": "run", "row": "7", "maps": "rollout"}, files=upload)
    (axis,) = answer["axes"]
    assert (axis["unit"], axis["origin"], axis["spacing"], axis["count"]) == ("", 500.0, 2.0, 24)
    assert np.shape(answer["maps"][0]["values"]) == (24,)
    assert answer["row"]["row"] == 7
    predicted = post(client, "/v1/predict", data={"model": "run"}, files=upload)["rows"][7]
    assert answer["row"]["values"][0]["value"] == pytest.approx(predicted["values"][0]["value"], rel=1e-5)


def test_a_cnn_is_explained_by_integrated_gradients(client: TestClient) -> None:
    answer = explain(client, json={"model": "cnn", "sample": digits().x[0].tolist(), "target": "3"})
    assert [map_["name"] for map_ in answer["maps"]] == ["integrated gradients"]
    assert answer["answer"].startswith("3, probability")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": "vit.onnx"}, "vit.onnx has no maps"),
        ({"maps": ["tea leaves"]}, "maps: unknown choice 'tea leaves'"),
        ({"target": "ten"}, "target: unknown choice 'ten'"),
        ({"heads": True, "layer": 2}, "layer: found 2, expected one of 2 layers"),
    ],
)
def test_invalid_options_are_errors(fields: dict[str, Any], message: str, client: TestClient) -> None:
    assert message in post_error(client, PATH, json={"model": "vit", "sample": digits().x[0].tolist()} | fields)


def test_a_missing_row_is_an_error(client: TestClient, paths: dict[str, Path]) -> None:
    content = (paths["run"].parent / "spectra.csv").read_bytes()
    message = post_error(client, PATH, data={"model": "run", "row": "80"}, files={"file": ("s.csv", content)})
    assert message == "row: found 80, but the file has 80 sample(s), counted from 0"


def test_long_spectra_become_coarser_and_keep_their_peaks() -> None:
    sample = np.zeros((1, 100_001))
    sample[0, 77_777] = 5.0
    steps = coarse_steps((100_001,))
    coarse = coarsen_sample(sample, steps)
    (axis,) = coarse_axes([Axis("q", "1/Å", 1.0, 0.1)], steps, (100_001,))
    assert axis["count"] == coarse.shape[1] <= 2048
    position = axis["origin"] + axis["spacing"] * coarse[0].argmax()
    assert abs(position - (1.0 + 0.1 * 77_777)) <= 0.1 * steps[0]
    assert coarse.max() == 5.0


def test_bins_of_an_image_hold_neighbouring_pixels() -> None:
    image = np.arange(16.0).reshape(4, 4)
    np.testing.assert_array_equal(bin_values(image, (2, 2)).mean(-1), [[2.5, 4.5], [10.5, 12.5]])
