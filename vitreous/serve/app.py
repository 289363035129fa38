"""The ASGI application: routes from paths to the service, the docs and the page."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from vitreous.core.version import __version__
from vitreous.serve import responses
from vitreous.serve.body import Body, read_body
from vitreous.serve.docs_page import docs_page
from vitreous.serve.errors import RequestError, to_request_error
from vitreous.serve.indexing import Indexer
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.middleware import Middleware
from vitreous.serve.models import ServedModel
from vitreous.serve.openapi import DESCRIPTION, TITLE, describe_body, describe_responses
from vitreous.serve.requests import (
    ExplainFile,
    ExplainSample,
    IndexFile,
    IndexNumbers,
    PredictFiles,
    PredictSamples,
    RequestModel,
)
from vitreous.serve.service import Service, encode_json
from vitreous.serve.static import PAGE, mount_page

Result = TypeVar("Result")
Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]
_CLIENT_CLOSED = 499  # appears only in the metrics: nobody receives the response


@dataclass(frozen=True)
class _PostRoute:
    """A path that takes JSON or a form with files."""

    path: str
    handler: Callable[[Body[Any, Any]], Coroutine[Any, Any, bytes]]
    json: type[RequestModel]
    form: type[RequestModel]
    response: type[BaseModel]
    seconds: float
    several_files: bool = False

    def endpoint(self, limits: Limits) -> Endpoint:
        """Return the function that reads a request, handles it within its time limit, and responds."""

        async def respond(request: Request) -> Response:
            try:
                async with asyncio.timeout(limits.seconds):
                    body = await read_body(request, self.json, self.form, limits)
                content = await _run_for_client(self.handler(body), request, self.seconds)
            except Exception as error:
                return _error_response(error)
            return Response(content, media_type="application/json")

        return respond


class _DirectRoutes:
    """Calls the POST endpoints without FastAPI's routing, which costs as much as a small prediction."""

    def __init__(self, app: ASGIApp, endpoints: Mapping[str, Endpoint]) -> None:
        self.app, self.endpoints = app, endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        endpoint = self.endpoints.get(scope["path"]) if is_post else None
        if endpoint is None:
            await self.app(scope, receive, send)
        else:
            response = await endpoint(Request(scope, receive, send))
            await response(scope, receive, send)


def create_app(
    models: Mapping[str, ServedModel],
    indexer: Indexer | None,
    limits: Limits,
    metrics: Metrics,
    token: str = "",
    hosts: Collection[str] = (),
    page: Traversable = PAGE,
) -> Middleware:
    """Create the ASGI application of a service.

    Args:
        models: models by name.
        indexer: searches for unit cells; None if they are not served.
        limits: limits of the service.
        metrics: metrics of the service.
        token: token that clients must send; empty for none.
        hosts: host names that requests may use; empty for any.
        page: folder of the web page.
    """
    service = Service(models, indexer, limits, metrics)
    app = FastAPI(
        title=TITLE,
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=service.lifespan,
    )
    app.add_exception_handler(HTTPException, _handle_error)
    endpoints = _add_post_routes(app, service, limits)
    _add_get_routes(app, service, metrics)
    mount_page(app, page)
    paths = {"/", "/docs", "/metrics", *app.openapi()["paths"]}
    return Middleware(_DirectRoutes(app, endpoints), limits, metrics, token, hosts, paths)


def _add_post_routes(app: FastAPI, service: Service, limits: Limits) -> dict[str, Endpoint]:
    seconds = limits.seconds
    routes = (
        _PostRoute(
            "/v1/predict", service.predict, PredictSamples, PredictFiles, responses.PredictResponse, seconds, True
        ),
        _PostRoute("/v1/explain", service.explain, ExplainSample, ExplainFile, responses.ExplainResponse, seconds),
        _PostRoute("/v1/index", service.index, IndexNumbers, IndexFile, responses.IndexResponse, limits.search_seconds),
    )
    endpoints = {route.path: route.endpoint(limits) for route in routes}
    for route in routes:
        app.router.add_api_route(
            route.path,
            endpoints[route.path],
            methods=["POST"],
            name=route.path.rpartition("/")[2],
            description=route.handler.__doc__,
            responses=describe_responses(route.response, 404, 413, 415, 422, 429, 503),
            openapi_extra=describe_body(route.json, route.form, route.several_files),
        )
    return endpoints


def _add_get_routes(app: FastAPI, service: Service, metrics: Metrics) -> None:
    def json_response(record: dict[str, Any]) -> Response:
        return Response(encode_json(record), media_type="application/json")

    @app.get("/v1/models", responses=describe_responses(responses.ModelsResponse), description="Served models.")
    async def models() -> Response:
        return json_response(service.describe())

    @app.get("/v1/examples", responses=describe_responses(responses.ExamplesResponse), description="Example inputs.")
    async def examples() -> Response:
        return json_response(await asyncio.to_thread(service.list_examples))

    @app.get("/healthz", responses=describe_responses(responses.HealthResponse), description="Status of the service.")
    async def health() -> Response:
        return json_response({"status": "ok"})

    @app.get("/metrics", include_in_schema=False)
    async def prometheus() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(docs_page(app.openapi()))


async def _run_for_client(work: Coroutine[Any, Any, Result], request: Request, seconds: float) -> Result:
    """Await work; cancel it if it exceeds its time or the client disconnects."""
    task, disconnect = asyncio.ensure_future(work), asyncio.ensure_future(request.receive())
    try:
        done, _ = await asyncio.wait({task, disconnect}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task in done:
            return task.result()
        raise RequestError(_CLIENT_CLOSED, "the client disconnected") if disconnect in done else TimeoutError
    finally:
        for future in (task, disconnect):
            future.cancel()
        await asyncio.gather(task, disconnect, return_exceptions=True)


def _error_response(error: Exception) -> Response:
    converted = to_request_error(error)
    return Response(converted.content, converted.status, converted.headers, "application/json")


async def _handle_error(request: Request, error: Exception) -> Response:
    return _error_response(error)
