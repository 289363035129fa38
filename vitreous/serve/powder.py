"""`Powder`: searches for unit cells behind a queue of their own."""

from typing import Any

from vitreous.data import Held
from vitreous.data.extras import load_extra
from vitreous.errors import InputError, check_choice
from vitreous.powder.example import EXAMPLES
from vitreous.powder.files import ANODES, FORMATS, given_radiation
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.questions import IndexFile, IndexNumbers
from vitreous.serve.refused import RefusedError
from vitreous.serve.workers import Workers


class Powder:
    """What `/v1/index` needs: processes that search, and how they are asked."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        from vitreous.powder.solve import LATTICES
        from vitreous.serve.cells import search

        for package in ("gemmi", "geddes"):
            load_extra(package, "powder")
        self._limits, self._systems = limits, tuple(LATTICES)
        self.workers = Workers(search, limits.searches, limits.search_queue, limits.memory)
        metrics.waiting("searches", lambda: self.workers.waiting)

    @property
    def about(self) -> dict[str, Any]:
        """What `/v1/models` says of it."""
        return {"formats": list(FORMATS), "anodes": list(ANODES), "systems": list(self._systems)}

    async def index(self, asked: IndexNumbers | IndexFile, files: list[Held]) -> bytes:
        """The answer, as JSON."""
        from vitreous.powder.indexing import Wanted
        from vitreous.serve.cells import Search

        for system in asked.system or ():
            check_choice("system", system, self._systems)
        given_radiation(asked.wavelength, asked.anode)
        wanted = Wanted(asked.anode, asked.wavelength, asked.peaks, asked.system or self._systems, asked.most)
        job = Search(wanted, self._limits, **(_numbers(asked) if isinstance(asked, IndexNumbers) else _file(files)))
        _, content = await self.workers.run(job, self._limits.search_seconds)
        return content


def _file(files: list[Held]) -> dict[str, Any]:
    if len(files) != 1:
        raise InputError(f"file: found {len(files)}, expected one")
    return {"file": files[0]}


def _numbers(asked: IndexNumbers) -> dict[str, Any]:
    if (asked.example is None) == (asked.two_theta is None):
        raise InputError("expected one of example and two_theta")
    if asked.example is not None and (asked.peaks or asked.anode or asked.wavelength):
        raise InputError("example: is a pattern that states its own radiation; leave peaks, anode and wavelength out")
    if asked.example is not None and asked.example not in EXAMPLES:
        raise RefusedError(404, f"example: expected one of: {', '.join(EXAMPLES)}")
    columns = {"two_theta": asked.two_theta, "intensity": asked.intensity, "sigma": asked.sigma}
    return {"example": asked.example} | {name: tuple(values) for name, values in columns.items() if values is not None}
