"""`Identifier`: phases of patterns, identified with a database in worker processes, behind a queue."""

from pathlib import Path
from typing import Any

from vitreous.powder.radiation import radiation_from_user
from vitreous.serve.body import Body
from vitreous.serve.indexing import Reader
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.patterns import PatternFile, fields_of_file, pattern_numbers, read_options
from vitreous.serve.requests import IdentifyFile, IdentifyNumbers
from vitreous.serve.workers import WorkerPool


class Identifier:
    """Answers `/v1/identify`: checks requests and hands patterns to worker processes, which map the database."""

    def __init__(self, database: Path, limits: Limits, metrics: Metrics) -> None:
        from vitreous.powder.identify.database import Database
        from vitreous.serve.identify_worker import identify

        self._path, self._limits = database, limits
        self.about: dict[str, Any] = {"name": database.name, "phases": Database.open(database).count}
        """Description in `/v1/models`."""
        mapped = -(-database.stat().st_size // 1_000_000)  # a mapped file counts as address space
        self.workers = WorkerPool(identify, limits.searches, limits.search_queue, limits.memory + mapped, spare=1)
        metrics.waiting.labels("identifications").set_function(lambda: self.workers.waiting)

    async def identify(self, body: Body[IdentifyNumbers, IdentifyFile], read: Reader) -> bytes:
        """Identify the phases of a pattern; return the response as JSON. A file is read by `read`."""
        from vitreous.powder.identify.identification import IdentifyOptions
        from vitreous.powder.pattern import Pattern
        from vitreous.serve.identify_worker import IdentifyJob, PatternSettings

        request = body.request
        radiation_from_user(request.wavelength, request.anode)
        settings = PatternSettings(request.wavelength, request.anode, read_options(request))
        if isinstance(request, IdentifyNumbers):
            data = pattern_numbers(request)
        else:
            file = PatternFile(body.one_file(), settings, self._limits)
            data = {"pattern": Pattern(**fields_of_file(*await read(file, body.client)))}
        wanted = IdentifyOptions(tuple(request.elements), tuple(request.exclude_elements), request.max_phases)
        job = IdentifyJob(settings, self._limits, **data, database=self._path, wanted=wanted)
        _, answer = await self.workers.run(job, self._limits.search_seconds, body.client)
        return answer
