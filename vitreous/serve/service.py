"""`Service`: the work behind each path, from validated requests to JSON."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.powder.example import EXAMPLES
from vitreous.powder.radiation import ANODES
from vitreous.run.prediction import not_finite
from vitreous.serve.body import LARGE_BODY, Body
from vitreous.serve.errors import RETRY_AFTER, RequestError
from vitreous.serve.explain import explain_options
from vitreous.serve.identifying import Identifier
from vitreous.serve.indexing import Indexer
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.models import Answer, Record, ServedModel
from vitreous.serve.requests import (
    ExplainFile,
    ExplainSample,
    IdentifyFile,
    IdentifyNumbers,
    IndexFile,
    IndexNumbers,
    PredictFiles,
    PredictSamples,
)  # fmt: skip
from vitreous.serve.responses import ClientLimits
from vitreous.serve.uploads import ReadJob, SampleFiles, check_row_count, from_bytes, read_upload
from vitreous.serve.workers import JobResult, WorkerPool

_READ_PROCESSES = 3


class Service:
    """Served models by name; searches for unit cells and phases unless `indexer` and `identifier` are None."""

    def __init__(
        self,
        models: Mapping[str, ServedModel],
        indexer: Indexer | None,
        limits: Limits,
        metrics: Metrics,
        identifier: Identifier | None = None,
    ) -> None:
        self.models, self.indexer, self.identifier, self.limits = models, indexer, identifier, limits
        self.readers = WorkerPool(
            read_upload, _READ_PROCESSES, limits.requests, limits.memory, finish_cancelled=True, spare=1
        )
        self.pools = [self.readers, *(each.workers for each in (indexer, identifier) if each)]
        metrics.waiting.labels("files").set_function(lambda: self.readers.waiting)

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Start the worker processes; at the end, answer waiting requests and stop them."""
        for pool in self.pools:
            pool.revive()
        await asyncio.to_thread(self.describe)  # imports the modules for explanations
        yield
        for model in self.models.values():
            await asyncio.to_thread(model.close)
        for pool in self.pools:
            pool.close()

    @property
    def ready(self) -> bool:
        """Whether all worker processes run."""
        return False not in [pool.revive() for pool in self.pools]

    def find_model(self, name: str | None) -> ServedModel:
        """Return a model by name; the name may be None if only one model is served."""
        if name is None and len(self.models) == 1:
            return next(iter(self.models.values()))
        message = f"model: expected one of: {', '.join(self.models)}"
        if name is None:
            raise InputError(message)
        if name not in self.models:
            raise RequestError(404, message)
        return self.models[name]

    async def predict(self, body: Body[PredictSamples, PredictFiles]) -> Response:
        """Predict all samples of a request."""
        request = body.request
        model = self.find_model(request.model)
        model.check_coverage(request.coverage)
        if isinstance(request, PredictSamples):
            samples = await self._to_samples(model, request.samples, body.size)
            counts = [len(samples)]
        else:
            samples, counts = await self._read_files(model, body, request)
        rows = await asyncio.gather(*map(asyncio.wrap_future, model.predict(samples, request.coverage, body.client)))
        places = [{"file": file, "row": row} for file, count in enumerate(counts) for row in range(count)]
        about = {name: model.about[name] for name in ("task", "targets", "classes")}
        return JSONResponse(
            {"model": model.name, "coverage": request.coverage, **about}
            | {"rows": [place | _unwrap(row, place) for place, row in zip(places, rows, strict=True)]}
        )

    async def explain(self, body: Body[ExplainSample, ExplainFile]) -> Response:
        """Compute attribution maps of one sample."""
        request = body.request
        model = self.find_model(request.model)
        options = explain_options(model.predictor, model.name, request)
        if isinstance(request, ExplainSample):
            row, samples = 0, await self._to_samples(model, [request.sample], body.size)
        else:
            body.one_file()
            row, (samples, _) = request.row, await self._read_files(model, body, request)
            if row >= len(samples):
                raise InputError(f"row: found {row}, but the file has {len(samples)} sample(s), counted from 0")
        place = {"file": 0, "row": row}
        record = _unwrap(await asyncio.wrap_future(model.explain(samples[row], options, body.client)), place)
        return JSONResponse({"model": model.name} | record | {"row": place | record["row"]})

    async def index(self, body: Body[IndexNumbers, IndexFile]) -> Response:
        """Find the unit cells of a powder pattern."""
        if self.indexer is None:
            raise RequestError(404, "index: not served; start the service with --powder")
        return Response(await self.indexer.index(body, self._read), media_type="application/json")

    async def identify(self, body: Body[IdentifyNumbers, IdentifyFile]) -> Response:
        """Identify the phases of a powder pattern, and their amounts."""
        if self.identifier is None:
            raise RequestError(404, "identify: not served; start the service with --database FILE")
        return Response(await self.identifier.identify(body, self._read), media_type="application/json")

    def describe(self) -> Record:
        """Return the content of `/v1/models`."""
        return {
            "models": [model.about for model in self.models.values()],
            "powder": self.indexer.about if self.indexer else None,
            "database": self.identifier.about if self.identifier else None,
            "anodes": list(ANODES),
            "limits": {name: getattr(self.limits, name) for name in ClientLimits.model_fields},
        }

    def list_examples(self) -> Record:
        """Return the content of `/v1/examples`."""
        patterns = EXAMPLES if self.indexer else {}
        return {
            "patterns": [{"name": name, "about": about} for name, about in patterns.items()],
            "samples": [record for model in self.models.values() for record in model.examples],
        }

    async def _to_samples(self, model: ServedModel, values: list[Any], size: int) -> NDArray[Any]:
        """Convert the numbers of a request to samples that the model takes."""
        check_row_count(len(values), self.limits)
        if size < LARGE_BODY:
            return _check_samples(model, values)
        return await asyncio.to_thread(_check_samples, model, values)

    async def _read_files(
        self, model: ServedModel, body: Body[Any, Any], request: PredictFiles | ExplainFile
    ) -> tuple[NDArray[Any], list[int]]:
        """Read files in a worker process; return all samples, and the number of samples of each file."""
        if not body.files:
            raise InputError("file: found none, expected one or more")
        check_row_count(len(body.files), self.limits)
        job = SampleFiles(model.reader, body.files, request.anode, request.wavelength, self.limits)
        record, content = await self._read(job, body.client)
        return from_bytes(content), record["counts"]

    async def _read(self, job: ReadJob, client: str) -> JobResult:
        """Read the files of a client in a worker process, which is killed if that takes too long."""
        try:
            return await self.readers.run(job, self.limits.read_seconds, client)
        except TimeoutError:
            message = f"file: was not read within {self.limits.read_seconds:g} s"
            raise RequestError(503, message, RETRY_AFTER) from None


def _check_samples(model: ServedModel, values: list[Any]) -> NDArray[Any]:
    try:
        # Check types first: an array of texts would take memory for the longest text in every element.
        samples = np.asarray(values) if _are_numbers(values) else None
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError):
        raise InputError("samples: found lists of unequal length or values that are not numbers") from None
    if samples is None:
        raise InputError("samples: found values that are not numbers, expected numbers")
    return model.predictor.check(samples)


def _are_numbers(values: list[Any]) -> bool:
    types = set(map(type, values))
    return types <= {int, float} or (types == {list} and all(map(_are_numbers, values)))


def _unwrap(answer: Answer, place: Mapping[str, int]) -> Record:
    if answer is None:
        raise not_finite(f"sample {place['row']}" + (f" of file {place['file']}" if place["file"] else ""))
    return answer
