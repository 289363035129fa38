"""schemathesis generates valid and invalid requests from the OpenAPI description: never a 5xx."""

import warnings
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from starlette.testclient import TestClient

from tests.serve.clients import HOME

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis import GenerationMode, checks

PATHS = [
    ("/v1/predict", "POST"), ("/v1/explain", "POST"), ("/v1/index", "POST"), ("/v1/identify", "POST"),
    ("/v1/models", "GET"), ("/v1/examples", "GET"), ("/healthz", "GET"), ("/readyz", "GET"),
]  # fmt: skip
CHECKS = [
    checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
    checks.response_schema_conformance,
]  # fmt: skip


def send_requests(client: TestClient, path: str, method: str, mode: Any, count: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        api = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
        strategy = api[path][method].as_strategy(generation_mode=mode)

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(case=strategy)
    def check(case: Any) -> None:
        request = requests.Request(**case.as_transport_kwargs(base_url=HOME)).prepare()
        response = client.request(
            request.method, request.url, content=request.body or b"", headers=dict(request.headers)
        )  # fmt: skip
        case.validate_response(response, checks=CHECKS)

    check()


MODES = {"valid": GenerationMode.POSITIVE, "invalid": GenerationMode.NEGATIVE}


@pytest.mark.parametrize(  # a GET has no invalid requests
    ("path", "method", "mode"),
    [(*each, mode) for each in PATHS for mode in MODES if mode == "valid" or each[1] != "GET"],
)
def test_responses_match_the_description(path: str, method: str, mode: str, client: TestClient) -> None:
    send_requests(client, path, method, MODES[mode], 30 if method == "POST" else 2)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["valid", "invalid"])
@pytest.mark.parametrize(("path", "method"), PATHS[:4])
def test_a_thousand_responses_match_the_description(path: str, method: str, mode: Any, client: TestClient) -> None:
    send_requests(client, path, method, mode, 1000)


def test_every_path_is_tested(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert sorted((path, method.upper()) for path in paths for method in paths[path]) == sorted(PATHS)
