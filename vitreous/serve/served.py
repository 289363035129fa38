"""`Served`: a model with its queue: what it takes, what it gives, and answers batch by batch."""

from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.batching import Batcher
from vitreous.data import WHITE
from vitreous.errors import InputError
from vitreous.predict import load
from vitreous.prediction import AnyPredictor, Prediction, half_widths
from vitreous.serve.explained import Wish, check_wish, explained, maps_of
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.numbers import plain
from vitreous.serve.reading import Taken

Record = dict[str, Any]
_EXAMPLES = 4
_EXPLAINED = 32  # explanations that may wait, apart from predictions, which are far faster
_LARGE = 100_000  # values of an example that nobody wants to fetch


@dataclass(frozen=True)
class _Predict:
    """Samples that can be computed together."""

    coverage: float | None
    shape: tuple[int, ...]
    dtype: str

    def __call__(self, predictor: AnyPredictor, samples: Sequence[NDArray[Any]]) -> list[Record | InputError]:
        return rows_of(predictor(np.stack(samples), self.coverage))


@dataclass(frozen=True, eq=False)
class _Explain:
    """One sample, which is looked at alone."""

    wish: Wish
    maps: tuple[str, ...]

    def __call__(self, predictor: Any, samples: Sequence[NDArray[Any]]) -> list[Record | InputError]:
        (sample,) = samples
        (row,) = rows_of(predictor(sample[None]))
        if isinstance(row, InputError):
            return [row]
        return [explained(predictor, sample, self.wish, self.maps) | {"row": row}]


def rows_of(found: Prediction) -> list[Record | InputError]:
    """Of each sample its classes or quantities; a fault of its own where they are not finite."""
    if found.probabilities is not None:
        pairs = zip(found.labels, found.probabilities, strict=True)
        rows = [{"class": label, "probability": float(p.max()), "probabilities": p.tolist()} for label, p in pairs]
        good = np.asarray(np.isfinite(found.probabilities).all(1))
    else:
        assert found.values is not None
        ends = [found.values, *(end for end in (found.lower, found.upper) if end is not None)]
        good = np.asarray(np.isfinite(ends).all((0, 2)))
        rows = [
            {"values": [
                {"name": target.name, "unit": target.unit} | _interval([end[i, j] for end in ends])
                for j, target in enumerate(found.targets)
            ]}
            for i in range(len(found.values))
        ]  # fmt: skip
    return [row if ok else _endless() for row, ok in zip(rows, good, strict=True)]


def _interval(ends: Sequence[float]) -> dict[str, float | None]:
    value, lower, upper = [*map(float, ends), None, None][:3]
    return {"value": value, "lower": lower, "upper": upper}


def _endless() -> InputError:
    return InputError("input: the model gives no finite answer; are the values far beyond those it was trained on?")


