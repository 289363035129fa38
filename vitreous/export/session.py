"""`OnnxPredictor`: a model exported to ONNX answers by onnxruntime, without torch."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitreous.batching import grouped
from vitreous.data.extras import load_extra
from vitreous.data.source import Axis, Target
from vitreous.errors import InputError, first_line
from vitreous.prediction import AnyPredictor, Prediction, quantities

ABOUT = "vitreous"
"""Under this name the file says, in JSON, what goes in and what comes out."""
VERSION = 1
_FATAL = 4  # onnxruntime's own messages; what it raises tells the same


class OnnxPredictor(AnyPredictor):
    """What `vitreous export` wrote as ONNX.

    Args:
        session: onnxruntime's, of the model.
        about: what the file says of itself.
    """

    def __init__(self, session: Any, about: dict[str, Any]) -> None:
        axes = [Axis(**axis) for axis in about["axes"]]
        super().__init__(about["input"], axes, about["channels"], about["data"], about["shorter"])
        self.session, self.precision, task = session, str(about["precision"]), about["task"]
        self.classes = tuple(task.get("classes", ()))
        self.targets = tuple(Target(**target) for target in task.get("targets", ()))
        self.scores = task.get("scores", ())

    def __call__(self, x: ArrayLike, coverage: float | None = None) -> Prediction:
        if self.classes:
            (probabilities,) = self._compute(x, ("probabilities",))
            return Prediction(self.classes, probabilities)
        values, uncertainty = self._compute(x, ("values", "uncertainty"))
        return quantities(self.targets, values, uncertainty, self.scores, coverage)

    def outputs(self, x: ArrayLike) -> NDArray[np.float32]:
        """The model's raw outputs, as a run's predictor gives them."""
        (out,) = self._compute(x, ("outputs",))
        return out

    def _compute(self, x: ArrayLike, names: Sequence[str]) -> list[NDArray[Any]]:
        """Some of the graph's outputs `(n, K)`."""
        samples, parts = self.check(x), list[list[NDArray[Any]]]()
        for batch in grouped(samples) if len(samples) else [samples]:
            try:
                parts.append(self.session.run(names, {"x": np.asarray(batch, np.float32)}))
            except Exception as fault:  # onnxruntime raises one of a dozen kinds
                place = sum(len(part[0]) for part in parts)
                raise InputError(f"the model fails on the samples from {place} on ({first_line(fault)})") from None
        return [np.concatenate(part) for part in zip(*parts, strict=True)]


def load_onnx(path: Path, threads: int = 0) -> OnnxPredictor:
    """The predictor of an ONNX file; `threads` to compute with, 0 for as many as there are cores."""
    try:
        return open_onnx(str(path), threads)
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from None


def open_onnx(model: str | bytes, threads: int = 0) -> OnnxPredictor:
    """The predictor of an ONNX model: a file's name, or its bytes."""
    runtime = load_extra("onnxruntime", "export")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, _FATAL
    try:
        session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as fault:  # on damaged bytes onnxruntime raises one of a dozen kinds
        raise InputError(f"cannot be read as an ONNX model ({first_line(fault)})") from None
    text = session.get_modelmeta().custom_metadata_map.get(ABOUT)
    if text is None:
        raise InputError("an ONNX model, but none that vitreous has exported")
    try:
        about = json.loads(text)
        if about["format"] != VERSION:
            raise InputError(f"was written in format {about['format']}, this version reads {VERSION}")
        return OnnxPredictor(session, about)
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        if isinstance(fault, InputError):
            raise
        raise InputError(f"what it says of itself is damaged ({type(fault).__name__}: {fault})") from None
