"""Predict samples in files with a run or an exported model.

`predict_files` goes from files to records, `read_batches` reads files into the samples that a predictor takes, and
`format_records` writes records as CSV or JSON. torch is imported only by models that need it; ONNX models do not.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.batching import split_into_batches
from vitreous.core.errors import InputError, check_choice
from vitreous.core.terminal import track
from vitreous.data import BUILTIN, WHITE, Source, read, read_image_files
from vitreous.data.uploads import InputFile
from vitreous.powder.files import read_pattern
from vitreous.powder.files.reading import AS_IN_FILE, ReadOptions
from vitreous.powder.grid import Q_AXIS
from vitreous.powder.pattern import to_grid
from vitreous.run.familiarity import UNFAMILIAR
from vitreous.run.load import load
from vitreous.run.prediction import AnyPredictor

_LISTED = 10  # rows in a warning
Files = Sequence[InputFile]
"""Paths or uploaded files."""
Batch = tuple[list[str], NDArray[Any]]
"""Names of samples and their values `(n, channels, *grid)`, or `(n, *grid)` for one channel."""


def predict_files(
    model: str | Path,
    files: Sequence[str | Path],
    coverage: float | None = None,
    anode: str | None = None,
    wavelength: float | None = None,
    merge: Sequence[int] = (),
    reading: ReadOptions = AS_IN_FILE,
) -> list[dict[str, Any]]:
    """Predict every sample in the files and return one record per sample.

    Args:
        model: run folder or exported model file.
        files: images, powder patterns (one sample each) or files of spectra (one sample per row).
        coverage: coverage of prediction intervals, e.g. 0.9; None for no intervals.
        anode, wavelength: X-ray tube anode of powder patterns, e.g. Cu, or wavelength in ångström; they replace the
            radiation stated in the files.
        merge: number of tokens that each block merges.
        reading: axis, columns and scans of powder patterns.
    """
    predictor = load(Path(model))
    batches = read_batches(predictor, [Path(file) for file in files], anode, wavelength, reading=reading)
    with predictor.merging(merge):
        return [
            {"sample": name, **row}
            for names, samples in track(batches, "predicting")
            for name, row in zip(names, predictor(samples, coverage).rows(), strict=True)
        ]


def describe_unfamiliar(records: Sequence[dict[str, Any]]) -> str:
    """Say which records are of samples unlike the training data; empty if none are."""
    rows = [i for i, record in enumerate(records) if record.get("familiarity", 1.0) < UNFAMILIAR]
    if not rows:
        return ""
    listed = ", ".join(map(str, rows[:_LISTED])) + (", …" if len(rows) > _LISTED else "")
    one = "sample is" if len(records) == 1 else "samples are"
    verdict = f"{one} unlike the training data (familiarity below {UNFAMILIAR:g})"
    return f"{len(rows)} of {len(records)} {verdict}: row{'s' if len(rows) > 1 else ''} {listed}"


def takes_patterns(predictor: AnyPredictor) -> bool:
    """Return whether a predictor takes powder patterns along the scattering vector q."""
    return [(axis.name, axis.unit) for axis in predictor.axes] == [(Q_AXIS.name, Q_AXIS.unit)]


def read_batches(
    predictor: AnyPredictor,
    files: Files,
    anode: str | None = None,
    wavelength: float | None = None,
    max_pixels: int | None = None,
    max_points: int | None = None,
    reading: ReadOptions = AS_IN_FILE,
) -> Iterator[Batch]:
    """Read files into batches of samples that the predictor takes; a batch is small enough for memory.

    Args:
        predictor: decides whether files are read as powder patterns, images or spectra.
        anode, wavelength: radiation of powder patterns, as in `predict_files`.
        max_pixels, max_points: largest number of pixels of an image and of points of a pattern or spectrum.
        reading: axis, columns and scans of powder patterns.
    """
    if takes_patterns(predictor):
        return _read_patterns(predictor, files, {"wavelength": wavelength, "anode": anode, **vars(reading)}, max_points)
    for name, value in {"anode": anode, "wavelength": wavelength, **vars(reading)}.items():
        if value not in (None, (), False):
            raise InputError(f"{name}: only for powder patterns; the model was trained on {predictor.data}")
    if len(predictor.axes) == 2:
        return _read_images(predictor, files, max_pixels)
    return _read_spectra(predictor, files, max_points)


def select_sample(batches: Iterable[Batch], row: int, file: str | InputFile) -> tuple[str, NDArray[Any]]:
    """Return name and values of one sample of a file's batches; rows count from 0."""
    count = 0
    for names, samples in batches:
        if count <= row < count + len(names):
            return names[row - count], samples[row - count]
        count += len(names)
    raise InputError(f"row: found {row}, but {file} has {count} sample(s), counted from 0")


