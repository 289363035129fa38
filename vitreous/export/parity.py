"""How far an exported model is from the run that it was made of, on a few samples in batches of two sizes."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vitreous.export.session import OnnxPredictor
from vitreous.prediction import Prediction
from vitreous.train.answers import Answers
from vitreous.train.predictor import Predictor

BATCHES = (1, 7)
TOLERANCE = 1e-3
"""Of float32, which is off by about 1e-6: more is a fault."""


def examples(predictor: Predictor, answers: Answers | None) -> NDArray[Any]:
    """Samples of the run's test part where it has kept some, else random ones of about the right height."""
    count, kept = max(BATCHES), None if answers is None else answers.samples
    if kept is not None and len(kept):
        return np.asarray(kept[np.arange(count) % len(kept)])
    rng, shape, scaling = np.random.default_rng(0), (count, *predictor.input), predictor.scaling
    if scaling.kind not in ("channel", "point"):
        return (rng.random(shape) ** 8).astype(np.float32)  # high in a few places, as spectra and patterns are
    extent = (-1, *[1] * (len(shape) - 2)) if scaling.kind == "channel" else predictor.input
    mean, deviation = (np.reshape(part, extent) for part in (scaling.mean, scaling.deviation))
    return np.asarray(mean + deviation * rng.normal(size=shape), dtype=np.float32)


def differences(predictor: Predictor, exported: Predictor | OnnxPredictor, samples: NDArray[Any]) -> dict[int, float]:
    """For each size of a batch, the largest difference: of an output, or of a quantity from what its outputs say."""
    return {size: _difference(predictor, exported, samples[:size]) for size in BATCHES}


def _difference(predictor: Predictor, exported: Predictor | OnnxPredictor, batch: NDArray[Any]) -> float:
    wanted, found = predictor.outputs(batch).numpy(), np.asarray(exported.outputs(batch))
    outputs = np.abs(found - wanted) / (1 + np.abs(wanted))
    said, meant = (_quantities(each) for each in (exported(batch), predictor.answer(torch.from_numpy(found))))
    told = np.abs(said - meant) / np.maximum(np.abs(meant), 1e-9)
    return float(np.maximum(outputs.max(), told.max()))  # which a NaN does not pass


def _quantities(answer: Prediction) -> NDArray[np.float64]:
    found = answer.probabilities if answer.values is None else answer.values
    assert found is not None
    return found