class Served:
    """A model behind a queue.

    Args:
        name: by which clients ask for it.
        predictor: of the model.
        limits: of its batches and of what may wait.
        metrics: told of every batch.
        path: of the run or file.
    """

    def __init__(self, name: str, predictor: AnyPredictor, limits: Limits, metrics: Metrics, path: Path) -> None:
        self.name, self.predictor, self._path = name, predictor, path
        p = predictor
        self.taken = Taken(name, p.input, p.axes, p.channels, p.data, p.shorter)
        # Ranges of int8 are taken from the batch: a stranger's sample must not spoil the others'.
        together = limits.batch if getattr(predictor, "precision", "float32") == "float32" else 1
        self._batcher = Batcher[NDArray[Any], Record | InputError](
            self._compute, together, limits.wait, limits.queue, metrics.batches(name)
        )
        self._explainer = Batcher[NDArray[Any], Record | InputError](self._compute, 1, 0.0, _EXPLAINED)
        metrics.waiting(name, lambda: len(self._batcher) + len(self._explainer))

    def _compute(self, kind: Hashable, samples: Sequence[NDArray[Any]]) -> list[Record | InputError]:
        assert isinstance(kind, _Predict | _Explain)
        return kind(self.predictor, samples)

    def predict(self, samples: NDArray[Any], coverage: float | None) -> "list[Future[Record | InputError]]":
        """One answer to come for each of the samples `(n, channels, *grid)`, which `check` has passed."""
        if len(samples) > self._batcher.limit:
            raise InputError(f"samples: found {len(samples)}, expected {self._batcher.limit} at most, which may wait")
        return self._batcher.submit_all(list(samples), _Predict(coverage, samples.shape[1:], samples.dtype.str))

    def explain(self, sample: NDArray[Any], wish: Wish) -> "Future[Record | InputError]":
        """Where the model looks in one sample `(channels, *grid)`."""
        maps = check_wish(self.predictor, self.name, wish)
        return self._explainer.submit(sample, _Explain(wish, maps))

    def check_coverage(self, coverage: float | None) -> None:
        """One line where there are no such intervals."""
        if coverage is not None and self.predictor.classes:
            raise InputError(f"coverage: is for quantities; {self.name} gives probabilities of classes")
        if coverage is not None:
            half_widths(self.predictor.scores, coverage)

    @cached_property
    def about(self) -> Record:
        """What `/v1/models` says of it."""
        p, (maps, layers, heads) = self.predictor, maps_of(self.predictor)
        axes = [
            {"name": a.name, "unit": a.unit, "origin": a.origin, "spacing": a.spacing, "count": count}
            for a, count in zip(p.axes, p.input[1:], strict=True)
        ]
        return {
            "name": self.name, "kind": self.taken.kind, "task": "classification" if p.classes else "regression",
            "data": p.data, "input": list(p.input), "shorter": p.shorter, "axes": axes, "channels": list(p.channels),
            "white": WHITE.get(p.data), "classes": list(p.classes),
            "targets": [{"name": t.name, "unit": t.unit} for t in p.targets],
            "intervals": bool(p.scores), "coverage": _most(p), "maps": maps, "layers": layers, "heads": heads,
            "formats": list(self.taken.formats),
        }  # fmt: skip

    @cached_property
    def examples(self) -> list[Record]:
        """Samples to try it on."""
        return [{"model": self.name} | record for record in kept_samples(self._path, self.predictor)]

    def close(self) -> None:
        """Answer what waits, and end."""
        for batcher in (self._batcher, self._explainer):
            batcher.close()


def serve_models(paths: Sequence[Path], device: str, limits: Limits, metrics: Metrics) -> dict[str, Served]:
    """The models of runs and files, by name: of the folder, or of the file without its suffix where that is enough."""
    names = [path.resolve().stem if path.is_file() else path.resolve().name for path in paths]
    names = [path.name if names.count(name) > 1 else name for name, path in zip(names, paths, strict=True)]
    for name, path in zip(names, paths, strict=True):
        if names.count(name) > 1:
            raise InputError(f"{path}: another model is called {name!r} too; rename one")
    return {
        name: Served(name, load(path, _device(path, device)), limits, metrics, path)
        for name, path in zip(names, paths, strict=True)
    }


def _device(path: Path, device: str) -> str:
    """Runs and their files compute where they are told, ONNX on the CPU."""
    return "cpu" if path.suffix == ".onnx" else device


def kept_samples(path: Path, predictor: Any) -> list[Record]:
    """Of a run folder, some of the samples of its test part that it keeps, with the truth about them."""
    if not path.is_dir():
        return []
    from vitreous.train.answers import read_answers

    kept = read_answers(path)
    if kept is None or not kept.fit(predictor.task, predictor.input):
        return []
    drawn = range(len(kept.shown))[kept.drawn][-_EXAMPLES:]
    return [
        {
            "name": f"test sample {int(kept.rows[kept.shown[place]])}",
            "truth": _truth(predictor, kept.y[kept.shown[place]]),
            "sample": plain(kept.samples[place], 6),
        }
        for place in drawn
        if kept.samples[place].size <= _LARGE
    ]


def _most(predictor: AnyPredictor) -> float | None:
    """The highest coverage that the samples of its calibration allow."""
    return len(predictor.scores[0]) / (len(predictor.scores[0]) + 1) if predictor.scores else None


def _truth(predictor: AnyPredictor, label: Any) -> str:
    if predictor.classes:
        return predictor.classes[int(label)]
    return ", ".join(
        f"{t.name} = {value:.4g} {t.unit}".rstrip() for t, value in zip(predictor.targets, label, strict=True)
    )
