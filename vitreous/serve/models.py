"""`ServedModel`: a model with a queue, which answers requests in batches."""

from collections.abc import Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.batching import Batcher
from vitreous.core.errors import InputError
from vitreous.data import WHITE, Target
from vitreous.run.load import load
from vitreous.run.prediction import AnyPredictor, Prediction, half_widths
from vitreous.serve.arrays import to_json
from vitreous.serve.explain import ExplainOptions, available_maps, coarse_axes, explain_sample
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.uploads import InputReader

Record = dict[str, Any]
Answer = Record | None
"""The record of a sample; None if its answer is not finite."""
_EXAMPLES = 4  # per model
_EXPLAIN_QUEUE = 32  # explanations that may wait; they are far slower than predictions
_MAX_EXAMPLE_VALUES = 100_000


def prediction_records(prediction: Prediction) -> list[Answer]:
    """Return the classes or quantities of each sample."""
    rows: list[Record]
    if prediction.probabilities is not None:
        pairs = zip(prediction.labels, prediction.probabilities, strict=True)
        rows = [{"class": label, "probability": float(p.max()), "probabilities": p.tolist()} for label, p in pairs]
    else:
        assert prediction.values is not None
        bounds = [bound for bound in (prediction.lower, prediction.upper) if bound is not None]
        numbers = np.stack([prediction.values, *bounds], -1)  # (n, targets, 1 or 3)
        targets = [_target_record(target) for target in prediction.targets]
        rows = [
            {"values": [target | _value_record(*values) for target, values in zip(targets, sample, strict=True)]}
            for sample in numbers.tolist()
        ]
    familiarity = [None] * len(rows) if prediction.familiarity is None else prediction.familiarity.tolist()
    rows = [row | {"familiarity": p} for row, p in zip(rows, familiarity, strict=True)]
    return [row if finite else None for row, finite in zip(rows, prediction.finite, strict=True)]


def _target_record(target: Target) -> dict[str, str]:
    return {"name": target.name, "unit": target.unit}


def _value_record(value: float, lower: float | None = None, upper: float | None = None) -> dict[str, float | None]:
    return {"value": value, "lower": lower, "upper": upper}


class ServedModel:
    """A model behind a queue, under the name by which clients select it; `path` is its run folder or file."""

    def __init__(self, name: str, predictor: AnyPredictor, limits: Limits, metrics: Metrics, path: Path) -> None:
        self.name, self.predictor, self._path = name, predictor, path
        self.reader = InputReader(predictor)
        # The scale of int8 activations depends on the batch: one client's sample must not change another's answer.
        batch = limits.batch if predictor.precision == "float32" else 1
        self._batcher = Batcher[NDArray[Any], Answer](
            self._predict, batch, limits.wait, limits.queue, metrics.batches.labels(name).observe
        )
        self._explainer = Batcher[NDArray[Any], Answer](self._explain, 1, 0.0, _EXPLAIN_QUEUE)
        metrics.waiting.labels(name).set_function(lambda: len(self._batcher) + len(self._explainer))

    def _predict(self, kind: Any, samples: Sequence[NDArray[Any]]) -> list[Answer]:
        return prediction_records(self.predictor.predict(np.stack(samples), kind[0]))

    def _explain(self, options: Any, samples: Sequence[NDArray[Any]]) -> list[Answer]:
        (row,) = prediction_records(self.predictor.predict(np.stack(samples)))
        if row is None:
            return [None]
        return [explain_sample(self.predictor, samples[0], options) | {"row": row}]

    def predict(self, samples: NDArray[Any], coverage: float | None, client: str) -> "list[Future[Answer]]":
        """Queue checked samples `(n, channels, *grid)` of a client; return one future record per sample."""
        if len(samples) > self._batcher.limit:
            raise InputError(f"samples: found {len(samples)}, expected at most {self._batcher.limit}, the queue length")
        kind = coverage, samples.shape[1:], samples.dtype.str  # samples that can be predicted together
        return self._batcher.submit_all(list(samples), kind, client)

    def explain(self, sample: NDArray[Any], options: ExplainOptions, client: str) -> "Future[Answer]":
        """Queue one checked sample `(channels, *grid)` of a client for explanation."""
        return self._explainer.submit(sample, options, client)

    def check_coverage(self, coverage: float | None) -> None:
        """Raise `InputError` if the model has no intervals of this coverage."""
        if coverage is not None and self.predictor.classes:
            raise InputError(f"coverage: only for quantities; {self.name} predicts probabilities of classes")
        if coverage is not None:
            half_widths(self.predictor.scores, coverage)

    @cached_property
    def about(self) -> Record:
        """Description of the model in `/v1/models`."""
        p, (maps, layers, heads) = self.predictor, available_maps(self.predictor)
        calibration = len(p.scores[0]) if p.scores else 0  # samples, which bound the coverage of intervals
        return {
            "name": self.name,
            "kind": self.reader.kind,
            "task": "classification" if p.classes else "regression",
            "data": p.data,
            "input": list(p.input),
            "shorter": p.shorter,
            "axes": coarse_axes(p.axes, [1] * len(p.axes), p.input[1:]),
            "channels": list(p.channels),
            "white": WHITE.get(p.data),
            "classes": list(p.classes),
            "targets": [_target_record(target) for target in p.targets],
            "intervals": bool(p.scores),
            "coverage": calibration / (calibration + 1) if p.scores else None,
            "maps": maps,
            "layers": layers,
            "heads": heads,
            "formats": list(self.reader.formats),
        }

    @cached_property
    def examples(self) -> list[Record]:
        """Some samples of the test part in a run folder, with their true answers, for `/v1/examples`."""
        if not self._path.is_dir():
            return []
        from vitreous.run.answers import read_answers

        predictor: Any = self.predictor
        answers = read_answers(self._path)
        if answers is None or not answers.fit(predictor.task, predictor.input):
            return []
        places = range(len(answers.shown))[answers.drawn][-_EXAMPLES:]
        return [
            {
                "model": self.name,
                "name": f"test sample {int(answers.rows[answers.shown[place]])}",
                "truth": _format_truth(predictor, answers.y[answers.shown[place]]),
                "sample": to_json(answers.samples[place], 6),
            }
            for place in places
            if answers.samples[place].size <= _MAX_EXAMPLE_VALUES
        ]

    def close(self) -> None:
        """Answer waiting samples and stop."""
        for batcher in (self._batcher, self._explainer):
            batcher.close()


def load_models(paths: Sequence[Path], device: str, limits: Limits, metrics: Metrics) -> dict[str, ServedModel]:
    """Load run folders and model files. Names are those of the folders, or of the files without suffix if unique."""
    names = [path.resolve().stem if path.is_file() else path.resolve().name for path in paths]
    names = [path.name if names.count(name) > 1 else name for name, path in zip(names, paths, strict=True)]
    for name, path in zip(names, paths, strict=True):
        if names.count(name) > 1:
            raise InputError(f"{path}: another model has the name {name!r}; rename one of them")
    return {
        name: ServedModel(name, load(path, "cpu" if path.suffix == ".onnx" else device), limits, metrics, path)
        for name, path in zip(names, paths, strict=True)
    }


def _format_truth(predictor: AnyPredictor, label: Any) -> str:
    if predictor.classes:
        return predictor.classes[int(label)]
    pairs = zip(predictor.targets, label, strict=True)
    return ", ".join(f"{target.name} = {value:.4g} {target.unit}".rstrip() for target, value in pairs)
