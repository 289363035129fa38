"""Difference between the predictions of an exported model and those of its run, in batches of two sizes."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.run.answers import Answers
from vitreous.run.onnx import OnnxPredictor
from vitreous.run.prediction import Prediction
from vitreous.run.predictor import Predictor

ExportedPredictor = Predictor | OnnxPredictor
BATCHES = (1, 7)
TOLERANCE = 1e-3
"""Largest difference allowed in float32. Differences are usually about 1e-6."""


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
    theirs, ours = (_quantities(each) for each in (exported(batch), predictor.answer(torch.from_numpy(actual))))
    quantities = np.abs(theirs - ours) / np.maximum(np.abs(ours), 1e-9)
    return float(np.maximum(outputs.max(), quantities.max()))  # NaN if either is NaN


def _quantities(prediction: Prediction) -> NDArray[np.float64]:
    quantities = prediction.probabilities if prediction.values is None else prediction.values
    assert quantities is not None
    return quantities
