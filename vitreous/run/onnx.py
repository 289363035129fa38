"""`OnnxPredictor`: a model exported to ONNX, computed by onnxruntime without torch."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitreous.core.batching import split_into_batches
from vitreous.core.checksums import check_metadata, verify_own_checksum
from vitreous.core.errors import InputError, first_line
from vitreous.core.extras import load_extra
from vitreous.core.json_text import parse_json
from vitreous.data.source import Axis, Target
from vitreous.run.familiarity import Familiarity
from vitreous.run.folder import check_description, check_types
from vitreous.run.prediction import AnyPredictor, Prediction, quantities

ABOUT = "vitreous"
"""Metadata key of the JSON description of input and output."""
VERSION = 1
_ABOUT_TYPES = {"input": [int], "shorter": bool, "precision": str}  # beside what `task.json` has
_FATAL = 4  # level of onnxruntime's log: its exceptions say the same as its messages


class OnnxPredictor(AnyPredictor):
    """A model that `vitreous export` wrote as ONNX: its session in onnxruntime and the description in the file."""

    explains = False

    def __init__(self, session: Any, about: dict[str, Any]) -> None:
        axes = [Axis(**axis) for axis in about["axes"]]
        super().__init__(about["input"], axes, about["channels"], about["data"], about["shorter"])
        self.session, self.precision, task = session, str(about["precision"]), about["task"]
        self.classes = tuple(task.get("classes", ()))
        self.targets = tuple(Target(**target) for target in task.get("targets", ()))
        self.scores = task.get("scores", ())
        self.familiarity = Familiarity.from_description(about)

    def predict(self, x: ArrayLike, coverage: float | None = None) -> Prediction:
        names = ("probabilities",) if self.classes else ("values", "uncertainty")
        samples, more = self.check(x), () if self.familiarity is None else ("embedding",)
        numbers = self._compute(samples, (*names, *more))
        if self.classes:
            prediction = Prediction(self.classes, numbers[0])
        else:
            prediction = quantities(self.targets, numbers[0], numbers[1], self.scores, coverage)
        if self.familiarity is None:
            return prediction
        return replace(prediction, familiarity=self.familiarity.p_values(samples, numbers[-1]))

    def outputs(self, x: ArrayLike) -> NDArray[np.float32]:
        """The model's raw outputs, as a run's predictor gives them."""
        return self._compute(self.check(x), ("outputs",))[0]

    def _compute(self, samples: NDArray[Any], names: Sequence[str]) -> list[NDArray[Any]]:
        """Some of the graph's outputs `(n, K)` for checked samples."""
        parts = list[list[NDArray[Any]]]()
        for batch in split_into_batches(samples) if len(samples) else [samples]:
            try:
                with np.errstate(over="ignore"):  # too large for float32: the answer is not finite
                    parts.append(self.session.run(names, {"x": np.asarray(batch, np.float32)}))
            except Exception as fault:  # onnxruntime raises one of a dozen kinds
                place = sum(len(part[0]) for part in parts)
                raise InputError(f"the model fails on the samples from {place} on ({first_line(fault)})") from None
        return [np.concatenate(part) for part in zip(*parts, strict=True)]


def load_onnx(path: Path) -> OnnxPredictor:
    """The predictor of an ONNX file."""
    try:
        verify_own_checksum(path)
        return open_onnx(str(path))
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from None


def open_onnx(model: str | bytes, threads: int = 0) -> OnnxPredictor:
    """The predictor of an ONNX model, a file's name or its bytes; `threads` is 0 for one per core."""
    runtime = load_extra("onnxruntime", "export")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, _FATAL
    try:
        session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as fault:  # on damaged bytes onnxruntime raises one of a dozen kinds
        raise InputError(f"cannot be read as an ONNX model ({first_line(fault)})") from None
    text = session.get_modelmeta().custom_metadata_map.get(ABOUT)
    if text is None:
        raise InputError("is an ONNX model that vitreous did not export")
    return OnnxPredictor(session, _parse_about(text))


def _parse_about(text: str) -> dict[str, Any]:
    """The description of input and output."""
    try:
        about: dict[str, Any] = parse_json(text)
        check_types(about, {"format": int})
        if about["format"] == VERSION:
            check_types(about, _ABOUT_TYPES)
            check_description(about)
            check_metadata(about)
    except InputError as fault:
        raise InputError(f"its description {fault}") from None
    if about["format"] != VERSION:
        raise InputError(f"was written in format {about['format']}, this version reads {VERSION}")
    return about
