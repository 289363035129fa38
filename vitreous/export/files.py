"""Write the model of a run to one file, after comparing its predictions with those of the run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vitreous.core.atomic import scratch_folder, write_atomically
from vitreous.core.errors import InputError, check_choice
from vitreous.export.int8 import to_int8
from vitreous.export.onnx_file import to_onnx
from vitreous.export.parity import ExportedPredictor, check_parity, example_samples, max_differences
from vitreous.run.answers import read_answers
from vitreous.run.one_file import load_file, to_file
from vitreous.run.onnx import open_onnx
from vitreous.run.predictor import Predictor, load

SUFFIXES = {"onnx": ".onnx", "torch": ".safetensors"}


@dataclass(frozen=True)
class Exported:
    """A model as the content of a file.

    Args:
        content: of the file.
        predictor: that uses the file.
        parity: the largest difference from the run, by batch size.
    """

    content: bytes
    predictor: ExportedPredictor
    parity: dict[int, float]


def export_run(
    run: Path,
    path: Path,
    form: str = "onnx",
    calibration: NDArray[Any] | None = None,
    predictor: Predictor | None = None,
) -> Exported:
    """Write the model of a run to one file; nothing is written if its predictions differ from those of the run.

    Args:
        run: folder of the run.
        path: the file: .onnx, or .safetensors for form = torch.
        form: onnx | torch.
        calibration: training samples `(n, channels, *grid)`; if given, the ONNX file is quantised to int8.
        predictor: of the run, if it is already loaded.
    """
    check_path(path, form)
    if calibration is not None and form != "onnx":
        raise InputError(f"int8: found format {form}, expected onnx")
    predictor = predictor or load(run)
    samples = example_samples(predictor, read_answers(run))
    exported = _export(predictor, form, samples)
    if calibration is not None:
        content = to_int8(exported.content, predictor, calibration)
        quantised = open_onnx(content)
        exported = Exported(content, quantised, max_differences(predictor, quantised, samples))
    write_atomically(path, exported.content)
    return exported


def check_path(path: Path, form: str) -> None:
    """Raise `InputError` unless the file has the suffix of the format and its folder exists."""
    check_choice("format", form, SUFFIXES)
    if path.suffix != SUFFIXES[form]:
        raise InputError(f"{path}: found {path.suffix or 'no suffix'!r}, expected a file that ends in {SUFFIXES[form]}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: cannot be written (there is no folder {path.parent})")
    if path.is_dir():
        raise InputError(f"{path}: cannot be written (it is a folder)")


def compare_scores(
    predictor: Predictor, exported: ExportedPredictor, x: NDArray[Any], y: NDArray[Any]
) -> dict[str, tuple[float, float]]:
    """Scores of the run and of the exported model on labelled samples, by name of the score."""
    task = predictor.task
    truth = task.encode(y)
    before = task.metrics(predictor.outputs(x), truth)
    after = task.metrics(torch.from_numpy(np.asarray(exported.outputs(x))), truth)
    return {name: (before[name], after[name]) for name in before}


def _export(predictor: Predictor, form: str, samples: NDArray[Any]) -> Exported:
    write, read = _FORMATS[form]
    content = write(predictor)
    exported = read(content)
    return Exported(content, exported, check_parity(predictor, exported, samples))


def _read_file(content: bytes) -> Predictor:
    with scratch_folder() as folder:
        path = folder / "model.safetensors"
        path.write_bytes(content)
        return load_file(path)


_FORMATS: dict[str, tuple[Callable[[Predictor], bytes], Callable[[bytes], ExportedPredictor]]] = {
    "onnx": (to_onnx, open_onnx),
    "torch": (to_file, _read_file),
}
