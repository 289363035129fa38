"""What the command predict does, apart from its flags: from files to records, by a run or an exported model.

torch is imported for those alone that need it; an ONNX model does not.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.data import read, read_image_files
from vitreous.errors import InputError, check_choice
from vitreous.kind import translates
from vitreous.powder.files import read_pattern, to_grid
from vitreous.prediction import AnyPredictor
from vitreous.sim.grid import Q_AXIS


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
    merge: int = 0,
) -> list[dict[str, Any]]:
    """One record for every sample of the files; `anode` or `wavelength` (Å) are for powder patterns.

    A run that translates takes texts in place of files.
    """
    if translates(model):
        others = {"interval": coverage, "anode": anode, "wavelength": wavelength, "merge": merge}
        return _translate(model, files, others)
    predictor = load(model)
    with predictor.merging(merge):
        return [
            {"sample": name, **row}
            for names, samples in inputs(predictor, model, [Path(file) for file in files], anode, wavelength)
            for name, row in zip(names, predictor(samples, coverage).rows(), strict=True)
        ]


def _translate(run: Path, texts: Sequence[str | Path], others: Mapping[str, object]) -> list[dict[str, Any]]:
    from vitreous.texts import refuse, translate

    refuse(run, others)
    return translate(run, [str(text) for text in texts])


def inputs(
    predictor: AnyPredictor, model: Path, files: Sequence[Path], anode: str | None, wavelength: float | None
) -> Iterator[tuple[list[str], NDArray[Any]]]:
    """Names and samples of the files, as the model takes them: together where they have one a file."""
    names = [str(file) for file in files]
    if [(axis.name, axis.unit) for axis in predictor.axes] == [(Q_AXIS.name, Q_AXIS.unit)]:
        yield names, np.stack([_on_q(predictor, file, anode, wavelength) for file in files])
        return
    for name, value in (("anode", anode), ("wavelength", wavelength)):
        if value is not None:
            raise InputError(f"{name}: is for powder patterns; {model} was trained on {predictor.data}")
    if len(predictor.axes) == 2:
        channels, *size = predictor.input
        yield names, read_image_files(names, channels=channels, size=(size[0], size[1])).x
        return
    for name in names:
        source = read(name)
        yield [f"{name}:{row}" for row in range(len(source))], predictor.on_axis(source)


def _on_q(predictor: AnyPredictor, file: Path, anode: str | None, wavelength: float | None) -> NDArray[np.float64]:
    """A measured pattern on the model's grid of the scattering vector."""
    (axis,) = predictor.axes
    grid = axis.origin + axis.spacing * np.arange(predictor.input[1], dtype=np.float64)
    pattern = read_pattern(file, wavelength, anode)
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
