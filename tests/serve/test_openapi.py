"""schemathesis asks whatever the service's own description allows, and much that it does not: never a 5xx."""

import warnings
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from starlette.testclient import TestClient

from tests.serve.models import HOME

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis import GenerationMode, checks

PATHS = [
    ("/v1/predict", "POST"), ("/v1/explain", "POST"), ("/v1/index", "POST"), ("/v1/models", "GET"),
    ("/v1/examples", "GET"), ("/healthz", "GET"),
]  # fmt: skip
CHECKS = [
    checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
    checks.response_schema_conformance,
]  # fmt: skip


def trial(client: TestClient, path: str, method: str, mode: Any, count: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        api = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
        strategy = api[path][method].as_strategy(generation_mode=mode)

    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(case=strategy)
    def asks(case: Any) -> None:
        request = requests.Request(**case.as_transport_kwargs(base_url=HOME)).prepare()
        response = client.request(
            request.method, request.url, content=request.body or b"", headers=dict(request.headers)
        )  # fmt: skip
        case.validate_response(response, checks=CHECKS)

    asks()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["allowed", "forbidden"])
@pytest.mark.parametrize(("path", "method"), PATHS)
def test_the_service_keeps_to_its_description(path: str, method: str, mode: Any, client: TestClient) -> None:
    if method == "GET" and mode is GenerationMode.NEGATIVE:
        pytest.skip("there is nothing that could be forbidden")
    trial(client, path, method, mode, 30 if method == "POST" else 2)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["allowed", "forbidden"])
@pytest.mark.parametrize(("path", "method"), PATHS[:3])
def test_it_does_so_a_thousand_times(path: str, method: str, mode: Any, client: TestClient) -> None:
    trial(client, path, method, mode, 1000)


def test_every_path_is_tried(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert sorted((path, method.upper()) for path in paths for method in paths[path]) == sorted(PATHS)
