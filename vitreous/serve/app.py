"""The service itself: from paths to models, searches and the page."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from numpy.typing import NDArray
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from vitreous import __version__
from vitreous.batching import ClosedError, FullError
from vitreous.data import Held
from vitreous.errors import InputError, first_line
from vitreous.powder.example import EXAMPLES
from vitreous.powder.files import ANODES
from vitreous.serve import answers
from vitreous.serve.describe import ABOUT, TITLE, asks, responses
from vitreous.serve.explained import Wish, check_wish
from vitreous.serve.guard import Guard
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.pages import mount_page
from vitreous.serve.powder import Powder
from vitreous.serve.questions import ExplainFile, ExplainSample, IndexFile, IndexNumbers, PredictFiles, PredictSamples
from vitreous.serve.reading import Reading, check_rows, read_samples, samples_of
from vitreous.serve.reference import reference_page
from vitreous.serve.refused import AGAIN, RefusedError
from vitreous.serve.served import Record, Served
from vitreous.serve.upload import LARGE, Sent, question
from vitreous.serve.workers import Workers

Found = TypeVar("Found")
_log = logging.getLogger("vitreous.serve")
_READERS = 2  # processes that read files
_READING = 10.0  # seconds that this may take
_GONE = 499  # nobody hears it


class Service:
    """What is served, and how it is asked.

    Args:
        models: by name.
        powder: searches for cells, where they are served.
        limits, metrics: of the service.
    """

    def __init__(self, models: Mapping[str, Served], powder: Powder | None, limits: Limits, metrics: Metrics) -> None:
        self.models, self.powder, self.limits = models, powder, limits
        self.readers = Workers(read_samples, _READERS, limits.requests, limits.memory, patient=True)
        metrics.waiting("files", lambda: self.readers.waiting)

    @asynccontextmanager
    async def running(self, app: FastAPI) -> AsyncIterator[None]:
        """Have the processes up; in the end, answer what waits."""
        workers = [self.readers, *([self.powder.workers] if self.powder else [])]
        for each in workers:
            each.start()
        await asyncio.to_thread(self.about)  # loads what explanations need
        yield
        for model in self.models.values():
            await asyncio.to_thread(model.close)
        for each in workers:
            each.close()

    def model(self, name: str | None) -> Served:
        """The model that is asked for; where there is one only, it need not be named."""
        if name is None and len(self.models) == 1:
            return next(iter(self.models.values()))
        if name is None:
            raise InputError(f"model: expected one of: {', '.join(self.models)}")
        if name not in self.models:
            raise RefusedError(404, f"model: expected one of: {', '.join(self.models)}")
        return self.models[name]

    async def predict(self, sent: Sent[PredictSamples, PredictFiles]) -> bytes:
        """Answers to all samples of a request."""
        asked = sent.asked
        model = self.model(asked.model)
        model.check_coverage(asked.coverage)
        if isinstance(asked, PredictSamples):
            samples = await self._numbers(model, asked.samples, sent.size)
            counts = [len(samples)]
        else:
            samples, counts = await self._read(model, sent.files, asked)
        rows = await asyncio.gather(*map(asyncio.wrap_future, model.predict(samples, asked.coverage)))
        places = [{"file": file, "row": row} for file, count in enumerate(counts) for row in range(count)]
        about = model.about
        told = {name: about[name] for name in ("task", "targets", "classes")}
        return _json(
            {"model": model.name, "coverage": asked.coverage, **told}
            | {"rows": [place | _good(row) for place, row in zip(places, rows, strict=True)]}
        )

    async def explain(self, sent: Sent[ExplainSample, ExplainFile]) -> bytes:
        """Where a model looked in one sample."""
        asked = sent.asked
        model = self.model(asked.model)
        wish = Wish(asked.target, asked.maps, asked.heads, asked.layer)
        check_wish(model.predictor, model.name, wish)
        if isinstance(asked, ExplainSample):
            row, samples = 0, await self._numbers(model, [asked.sample], sent.size)
        else:
            if len(sent.files) != 1:
                raise InputError(f"file: found {len(sent.files)}, expected one")
            row, (samples, _) = asked.row, await self._read(model, sent.files, asked)
            if row >= len(samples):
                raise InputError(f"row: found {row}, but the file holds {len(samples)} sample(s), counted from 0")
        found = _good(await asyncio.wrap_future(model.explain(samples[row], wish)))
        return _json({"model": model.name} | found | {"row": {"file": 0, "row": row} | found["row"]})

    async def index(self, sent: Sent[IndexNumbers, IndexFile]) -> bytes:
        """The unit cells of a pattern."""
        if self.powder is None:
            raise RefusedError(404, "index: is not served; start the service with --powder")
        return await self.powder.index(sent.asked, sent.files)

    def about(self) -> Record:
        """What `/v1/models` says."""
        names = ("body", "points", "pixels", "rows", "seconds", "search_seconds")
        return {
            "models": [model.about for model in self.models.values()],
            "powder": self.powder.about if self.powder else None,
            "anodes": list(ANODES),
            "limits": {name: getattr(self.limits, name) for name in names},
        }

    def examples(self) -> Record:
        """What `/v1/examples` says."""
        patterns = EXAMPLES if self.powder else {}
        return {
            "patterns": [{"name": name, "about": about} for name, about in patterns.items()],
            "samples": [record for model in self.models.values() for record in model.examples],
        }

    async def _numbers(self, model: Served, samples: list[Any], size: int) -> NDArray[Any]:
        """Samples of a request as an array that the model takes."""
        check_rows(len(samples), self.limits)
        if size < LARGE:
            return _array(model, samples)
        return await asyncio.to_thread(_array, model, samples)

    async def _read(
        self, model: Served, files: list[Held], asked: PredictFiles | ExplainFile
    ) -> tuple[NDArray[Any], list[int]]:
        """Samples of files, and how many each holds."""
        if not files:
            raise InputError("file: found none, expected one or more")
        check_rows(len(files), self.limits)
        job = Reading(model.taken, files, asked.anode, asked.wavelength, self.limits)
        told, content = await self.readers.run(job, min(_READING, self.limits.seconds))
        return samples_of(content), told["counts"]


def _array(model: Served, samples: list[Any]) -> NDArray[Any]:
    try:  # of words an array would be as large as all with the longest's size
        found = np.asarray(samples) if _are_numbers(samples) else None
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError):
        raise InputError("samples: found lists of unequal length, or what is no number") from None
    if found is None:
        raise InputError("samples: found what is no number, expected numbers")
    return model.predictor.check(found)


def _are_numbers(samples: list[Any]) -> bool:
    kinds = set(map(type, samples))
    return kinds <= {int, float} or (kinds == {list} and all(map(_are_numbers, samples)))


def _good(row: Record | InputError) -> Record:
    if isinstance(row, InputError):
        raise row
    return row


def _json(found: Record) -> bytes:
    return json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


async def _within(seconds: float, request: Request, work: Coroutine[Any, Any, Found]) -> Found:
    """What the work gives; it is dropped where it takes too long, or the client has left."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(request.receive())
    try:
        done, _ = await asyncio.wait({task, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task in done:
            return task.result()
        raise RefusedError(_GONE, "the client has left") if gone in done else TimeoutError
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


class _Straight:
    """Past the framework to the endpoints that read their requests themselves, which is half of its cost."""

    def __init__(self, app: ASGIApp, endpoints: Mapping[str, Endpoint]) -> None:
        self.app, self.endpoints = app, endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = scope["type"] == "http" and scope["method"] == "POST"
        endpoint = self.endpoints.get(scope["path"]) if asked else None
        if endpoint is None:
            await self.app(scope, receive, send)
        else:
            response = await endpoint(Request(scope, receive, send))
            await response(scope, receive, send)


_REFUSALS: dict[type[Exception], Callable[[Exception], RefusedError]] = {
    RefusedError: lambda fault: fault if isinstance(fault, RefusedError) else RefusedError(500, ""),
    InputError: lambda fault: RefusedError(422, first_line(fault)),
    FullError: lambda fault: RefusedError(429, "too much is waiting already; try again", AGAIN),
    ClosedError: lambda fault: RefusedError(503, "the service is going down", AGAIN),
    TimeoutError: lambda fault: RefusedError(503, "no answer within the time limit; the work was dropped", AGAIN),
    HTTPException: lambda fault: _plain_refusal(fault),
}


def _plain_refusal(fault: Exception) -> RefusedError:
    assert isinstance(fault, HTTPException)
    return RefusedError(fault.status_code, str(fault.detail).lower(), fault.headers)


async def _refused(request: Request, fault: Exception) -> Response:
    """A fault as the client is told it; of one of ours, the log gets the kind and the place, and no data."""
    kind = next((kind for kind in _REFUSALS if isinstance(fault, kind)), None)
    if kind is None:
        at = fault.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        place = f"{at.tb_frame.f_code.co_name}:{at.tb_lineno}" if at else "?"
        _log.error("%s in %s", type(fault).__name__, place)
        told = RefusedError(500, "an error of the service; it has been logged")
    else:
        told = _REFUSALS[kind](fault)
    return Response(told.content, told.status, told.headers, "application/json")


def create_app(
    models: Mapping[str, Served],
    powder: Powder | None,
    limits: Limits,
    metrics: Metrics,
    token: str = "",
    hosts: Collection[str] = (),
) -> ASGIApp:
    """The whole service.

    Args:
        models: by name.
        powder: searches for cells, where they are served.
        limits, metrics: of the service.
        token: that clients must send; empty for none.
        hosts: names under which it may be called; none for any.
    """
    service = Service(models, powder, limits, metrics)
    app = FastAPI(
        title=TITLE, version=__version__, description=ABOUT, docs_url=None, redoc_url=None, lifespan=service.running
    )
    app.add_exception_handler(HTTPException, _refused)
    endpoints: dict[str, Endpoint] = {}

    def asking(
        path: str,
        work: Callable[[Any], Coroutine[Any, Any, bytes]],
        json: Any,
        form: Any,
        answer: Any,
        seconds: float,
        several: bool = False,
    ) -> None:
        async def respond(request: Request) -> Response:
            try:
                async with asyncio.timeout(limits.seconds):
                    sent = await question(request, json, form, limits)
                return Response(await _within(seconds, request, work(sent)), media_type="application/json")
            except Exception as fault:
                return await _refused(request, fault)

        endpoints[path] = respond
        app.router.add_api_route(
            path,
            respond,
            methods=["POST"],
            name=path.rpartition("/")[2],
            description=work.__doc__,
            responses=responses(answer, 404, 413, 415, 422, 429, 503),
            openapi_extra=asks(json, form, several),
        )

    asking(
        "/v1/predict", service.predict, PredictSamples, PredictFiles, answers.Predicted, limits.seconds, several=True
    )
    asking("/v1/explain", service.explain, ExplainSample, ExplainFile, answers.Explained, limits.seconds)
    asking("/v1/index", service.index, IndexNumbers, IndexFile, answers.Indexed, limits.search_seconds)

    @app.get("/v1/models", responses=responses(answers.Models), description="All that is served.")
    async def models_() -> Response:
        return Response(_json(service.about()), media_type="application/json")

    @app.get("/v1/examples", responses=responses(answers.Examples), description="Something to try each of them on.")
    async def examples() -> Response:
        return Response(_json(await asyncio.to_thread(service.examples)), media_type="application/json")

    @app.get("/healthz", responses=responses(answers.Health), description="Whether the service is up.")
    async def health() -> Response:
        return Response(_json({"status": "ok"}), media_type="application/json")

    @app.get("/metrics", include_in_schema=False)
    async def numbers() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(reference_page(app.openapi()))

    mount_page(app)
    paths = {"/", "/docs", "/metrics", *app.openapi()["paths"]}
    return Guard(_Straight(app, endpoints), limits, metrics, token, hosts, paths)