def read_sample(
    predictor: AnyPredictor, file: str, row: int = 0, anode: str | None = None, wavelength: float | None = None
) -> tuple[str, NDArray[Any]]:
    """Read one sample of a file or of built-in data; returns its name and its values.

    Args:
        file: path, or the name of built-in data.
        row: which sample, counted from 0.
        anode, wavelength: for powder patterns, as in `read_batches`.
    """
    if file not in BUILTIN:
        return select_sample(read_batches(predictor, [Path(file)], anode, wavelength), row, file)
    x = BUILTIN[file]().x
    return select_sample([([f"{file}:{i}" for i in range(len(x))], x)], row, file)


def format_records(records: Sequence[dict[str, Any]], format: str) -> str:
    """Format records as `csv` or `json` text."""
    check_choice("format", format, ("csv", "json"))
    if format == "json":
        return json.dumps(list(records), indent=1) + "\n"
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def _read_patterns(
    predictor: AnyPredictor, files: Files, options: dict[str, Any], max_points: int | None
) -> Iterator[Batch]:
    """Read one powder pattern per file and resample it to the model's grid of q."""
    (axis,) = predictor.axes
    grid = axis.origin + axis.spacing * np.arange(predictor.input[1], dtype=np.float64)

    def read_values(file: InputFile) -> NDArray[np.float64]:
        pattern = read_pattern(file, **options)
        _check_points(file, len(pattern.two_theta), max_points)
        values = to_grid(pattern, grid)
        if not np.any(values > 0):
            span = f"q = {grid[0]:g} to {grid[-1]:.4g} {axis.unit}"
            raise InputError(f"{file}: no intensity from {span}, the range that the model takes")
        return values

    for group in split_into_batches(files):
        yield [str(file) for file in group], np.stack([read_values(file) for file in group])


def _read_images(predictor: AnyPredictor, files: Files, max_pixels: int | None) -> Iterator[Batch]:
    """Read one image per file at the model's size."""
    channels, rows, columns = predictor.input
    for group in split_into_batches(files):
        images = read_image_files(group, channels, (rows, columns), max_pixels).x
        yield [str(file) for file in group], _scale_white(images, predictor.data)


def _read_spectra(predictor: AnyPredictor, files: Files, max_points: int | None) -> Iterator[Batch]:
    """Read every row of files of spectra."""
    for file in files:
        source = read(file)
        _check_points(file, source.x.shape[-1], max_points)
        for rows in split_into_batches(range(len(source))):
            part = Source(source.name, source.x[rows.start : rows.stop], None, source.axes, source.channels)
            yield [f"{file}:{row}" for row in rows], predictor.on_axis(part)


def _scale_white(images: NDArray[Any], data: str) -> NDArray[Any]:
    """Scale integer pixels to the white level of the built-in data that the model was trained on."""
    if data not in WHITE or images.dtype.kind != "u" or WHITE[data] == np.iinfo(images.dtype).max:
        return images
    return (images * (WHITE[data] / np.iinfo(images.dtype).max)).astype(np.float32)


def _check_points(file: InputFile, count: int, most: int | None) -> None:
    if most is not None and count > most:
        raise InputError(f"{file}: found {count} points, expected at most {most}")
