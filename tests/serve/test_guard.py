"""Who may ask, and what every answer carries."""

import logging
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.serve.models import client_of, sums_client
from vitreous.serve import answers, pages
from vitreous.serve.guard import LOOPBACK
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics

ONE = {"samples": [[1, 2, 3, 4, 5]]}
TOKEN = "correct-horse-battery"


def test_a_token_is_asked_for_by_all_that_answers_with_data() -> None:
    client, _ = sums_client(token=TOKEN)
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
def test_another_name_for_this_machine_is_refused(host: str) -> None:
    client, _ = sums_client(hosts=LOOPBACK)
    with client:
        assert client.get("/v1/models", headers={"host": host}).status_code == 403
        for own in ("localhost", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST:1"):
            assert client.get("/v1/models", headers={"host": own}).status_code == 200


def test_pages_of_other_sites_may_not_ask() -> None:
    client, _ = sums_client()
    with client:
        for origin in ("https://evil.example", "null", "http://127.0.0.1:81"):
            reply = client.post("/v1/predict", json=ONE, headers={"origin": origin})
            assert reply.status_code == 403
        assert client.post("/v1/predict", json=ONE, headers={"origin": "http://127.0.0.1"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/docs", "/v1/models", "/openapi.json", "/nothing", "/healthz"])
def test_every_answer_forbids_the_rest_of_the_net(path: str) -> None:
    client, _ = sums_client()
    with client:
        reply = client.get(path)
        policy = reply.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert not re.search(r"https?:|\*", policy)
        assert "unsafe" not in policy or path == "/docs"
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_the_description_needs_no_network_and_no_script() -> None:
    client, _ = sums_client()
    with client:
        text = client.get("/docs").text
    assert "/v1/predict" in text
    assert "<script" not in text
    assert not re.search(r"(src|href)=\"(?!#|data:)", text)


def test_the_page_is_served_under_its_own_names_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page" / "lib").mkdir(parents=True)
    (tmp_path / "page" / "index.html").write_text("<p>hello")
    (tmp_path / "page" / "lib" / "plot.js").write_text("1")
    (tmp_path / "secret").write_text("secret")
    monkeypatch.setattr(pages, "files", lambda package: tmp_path)
    with client_of({}, Limits(), Metrics(), powder=False) as client:
        assert client.get("/").text == client.get("/index.html").text == "<p>hello"
        assert client.get("/").headers["content-type"].startswith("text/html")
        assert "javascript" in client.get("/lib/plot.js").headers["content-type"]
        for path in ("/../secret", "/%2e%2e/secret", "/lib/../../secret", "/lib", "/lib\\plot.js"):
            assert client.get(path).status_code == 404


def test_the_page_comes_with_the_package(client: TestClient) -> None:
    page = (files("vitreous") / "serve" / "page" / "index.html").read_text("utf-8")
    assert client.get("/").text == page


def test_what_is_told_of_models_examples_and_health_is_as_described(client: TestClient) -> None:
    models = answers.Models.model_validate(client.get("/v1/models").json())
    assert [model.name for model in models.models] == ["run", "vit", "cnn", "vit.onnx"]
    assert [model.kind for model in models.models] == ["spectrum", "image", "image", "image"]
    assert models.models[1].white == 1.0
    assert models.models[3].maps == []
    examples = answers.Examples.model_validate(client.get("/v1/examples").json())
    assert [pattern.name for pattern in examples.patterns] == ["triclinic", "thiosulfate"]
    assert {sample.model for sample in examples.samples} == {"run", "vit", "cnn"}
    for sample in examples.samples:
        reply = client.post("/v1/predict", json={"model": sample.model, "samples": [sample.sample]})
        assert reply.status_code == 200
    answers.Health.model_validate(client.get("/healthz").json())


def test_metrics_count_answers_batches_and_what_waits() -> None:
    client, _ = sums_client()
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


def test_a_fault_of_ours_is_logged_without_what_was_sent(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, sums = sums_client()

    def fails(*_: Any) -> None:
        raise RuntimeError("the secret 12345.678 of a client")

    monkeypatch.setattr(type(sums), "__call__", fails)
    with client, caplog.at_level(logging.DEBUG):
        reply = client.post("/v1/predict", json={"samples": [[1, 2, 3, 4, 12345.678]]})
    assert reply.status_code == 500
    assert reply.json() == {"error": "an error of the service; it has been logged"}
    assert "RuntimeError in fails" in caplog.text
    assert "12345" not in caplog.text
