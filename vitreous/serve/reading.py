"""Uploaded files to samples, in a process of its own."""

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitreous.data import Axis, Held
from vitreous.errors import InputError, check_choice
from vitreous.powder.files import FORMATS as PATTERNS
from vitreous.predict import inputs, takes_patterns
from vitreous.prediction import AnyPredictor, Prediction
from vitreous.serve.limits import Limits
from vitreous.serve.workers import Told

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".npy")
SPECTRA = (".csv", ".npy", ".npz")
_ZIPS = (".npz", ".rasx", ".brml")


@dataclass(frozen=True)
class Taken:
    """What a model takes, without the model."""

    name: str
    input: tuple[int, ...]
    axes: tuple[Axis, ...]
    channels: tuple[str, ...]
    data: str
    shorter: bool

    @property
    def kind(self) -> str:
        """Of its samples: image, spectrum, pattern, set or volume."""
        if self.shorter:
            return "set"
        if takes_patterns(_Reader(self)):
            return "pattern"
        return {1: "spectrum", 2: "image"}.get(len(self.axes), "volume")

    @property
    def formats(self) -> tuple[str, ...]:
        """Suffixes of the files that hold such samples."""
        return {"image": IMAGES, "pattern": PATTERNS, "volume": ()}.get(self.kind, SPECTRA)


class _Reader(AnyPredictor):
    """A predictor that can read and check, and answer nothing."""

    def __init__(self, taken: Taken) -> None:
        super().__init__(taken.input, taken.axes, taken.channels, taken.data, taken.shorter)

    def __call__(self, x: ArrayLike, coverage: float | None = None) -> Prediction:
        raise NotImplementedError


@dataclass(frozen=True)
class Reading:
    """Files to be read for a model."""

    taken: Taken
    files: Sequence[Held]
    anode: str | None
    wavelength: float | None
    limits: Limits


def read_samples(job: Reading) -> Told:
    """Samples `(n, channels, *grid)` as the bytes of an NPY file, and how many each file holds."""
    reader, limits, kind = _Reader(job.taken), job.limits, job.taken.kind
    for file in job.files:
        check_file(file, job.taken.formats, limits)
    together = kind in ("image", "pattern")  # one a file
    counts, found = list[int](), list[NDArray[Any]]()
    for files in [job.files] if together else [[file] for file in job.files]:
        start = sum(map(len, found))
        for _, samples in inputs(
            reader, job.taken.name, files, job.anode, job.wavelength, limits.pixels, limits.points
        ):  # fmt: skip
            found.append(reader.check(samples))
            check_rows(sum(map(len, found)), limits)
        counts += [1] * len(files) if together else [sum(map(len, found)) - start]
    if len({part.shape[1:] for part in found}) > 1:
        raise InputError("file: found samples of different shapes; send files of one shape together")
    content = io.BytesIO()
    np.save(content, np.concatenate(found), allow_pickle=False)
    return {"counts": counts}, content.getvalue()


def samples_of(content: bytes) -> NDArray[Any]:
    """The inverse, for those who asked."""
    samples: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    return samples


def check_rows(found: int, limits: Limits) -> None:
    if found > limits.rows:
        raise InputError(f"samples: found {found} or more, expected {limits.rows} at most in a request")


def check_file(file: Held, formats: Sequence[str], limits: Limits) -> None:
    """A known format that unpacks to no more than it may, with no more lines and columns than can be right."""
    check_choice(f"{file}: file type", file.suffix, formats)
    if file.suffix in _ZIPS:
        try:
            with zipfile.ZipFile(file.open()) as archive:
                size = sum(member.file_size for member in archive.infolist())
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as fault:
            raise InputError(f"{file}: not an archive, or damaged ({type(fault).__name__})") from None
        if size > limits.unpacked:
            raise InputError(f"{file}: unpacks to {size} bytes, expected {limits.unpacked} at most")
    if file.suffix == ".csv" and formats is SPECTRA:
        first = file.content.lstrip()[: 64 * limits.points].partition(b"\n")[0]
        if max(map(first.count, (b",", b";", b"\t"))) > limits.points:
            raise InputError(f"{file}: found more than {limits.points} columns")
        check_rows((file.content.count(b"\n") - 100) // 4, limits)  # of which most may be empty
