"""Write the model of a run to one file, after comparing its predictions with those of the run in two batch sizes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vitreous.core.atomic import scratch_folder, write_atomically
from vitreous.core.checksums import NO_CHECKSUM, add_checksum
from vitreous.core.errors import InputError, check_choice
from vitreous.export.int8 import to_int8
from vitreous.export.onnx_file import to_onnx
from vitreous.run.answers import Answers, read_answers
from vitreous.run.embedding import check_answers
from vitreous.run.onnx import OnnxPredictor, open_onnx
from vitreous.run.predictor import Predictor, load, load_file
from vitreous.zoo.weights import to_safetensors

ExportedPredictor = Predictor | OnnxPredictor
SUFFIXES = {"onnx": ".onnx", "torch": ".safetensors"}
BATCHES = (1, 7)
TOLERANCE = 1e-3
"""Largest difference allowed in float32. Differences are usually about 1e-6."""


@dataclass(frozen=True)
class Exported:
    """A model as the content of a file, its predictor, and the largest difference from the run, by batch size."""

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
    check_answers(predictor.task, run)
    samples = example_samples(predictor, read_answers(run))
    content, exported = _TO_FORMAT[form](predictor)
    parity = check_parity(predictor, exported, samples)
    if calibration is not None:
        content = to_int8(content, predictor, calibration)
        exported = open_onnx(content)
        parity = max_differences(predictor, exported, samples)
    write_atomically(path, content)
    return Exported(content, exported, parity)


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


def example_samples(predictor: Predictor, answers: Answers | None) -> NDArray[Any]:
    """Test samples that the run stored, or else random samples of about the right scale."""
    count = max(BATCHES)
    if answers is not None and len(answers.samples):
        return np.asarray(answers.samples[np.arange(count) % len(answers.samples)])
    rng, shape, scaling = np.random.default_rng(0), (count, *predictor.input), predictor.scaling
    if scaling.kind not in ("channel", "point"):
        return (rng.random(shape) ** 8).astype(np.float32)  # high at a few points, like spectra and patterns
    extent = (-1, *[1] * (len(shape) - 2)) if scaling.kind == "channel" else predictor.input
    mean, deviation = (np.reshape(part, extent) for part in (scaling.mean, scaling.deviation))
    return np.asarray(mean + deviation * rng.normal(size=shape), dtype=np.float32)


def check_parity(predictor: Predictor, exported: ExportedPredictor, samples: NDArray[Any]) -> dict[int, float]:
    """The largest differences by batch size; `InputError` if one exceeds `TOLERANCE`."""
    differences = max_differences(predictor, exported, samples)
    for size, value in differences.items():
        if not value <= TOLERANCE:
            raise InputError(f"export: differs from the run by {value:.1e} at batch {size}, so nothing was written")
    return differences


def max_differences(predictor: Predictor, exported: ExportedPredictor, samples: NDArray[Any]) -> dict[int, float]:
    """The largest difference by batch size: of raw outputs, and of quantities from those outputs."""
    return {size: _max_difference(predictor, exported, samples[:size]) for size in BATCHES}


def _max_difference(predictor: Predictor, exported: ExportedPredictor, batch: NDArray[Any]) -> float:
    expected, actual = predictor.outputs(batch).numpy(), np.asarray(exported.outputs(batch))
    outputs = np.abs(actual - expected) / (1 + np.abs(expected))
    answers = exported(batch), predictor.answer(torch.from_numpy(actual))
    theirs, ours = (np.asarray(each.probabilities if each.values is None else each.values) for each in answers)
    quantities = np.abs(theirs - ours) / np.maximum(np.abs(ours), 1e-9)
    return float(np.maximum(outputs.max(), quantities.max()))  # NaN if either is NaN


def _to_onnx(predictor: Predictor) -> tuple[bytes, ExportedPredictor]:
    content = to_onnx(predictor)
    return content, open_onnx(content)


def _to_torch(predictor: Predictor) -> tuple[bytes, ExportedPredictor]:
    content = add_checksum(to_safetensors(predictor.model, more=predictor.about() | {"checksum": NO_CHECKSUM}))
    with scratch_folder() as folder:
        path = folder / "model.safetensors"
        path.write_bytes(content)
        return content, load_file(path)


_TO_FORMAT = {"onnx": _to_onnx, "torch": _to_torch}
