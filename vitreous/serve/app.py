"""The ASGI application: routes from paths to the service, the docs and the page."""

import asyncio
import mimetypes
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from vitreous.serve import requests, responses
from vitreous.serve.body import Body, read_body
from vitreous.serve.clients import Pool
from vitreous.serve.errors import RETRY_AFTER, RequestError, to_request_error
from vitreous.serve.identify_response import IdentifyResponse
from vitreous.serve.identifying import Identifier
from vitreous.serve.indexing import Indexer
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.middleware import Middleware
from vitreous.serve.models import ServedModel
from vitreous.serve.openapi import ABOUT, describe_body, describe_responses, docs_page
from vitreous.serve.service import Service

Result = TypeVar("Result")
Schema = type[requests.RequestModel]
Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]
Handler = Callable[[Body[Any, Any]], Coroutine[Any, Any, Response]]
PAGE = Path(__file__).parent / "page"


def create_app(
    models: Mapping[str, ServedModel],
    indexer: Indexer | None,
    limits: Limits,
    metrics: Metrics,
    token: str = "",
    hosts: Collection[str] = (),
    page: Path = PAGE,
    identifier: Identifier | None = None,
) -> Middleware:
    """Create the ASGI application of a service of models by name, and of searches unless `indexer` is None.

    Args:
        token: token that clients must send; empty for none.
        hosts: host names that requests may use; empty for any.
        page: folder of the web page.
        identifier: identifies phases; None for none.
    """
    service = Service(models, indexer, limits, metrics, identifier)
    app = FastAPI(**ABOUT, docs_url=None, redoc_url=None, lifespan=service.lifespan)
    app.add_exception_handler(HTTPException, _error_response)
    endpoints = _add_post_routes(app, service, limits)
    _add_get_routes(app, service, metrics)
    _add_page(app, page)
    paths = {"/", "/docs", "/metrics", *app.openapi()["paths"]}
    return Middleware(_call_directly(app, endpoints), limits, metrics, token, hosts, paths)


def _call_directly(app: ASGIApp, endpoints: Mapping[str, Endpoint]) -> ASGIApp:
    """Call the POST endpoints without FastAPI's routing, which costs as much as a small prediction."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        endpoint = endpoints.get(scope["path"]) if is_post else None
        response = app if endpoint is None else await endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

    return call


def _add_post_routes(app: FastAPI, service: Service, limits: Limits) -> dict[str, Endpoint]:
    """Add the paths that take JSON or a form with files."""
    routes: dict[str, tuple[Handler, Schema, Schema, type[BaseModel]]] = {
        "predict": (service.predict, requests.PredictSamples, requests.PredictFiles, responses.PredictResponse),
        "explain": (service.explain, requests.ExplainSample, requests.ExplainFile, responses.ExplainResponse),
        "index": (service.index, requests.IndexNumbers, requests.IndexFile, responses.IndexResponse),
        "identify": (
            service.identify, requests.IdentifyNumbers, requests.IdentifyFile, IdentifyResponse,
        ),
    }  # fmt: skip
    endpoints = dict[str, Endpoint]()
    working = Pool("{} requests are in progress", limits.requests, limits.client_share)
    for name, (handler, json, form, response) in routes.items():
        seconds = limits.search_seconds if name in ("index", "identify") else limits.seconds
        endpoint = endpoints[f"/v1/{name}"] = _post_endpoint(handler, json, form, limits, seconds, working)
        app.router.add_api_route(
            f"/v1/{name}",
            endpoint,
            methods=["POST"],
            name=name,
            description=handler.__doc__,
            responses=describe_responses(response, 404, 408, 413, 415, 422, 429, 503),
            openapi_extra=describe_body(json, form, several_files=name == "predict"),
        )
    return endpoints


def _post_endpoint(
    handler: Handler, json: Schema, form: Schema, limits: Limits, seconds: float, working: Pool
) -> Endpoint:
    """Return the function that reads a request, handles it within its time limit, and responds."""

    async def respond(request: Request) -> Response:
        try:
            body = await read_body(request, json, form, limits)
            with working.claim(body.client, 1):  # not before: a slow body must not keep others out
                return await _run_for_client(handler(body), request, seconds)
        except Exception as error:
            return await _error_response(request, error)

    return respond


def _add_get_routes(app: FastAPI, service: Service, metrics: Metrics) -> None:
    @app.get("/v1/models", responses=describe_responses(responses.ModelsResponse), description="Served models.")
    async def models() -> Response:
        return JSONResponse(service.describe())

    @app.get("/v1/examples", responses=describe_responses(responses.ExamplesResponse), description="Example inputs.")
    async def examples() -> Response:
        return JSONResponse(await asyncio.to_thread(service.list_examples))

    @app.get("/healthz", responses=describe_responses(responses.HealthResponse), description="Status of the service.")
    async def health() -> Response:
        return JSONResponse({"status": "ok"})

    @app.get(
        "/readyz",
        responses=describe_responses(responses.HealthResponse, 503),
        description="Whether models and worker processes can answer requests.",
    )
    async def ready() -> Response:
        if not service.ready:
            return RequestError(503, "worker processes are starting; try again", RETRY_AFTER).response()
        return JSONResponse({"status": "ok"})

    @app.get("/metrics", include_in_schema=False)
    async def prometheus() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(docs_page(app.openapi()))


def _add_page(app: FastAPI, folder: Path) -> None:
    """Serve the files of a folder, read once so that no other file can be requested, and its index at `/`."""

    def endpoint(content: bytes, media_type: str) -> Callable[[], Coroutine[Any, Any, Response]]:
        async def send_file() -> Response:
            return Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})

        return send_file

    for file in folder.rglob("*"):
        path = file.relative_to(folder).as_posix()
        if file.is_file() and "/." not in f"/{path}":
            media_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
            for url in (path, "") if path == "index.html" else (path,):
                app.add_api_route(
                    f"/{url}", endpoint(file.read_bytes(), media_type), methods=["GET"], include_in_schema=False
                )


async def _run_for_client(work: Coroutine[Any, Any, Result], request: Request, seconds: float) -> Result:
    """Await work; cancel it if it exceeds its time or the client disconnects."""
    task, disconnect = asyncio.ensure_future(work), asyncio.ensure_future(request.receive())
    try:
        done, _ = await asyncio.wait({task, disconnect}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task in done:
            return task.result()
        raise ClientDisconnect if disconnect in done else TimeoutError
    finally:
        for future in (task, disconnect):
            future.cancel()
        await asyncio.gather(task, disconnect, return_exceptions=True)


async def _error_response(request: Request, error: Exception) -> Response:
    return to_request_error(error).response()
