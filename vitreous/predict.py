"""What the command predict does, apart from its flags: from files to records, by a run or an exported model.

torch is imported for those alone that need it; an ONNX model does not.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.batching import grouped
from vitreous.data import WHITE, Source, read, read_image_files
from vitreous.data.held import File
from vitreous.errors import InputError, check_choice
from vitreous.kind import translates
from vitreous.powder.files import read_pattern, to_grid
from vitreous.prediction import AnyPredictor
from vitreous.sim.grid import Q_AXIS
from vitreous.track import track


def load(path: str | PathLike[str], device: str = "cpu") -> AnyPredictor:
    """The predictor of a run folder, or of a file that `vitreous export` has made of one.

    Args:
        path: the folder, or an `.onnx` or `.safetensors` file.
        device: where a run or a `.safetensors` file computes, e.g. `cuda`; an `.onnx` file does on the CPU.
    """
    path = Path(path)
    if path.is_dir() or path.suffix not in _FILES:
        if path.is_file():
            raise InputError(f"{path}: is neither a run folder nor a file of these: {', '.join(_FILES)}")
        return _run(path, device)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    return _FILES[path.suffix](path, device)


def _run(path: Path, device: str) -> AnyPredictor:
    from vitreous.train.predictor import load as load_run

    return load_run(path, device)


def _onnx(path: Path, device: str) -> AnyPredictor:
    from vitreous.export.session import load_onnx

    if device != "cpu":
        raise InputError(f"device: found {device!r}, but {path} is an ONNX model, which computes on the cpu")
    return load_onnx(path)


def _one_file(path: Path, device: str) -> AnyPredictor:
    from vitreous.export.one_file import load_file

    return load_file(path, device)


_FILES: dict[str, Callable[[Path, str], AnyPredictor]] = {".onnx": _onnx, ".safetensors": _one_file}


def predict(
    model: Path,
    files: Sequence[str | Path],
    coverage: float | None,
    anode: str | None = None,
    wavelength: float | None = None,
    merge: Sequence[int] = (),
) -> list[dict[str, Any]]:
    """One record for every sample of the files; `anode` or `wavelength` (Å) are for powder patterns.

    A run that translates takes texts in place of files.
    """
    if translates(model):
        others = {"interval": coverage, "anode": anode, "wavelength": wavelength, "merge": merge}
        return _translate(model, files, others)
    predictor = load(model)
    batches = inputs(predictor, model, [Path(file) for file in files], anode, wavelength)
    with predictor.merging(merge):
        return [
            {"sample": name, **row}
            for names, samples in track(batches, "predicting")
            for name, row in zip(names, predictor(samples, coverage).rows(), strict=True)
        ]


def _translate(run: Path, texts: Sequence[str | Path], others: Mapping[str, object]) -> list[dict[str, Any]]:
    from vitreous.texts import refuse, translate

    refuse(run, others)
    return translate(run, [str(text) for text in texts])


def takes_patterns(predictor: AnyPredictor) -> bool:
    """Whether its samples are powder patterns along the scattering vector."""
    return [(axis.name, axis.unit) for axis in predictor.axes] == [(Q_AXIS.name, Q_AXIS.unit)]


def inputs(
    predictor: AnyPredictor, model: str | Path, files: Sequence[File], anode: str | None, wavelength: float | None,
    pixels: int | None = None, points: int | None = None,
) -> Iterator[tuple[list[str], NDArray[Any]]]:  # fmt: skip
    """Names and samples of the files, as the model takes them, no more at a time than memory is sure to hold.

    Args:
        predictor: of the model.
        model: its name, for messages.
        files: images, patterns or spectra.
        anode, wavelength: for powder patterns, in place of what the files say.
        pixels, points: the most that an image, and a pattern or spectrum, may have.
    """
    if takes_patterns(predictor):
        for part in grouped(files):
            yield (
                [str(file) for file in part],
                np.stack([_on_q(predictor, file, anode, wavelength, points) for file in part]),
            )
        return
    for name, value in (("anode", anode), ("wavelength", wavelength)):
        if value is not None:
            raise InputError(f"{name}: is for powder patterns; {model} was trained on {predictor.data}")
    if len(predictor.axes) == 2:
        channels, rows, columns = predictor.input
        for part in grouped(files):
            found = read_image_files(part, channels, (rows, columns), pixels).x
            yield [str(file) for file in part], _in_white(found, predictor.data)
        return
    for file in files:
        source = read(file)
        _check_points(file, source.x.shape[-1], points)
        for chosen in grouped(range(len(source))):
            some = Source(source.name, source.x[chosen.start : chosen.stop], None, source.axes, source.channels)
            yield [f"{file}:{row}" for row in chosen], predictor.on_axis(some)


def sample_at(
    row: int, batches: Iterable[tuple[list[str], NDArray[Any]]], file: str | File
) -> tuple[str, NDArray[Any]]:
    """Name and values of one sample of a file, counted from 0."""
    count = 0
    for names, samples in batches:
        if count <= row < count + len(names):
            return names[row - count], samples[row - count]
        count += len(names)
    raise InputError(f"row: found {row}, but {file} holds {count} sample(s), counted from 0")


def _in_white(x: NDArray[Any], data: str) -> NDArray[Any]:
    """Pixels as the built-in data have them, where a model was trained on those."""
    if data not in WHITE or x.dtype.kind != "u" or WHITE[data] == np.iinfo(x.dtype).max:
        return x
    return (x * (WHITE[data] / np.iinfo(x.dtype).max)).astype(np.float32)


def _check_points(file: File, found: int, most: int | None) -> None:
    if most is not None and found > most:
        raise InputError(f"{file}: found {found} points, expected {most} at most")


def _on_q(
    predictor: AnyPredictor, file: File, anode: str | None, wavelength: float | None, points: int | None
) -> NDArray[np.float64]:
    """A measured pattern on the model's grid of the scattering vector."""
    (axis,) = predictor.axes
    grid = axis.origin + axis.spacing * np.arange(predictor.input[1], dtype=np.float64)
    pattern = read_pattern(file, wavelength, anode)
    _check_points(file, len(pattern.two_theta), points)
    values = to_grid(pattern, grid)
    if not np.any(values > 0):
        raise InputError(f"{file}: has nothing from q = {grid[0]:g} to {grid[-1]:.4g} {axis.unit}, where the run looks")
    return values


def as_text(records: Sequence[dict[str, Any]], form: str) -> str:
    """Records as CSV or JSON."""
    check_choice("format", form, ("csv", "json"))
    if form == "json":
        return json.dumps(list(records), indent=1) + "\n"
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
