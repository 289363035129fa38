"""`Indexer`: unit-cell searches in worker processes, behind a queue."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from vitreous.core.extras import load_extra
from vitreous.powder.files import FORMATS
from vitreous.powder.radiation import ANODES, radiation_from_user
from vitreous.serve.body import Body
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.patterns import PatternFile, fields_of_file, pattern_numbers, read_options
from vitreous.serve.requests import IndexFile, IndexNumbers
from vitreous.serve.uploads import ReadJob
from vitreous.serve.workers import JobResult, WorkerPool

Reader = Callable[[ReadJob, str], Awaitable[JobResult]]
"""Reads the files of a client in a worker process."""


class Indexer:
    """Answers `/v1/index`: checks requests and hands searches to worker processes."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        from vitreous.powder.search import LATTICES
        from vitreous.serve.index_worker import search

        for package in ("gemmi", "geddes"):
            load_extra(package, "powder")
        self._limits, self._systems = limits, tuple(LATTICES)
        self.workers = WorkerPool(search, limits.searches, limits.search_queue, limits.memory, spare=1)
        metrics.waiting.labels("searches").set_function(lambda: self.workers.waiting)

    @property
    def about(self) -> dict[str, Any]:
        """Description in `/v1/models`."""
        from vitreous.powder.projects import available_projects

        return {
            "formats": list(FORMATS),
            "anodes": list(ANODES),
            "systems": list(self._systems),
            "projects": list(available_projects()),
        }

    async def index(self, body: Body[IndexNumbers, IndexFile], read: Reader) -> bytes:
        """Search the unit cells of a pattern or a list of peaks; return the response as JSON.

        A file is read by `read`, not by the search processes: a file that takes long delays no search.
        """
        from vitreous.powder.indexing import IndexOptions
        from vitreous.powder.known import Known, parse_ranges
        from vitreous.powder.known_cell import parse_cell
        from vitreous.powder.search import lattice_systems
        from vitreous.serve.index_worker import PeakListFile, SearchJob

        request = body.request
        _check_programs(request.projects)
        lattice_systems(request.system or ())
        radiation_from_user(request.wavelength, request.anode, request.neutrons)
        systems = request.system or self._systems
        limits = (request.volume, request.range)
        volume, used = (None if each is None else (each[0], each[1]) for each in limits)
        cell = None if request.cell is None else parse_cell([str(x) for x in request.cell], request.system or ())
        known = Known(
            volume, used, parse_ranges(request.exclude or ()), request.zero, request.standard, cell, request.density,
            request.formula,
        )  # fmt: skip
        options = IndexOptions(request.anode, request.wavelength, request.peaks, systems, request.most, known=known)
        options = replace(options, reading=read_options(request))
        if isinstance(request, IndexNumbers):
            job = SearchJob(options, self._limits, **pattern_numbers(request))
        else:
            kind = PeakListFile if request.peaks else PatternFile
            content = await read(kind(body.one_file(), options, self._limits), body.client)
            job = SearchJob.from_file(options, self._limits, fields_of_file(*content))
        job = replace(job, projects=request.projects)
        _, answer = await self.workers.run(job, self._limits.search_seconds, body.client)
        return answer


def _check_programs(programs: Sequence[str]) -> None:
    from vitreous.powder.projects import available_projects

    if set(programs) - available_projects().keys():
        load_extra("rietx", "refine")  # says what is missing
