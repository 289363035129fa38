"""Access control, headers and metrics of every response, and the page."""

import logging
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.serve.clients import make_client, make_sum_client
from vitreous.serve import responses
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.middleware import LOOPBACK

ONE = {"samples": [[1, 2, 3, 4, 5]]}
TOKEN = "correct-horse-battery"


def test_paths_with_data_need_the_token() -> None:
    client, _ = make_sum_client(token=TOKEN)
    with client:
        for wrong in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}, {"authorization": "Bearer "}):
            reply = client.post("/v1/predict", json=ONE, headers=wrong)
            assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
            assert client.get("/v1/models", headers=wrong).status_code == 401
            assert client.get("/v1/nothing", headers=wrong).status_code == 401
            assert client.get("/metrics", headers=wrong).status_code == 401
        right = {"authorization": f"Bearer {TOKEN}"}
        assert client.post("/v1/predict", json=ONE, headers=right).status_code == 200
        assert client.get("/metrics", headers=right).status_code == 200
        assert client.get("/healthz").status_code == 200
        assert client.get("/docs").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::1", "localhost:port"])
def test_unknown_host_names_are_refused(host: str) -> None:
    client, _ = make_sum_client(hosts=LOOPBACK)
    with client:
        assert client.get("/v1/models", headers={"host": host}).status_code == 403
        for local in ("localhost", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST:1"):
            assert client.get("/v1/models", headers={"host": local}).status_code == 200


def test_requests_from_other_sites_are_refused() -> None:
    client, _ = make_sum_client()
    with client:
        for origin in ("https://evil.example", "null", "http://127.0.0.1:81"):
            reply = client.post("/v1/predict", json=ONE, headers={"origin": origin})
            assert reply.status_code == 403
        assert client.post("/v1/predict", json=ONE, headers={"origin": "http://127.0.0.1"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/docs", "/v1/models", "/openapi.json", "/nothing", "/healthz"])
def test_every_response_forbids_external_content(path: str) -> None:
    client, _ = make_sum_client()
    with client:
        reply = client.get(path)
        policy = reply.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert not re.search(r"https?:|\*", policy)
        assert "unsafe" not in policy or path == "/docs"
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_the_docs_need_no_network_and_no_script() -> None:
    client, _ = make_sum_client()
    with client:
        text = client.get("/docs").text
    assert "/v1/predict" in text
    assert "<script" not in text
    assert not re.search(r"(src|href)=\"(?!#|data:)", text)


def test_only_files_of_the_page_are_served(tmp_path: Path) -> None:
    (tmp_path / "page" / "lib").mkdir(parents=True)
    (tmp_path / "page" / "index.html").write_text("<p>hello")
    (tmp_path / "page" / "lib" / "plot.js").write_text("1")
    (tmp_path / "secret").write_text("secret")
    with make_client({}, Limits(), Metrics(), page=tmp_path / "page") as client:
        assert client.get("/").text == client.get("/index.html").text == "<p>hello"
        assert client.get("/").headers["content-type"].startswith("text/html")
        assert "javascript" in client.get("/lib/plot.js").headers["content-type"]
        for path in ("/../secret", "/%2e%2e/secret", "/lib/../../secret", "/lib", "/lib\\plot.js"):
            assert client.get(path).status_code == 404


def test_the_page_comes_with_the_package(client: TestClient) -> None:
    page = (files("vitreous") / "serve" / "page" / "index.html").read_text("utf-8")
    assert client.get("/").text == page


def test_models_examples_and_health_match_their_schemas(client: TestClient) -> None:
    models = responses.ModelsResponse.model_validate(client.get("/v1/models").json())
    assert [model.name for model in models.models] == ["run", "vit", "cnn", "vit.onnx"]
    assert [model.kind for model in models.models] == ["spectrum", "image", "image", "image"]
    assert models.models[1].white == 1.0
    assert models.models[3].maps == []
    examples = responses.ExamplesResponse.model_validate(client.get("/v1/examples").json())
    assert [pattern.name for pattern in examples.patterns] == ["triclinic", "thiosulfate"]
    assert {sample.model for sample in examples.samples} == {"run", "vit", "cnn"}
    for sample in examples.samples:
        reply = client.post("/v1/predict", json={"model": sample.model, "samples": [sample.sample]})
        assert reply.status_code == 200
    responses.HealthResponse.model_validate(client.get("/healthz").json())


def test_metrics_count_responses_batches_and_queues() -> None:
    client, _ = make_sum_client()
    with client:
        client.post("/v1/predict", json={"samples": ONE["samples"] * 3})
        client.post("/v1/predict", json={"samples": []})
        client.get("/any/words/of/a/client")
        text = client.get("/metrics").text
    assert 'vitreous_requests_total{path="/v1/predict",status="200"} 1.0' in text
    assert 'vitreous_requests_total{path="/v1/predict",status="422"} 1.0' in text
    assert 'vitreous_requests_total{path="other",status="404"} 1.0' in text
    assert 'vitreous_batch_size_sum{model="sums"} 3.0' in text
    assert 'vitreous_waiting{what="sums"} 0.0' in text


def test_a_bug_is_logged_without_data_of_the_client(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, predictor = make_sum_client()

    def fails(*_: Any) -> None:
        raise RuntimeError("the secret 12345.678 of a client")

    monkeypatch.setattr(type(predictor), "predict", fails)
    with client, caplog.at_level(logging.DEBUG):
        reply = client.post("/v1/predict", json={"samples": [[1, 2, 3, 4, 12345.678]]})
    assert reply.status_code == 500
    assert reply.json() == {"error": "internal error of the service; it has been logged"}
    assert "RuntimeError in fails" in caplog.text
    assert "12345" not in caplog.text
