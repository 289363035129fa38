"""Reading uploaded files into samples, in a worker process."""

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitreous.core.errors import InputError, check_choice
from vitreous.data import Upload
from vitreous.powder.files import FORMATS as PATTERN_FORMATS
from vitreous.predict import read_batches, takes_patterns
from vitreous.run.prediction import AnyPredictor, Prediction
from vitreous.serve.limits import Limits
from vitreous.serve.workers import JobResult

IMAGE_FORMATS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".npy")
SPECTRUM_FORMATS = (".csv", ".npy", ".npz")
_ARCHIVES = (".npz", ".rasx", ".brml")


class InputReader(AnyPredictor):
    """The input of a model, without the model: it only reads and checks samples, and is small enough for a worker."""

    def __init__(self, predictor: AnyPredictor) -> None:
        super().__init__(predictor.input, predictor.axes, predictor.channels, predictor.data, predictor.shorter)

    def predict(self, x: ArrayLike, coverage: float | None = None) -> Prediction:
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """Kind of the samples: image, spectrum, pattern, set or volume."""
        if self.shorter:
            return "set"
        if takes_patterns(self):
            return "pattern"
        return {1: "spectrum", 2: "image"}.get(len(self.axes), "volume")

    @property
    def formats(self) -> tuple[str, ...]:
        """Suffixes of files that hold such samples."""
        return {"image": IMAGE_FORMATS, "pattern": PATTERN_FORMATS, "volume": ()}.get(self.kind, SPECTRUM_FORMATS)


class ReadJob(Protocol):
    """Files to read."""

    def read(self) -> JobResult:
        """Read the files; runs in a worker process."""
        ...


def read_upload(job: ReadJob) -> JobResult:
    """Read the files of a job."""
    return job.read()


@dataclass(frozen=True)
class SampleFiles:
    """Files to read for a model."""

    reader: InputReader
    files: Sequence[Upload]
    anode: str | None
    wavelength: float | None
    limits: Limits

    def read(self) -> JobResult:
        """Read files; return the number of samples of each, and all samples `(n, channels, *grid)` as an NPY file."""
        return _read_samples(self)


def _read_samples(job: SampleFiles) -> JobResult:
    reader, limits = job.reader, job.limits
    for file in job.files:
        check_file(file, reader.formats, limits)
    one_per_file = reader.kind in ("image", "pattern")
    counts, batches = list[int](), list[NDArray[Any]]()
    for files in [job.files] if one_per_file else [[file] for file in job.files]:
        start = sum(map(len, batches))
        for _, samples in read_batches(reader, files, job.anode, job.wavelength, limits.pixels, limits.points):
            batches.append(reader.check(samples))
            check_row_count(sum(map(len, batches)), limits)
        counts += [1] * len(files) if one_per_file else [sum(map(len, batches)) - start]
    if len({batch.shape[1:] for batch in batches}) > 1:
        raise InputError("file: found samples of different shapes; send files of one shape together")
    return {"counts": counts}, to_bytes(np.concatenate(batches))


def to_bytes(array: NDArray[Any]) -> bytes:
    """Return an array as an NPY file."""
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


def from_bytes(content: bytes) -> NDArray[Any]:
    """Return the array of an NPY file."""
    array: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    return array


def check_row_count(count: int, limits: Limits) -> None:
    """Raise `InputError` if a request has more samples than the limit."""
    if count > limits.rows:
        raise InputError(f"samples: found {count} or more, expected at most {limits.rows} per request")


def check_file(file: Upload, formats: Sequence[str], limits: Limits) -> None:
    """Check a file's format, its size after unpacking, and the rows and columns of a table, before reading it."""
    check_choice(f"{file}: file type", file.suffix, formats)
    if file.suffix in _ARCHIVES:
        try:
            with zipfile.ZipFile(file.open()) as archive:
                size = sum(member.file_size for member in archive.infolist())
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            raise InputError(f"{file}: not a ZIP archive, or damaged ({type(error).__name__})") from None
        if size > limits.unpacked:
            raise InputError(f"{file}: unpacks to {size} bytes, expected at most {limits.unpacked}")
    if file.suffix == ".csv" and formats is SPECTRUM_FORMATS:
        first = file.content.lstrip()[: 64 * limits.points].partition(b"\n")[0]
        if max(map(first.count, (b",", b";", b"\t"))) > limits.points:
            raise InputError(f"{file}: found more than {limits.points} columns")
        check_row_count((file.content.count(b"\n") - 100) // 4, limits)  # lenient: many lines may be empty
