"""`ServedModel`: a model with a queue, which answers requests in batches."""

from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.batching import Batcher
from vitreous.core.errors import InputError
from vitreous.data import WHITE
from vitreous.run.load import load
from vitreous.run.prediction import AnyPredictor, Prediction, half_widths
from vitreous.serve.arrays import to_json
from vitreous.serve.explain import ExplainOptions, available_maps, choose_maps, explain_sample
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.uploads import InputSpec

Record = dict[str, Any]
_EXAMPLES = 4  # per model
_EXPLAIN_QUEUE = 32  # explanations that may wait; they are far slower than predictions
_MAX_EXAMPLE_VALUES = 100_000


@dataclass(frozen=True)
class _PredictBatch:
    """Samples that can be predicted together."""

    coverage: float | None
    shape: tuple[int, ...]
    dtype: str

    def __call__(self, predictor: AnyPredictor, samples: Sequence[NDArray[Any]]) -> list[Record | InputError]:
        return prediction_records(predictor(np.stack(samples), self.coverage))


@dataclass(frozen=True, eq=False)
class _ExplainOne:
    """One sample to explain."""

    options: ExplainOptions
    maps: tuple[str, ...]

    def __call__(self, predictor: Any, samples: Sequence[NDArray[Any]]) -> list[Record | InputError]:
        (sample,) = samples
        (row,) = prediction_records(predictor(sample[None]))
        if isinstance(row, InputError):
            return [row]
        return [explain_sample(predictor, sample, self.options, self.maps) | {"row": row}]


def prediction_records(prediction: Prediction) -> list[Record | InputError]:
    """Return the classes or quantities of each sample, or an error for a sample whose answer is not finite."""
    if prediction.probabilities is not None:
        pairs = zip(prediction.labels, prediction.probabilities, strict=True)
        rows = [{"class": label, "probability": float(p.max()), "probabilities": p.tolist()} for label, p in pairs]
        finite = np.asarray(np.isfinite(prediction.probabilities).all(1))
    else:
        assert prediction.values is not None
        bounds = [bound for bound in (prediction.lower, prediction.upper) if bound is not None]
        columns = np.stack([prediction.values, *bounds], -1)  # (n, targets, 1 or 3)
        finite = np.asarray(np.isfinite(columns).all((1, 2)))
        rows = [
            {
                "values": [
                    {"name": target.name, "unit": target.unit} | _value_record(numbers)
                    for target, numbers in zip(prediction.targets, sample, strict=True)
                ]
            }
            for sample in columns
        ]
    return [row if ok else _not_finite() for row, ok in zip(rows, finite, strict=True)]


def _value_record(numbers: Sequence[float]) -> dict[str, float | None]:
    value, lower, upper = [*map(float, numbers), None, None][:3]
    return {"value": value, "lower": lower, "upper": upper}


def _not_finite() -> InputError:
    return InputError("input: the answer of the model is not finite; are the values far outside the training data?")


class ServedModel:
    """A model behind a queue.

    Args:
        name: name by which clients select it.
        predictor: the loaded model.
        limits: limits on batches and queues.
        metrics: receives the size of every batch and the length of the queue.
        path: run folder or model file.
    """

    def __init__(self, name: str, predictor: AnyPredictor, limits: Limits, metrics: Metrics, path: Path) -> None:
        self.name, self.predictor, self._path = name, predictor, path
        self.spec = InputSpec.of(predictor)
        # The scale of int8 activations depends on the batch: one client's sample must not change another's answer.
        batch = limits.batch if getattr(predictor, "precision", "float32") == "float32" else 1
        self._batcher = Batcher[NDArray[Any], Record | InputError](
            self._compute, batch, limits.wait, limits.queue, metrics.batch_observer(name)
        )
        self._explainer = Batcher[NDArray[Any], Record | InputError](self._compute, 1, 0.0, _EXPLAIN_QUEUE)
        metrics.watch_queue(name, lambda: len(self._batcher) + len(self._explainer))

    def _compute(self, work: Hashable, samples: Sequence[NDArray[Any]]) -> list[Record | InputError]:
        assert isinstance(work, _PredictBatch | _ExplainOne)
        return work(self.predictor, samples)

    def predict(self, samples: NDArray[Any], coverage: float | None) -> "list[Future[Record | InputError]]":
        """Queue checked samples `(n, channels, *grid)`; return one future record per sample."""
        if len(samples) > self._batcher.limit:
            raise InputError(f"samples: found {len(samples)}, expected at most {self._batcher.limit}, the queue length")
        return self._batcher.submit_all(list(samples), _PredictBatch(coverage, samples.shape[1:], samples.dtype.str))

    def explain(self, sample: NDArray[Any], options: ExplainOptions) -> "Future[Record | InputError]":
        """Queue one checked sample `(channels, *grid)` for explanation."""
        maps = choose_maps(self.predictor, self.name, options)
        return self._explainer.submit(sample, _ExplainOne(options, maps))

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
        axes = [
            {"name": axis.name, "unit": axis.unit, "origin": axis.origin, "spacing": axis.spacing, "count": count}
            for axis, count in zip(p.axes, p.input[1:], strict=True)
        ]
        return {
            "name": self.name,
            "kind": self.spec.kind,
            "task": "classification" if p.classes else "regression",
            "data": p.data,
            "input": list(p.input),
            "shorter": p.shorter,
            "axes": axes,
            "channels": list(p.channels),
            "white": WHITE.get(p.data),
            "classes": list(p.classes),
            "targets": [{"name": target.name, "unit": target.unit} for target in p.targets],
            "intervals": bool(p.scores),
            "coverage": _max_coverage(p),
            "maps": maps,
            "layers": layers,
            "heads": heads,
            "formats": list(self.spec.formats),
        }

    @cached_property
    def examples(self) -> list[Record]:
        """Samples of the run's test part in `/v1/examples`."""
        return [{"model": self.name} | record for record in read_examples(self._path, self.predictor)]

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


def read_examples(path: Path, predictor: Any) -> list[Record]:
    """Return some samples of the test part in a run folder, with their true answers."""
    if not path.is_dir():
        return []
    from vitreous.run.answers import read_answers

    answers = read_answers(path)
    if answers is None or not answers.fit(predictor.task, predictor.input):
        return []
    places = range(len(answers.shown))[answers.drawn][-_EXAMPLES:]
    return [
        {
            "name": f"test sample {int(answers.rows[answers.shown[place]])}",
            "truth": _format_truth(predictor, answers.y[answers.shown[place]]),
            "sample": to_json(answers.samples[place], 6),
        }
        for place in places
        if answers.samples[place].size <= _MAX_EXAMPLE_VALUES
    ]


def _max_coverage(predictor: AnyPredictor) -> float | None:
    """Return the highest coverage that the number of calibration samples allows."""
    return len(predictor.scores[0]) / (len(predictor.scores[0]) + 1) if predictor.scores else None


def _format_truth(predictor: AnyPredictor, label: Any) -> str:
    if predictor.classes:
        return predictor.classes[int(label)]
    return ", ".join(
        f"{target.name} = {value:.4g} {target.unit}".rstrip()
        for target, value in zip(predictor.targets, label, strict=True)
    )
