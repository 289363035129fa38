"""Patterns of requests: an example, numbers, or a file; how worker processes read and check them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.data import Upload
from vitreous.powder.example import EXAMPLES, example
from vitreous.powder.files import FORMATS, ReadOptions, read_pattern
from vitreous.powder.pattern import Pattern, pattern_from_arrays
from vitreous.serve.arrays import thin_curve, to_json
from vitreous.serve.errors import RequestError
from vitreous.serve.limits import Limits
from vitreous.serve.requests import PatternFields, PatternNumbers
from vitreous.serve.uploads import check_file, from_bytes, to_bytes
from vitreous.serve.workers import JobResult

MAX_TICKS = 400
"""Reflections of a phase or a cell in a response."""
_MAX_POINTS = 20_000  # of a curve in a response
_NOT_WITH_EXAMPLE = ("peaks", "anode", "wavelength", "neutrons")


class ReadSettings(Protocol):
    """The radiation that a request states, and how its file is to be read."""

    @property
    def wavelength(self) -> float | None: ...
    @property
    def anode(self) -> str | None: ...
    @property
    def reading(self) -> ReadOptions: ...


@dataclass(frozen=True)
class PatternFile:
    """A file with a pattern."""

    file: Upload
    options: ReadSettings
    limits: Limits

    def read(self) -> JobResult:
        """Read the fields of a `Pattern`: columns of numbers as an NPY file, the others as a record."""
        with without_dashes_in_errors():
            fields = self.fields()
        columns = {name: values for name, values in fields.items() if isinstance(values, np.ndarray)}
        record = {name: value for name, value in fields.items() if name not in columns}
        return record | {"columns": list(columns)}, to_bytes(np.stack(list(columns.values())))

    def fields(self) -> dict[str, Any]:
        """Read the fields of a `Pattern`."""
        check_file(self.file, FORMATS, self.limits)
        options = self.options
        pattern = read_pattern(self.file, options.wavelength, options.anode, **vars(options.reading))
        return vars(_check_points(pattern, self.limits))


def fields_of_file(record: dict[str, Any], content: bytes) -> dict[str, Any]:
    """Return what `PatternFile.fields` had returned in another process, from the result of `PatternFile.read`."""
    fields = record | dict(zip(record["columns"], from_bytes(content), strict=True))
    del fields["columns"]
    return fields


@dataclass(frozen=True)
class PatternJob:
    """Work on a pattern: an example, numbers, or what a `PatternFile` has read."""

    options: ReadSettings
    limits: Limits
    example: str | None = None
    pattern: Pattern | None = None
    two_theta: NDArray[np.float64] | None = None
    intensity: NDArray[np.float64] | None = None
    sigma: NDArray[np.float64] | None = None

    def load_pattern(self) -> Pattern:
        """Return the pattern."""
        if self.pattern is not None:
            return self.pattern
        if self.example is not None:
            return _check_points(example(self.example), self.limits)
        if self.two_theta is None or self.intensity is None:
            raise InputError("intensity: expected as many numbers as two_theta has")
        radiation = self.options.wavelength, self.options.anode, self.options.reading.neutrons
        return _check_points(pattern_from_arrays(self.two_theta, self.intensity, self.sigma, *radiation), self.limits)


def _check_points(pattern: Pattern, limits: Limits) -> Pattern:
    if len(pattern.two_theta) > limits.points:
        raise InputError(f"{pattern.name}: found {len(pattern.two_theta)} points, expected at most {limits.points}")
    return pattern


def read_options(request: PatternNumbers | PatternFields) -> ReadOptions:
    """Return how the pattern of a request is to be read."""
    neutrons = bool(getattr(request, "neutrons", False))
    if isinstance(request, PatternNumbers):
        return ReadOptions(neutrons=neutrons)
    return ReadOptions(request.axis, tuple(request.columns), request.scan, request.fixed_angle, neutrons)


def pattern_numbers(request: PatternNumbers) -> dict[str, Any]:
    """Return the example or the numbers of a request as fields of a `PatternJob`."""
    if (request.example is None) == (request.two_theta is None):
        raise InputError("example, two_theta: expected one of them")
    if request.example is not None:
        offered = [name for name in _NOT_WITH_EXAMPLE if name in type(request).model_fields]
        if any(getattr(request, name) for name in offered):
            omit = f"{', '.join(offered[:-1])} and {offered[-1]}"
            raise InputError(f"example: the example states its radiation; omit {omit}")
        if request.example not in EXAMPLES:
            raise RequestError(404, f"example: expected one of: {', '.join(EXAMPLES)}")
    columns = {name: getattr(request, name) for name in ("two_theta", "intensity", "sigma")}
    numbers = {name: np.array(values) for name, values in columns.items() if values is not None}
    return {"example": request.example} | numbers


def thin_curves(source: object, main: str, *others: str) -> dict[str, Any]:
    """Return curves `(…, points)` by name, at few points that keep the peaks of the main one; 2θ comes first."""
    indices = thin_curve(getattr(source, main), _MAX_POINTS)
    return {name: to_json(getattr(source, name)[..., indices], 6) for name in ("two_theta", main, *others)}


def tick_records(hkl: NDArray[Any], angle: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Return positions of reflections in degrees, with their indices."""
    return [{"two_theta": x, "hkl": row} for x, row in zip(to_json(angle, 7), hkl.tolist(), strict=True)]


@contextmanager
def without_dashes_in_errors() -> Iterator[None]:
    """Rewrite the errors that are raised inside the block."""
    try:
        yield
    except InputError as error:
        raise InputError(without_dashes(str(error))) from None


def without_dashes(text: str) -> str:
    """Rewrite a message of the command line for the service: fields have no dashes."""
    return re.sub(r"--(\w[\w-]*)", lambda flag: flag[1].replace("-", "_"), text)
