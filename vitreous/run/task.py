"""Tasks: from raw outputs of a model to a loss, metrics and physical quantities.

A task turns labels into floats `(B, K)` (class probabilities or standardised quantities), so that batches can be mixed,
and turns outputs back: probabilities, or values in the targets' own units with an interval. `better` names the score
that decides which weights are best, and whether `min` or `max` is better; `main_score` is what people compare first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from vitreous.core.errors import InputError, check_choice
from vitreous.data.source import Source, Target
from vitreous.run.embedding import Embedding
from vitreous.run.prediction import Prediction, Scores
from vitreous.run.regression import CONSTANT, LOSSES, Mixture, Regression

__all__ = [
    "LOSSES", "TASKS", "Classification", "Embedding", "Mixture", "Regression", "Task", "task_for", "task_from_dict",
]  # fmt: skip


@dataclass(frozen=True)
class Classification:
    """One class of several; outputs are logits."""

    kind: ClassVar[str] = "classification"
    better: ClassVar[tuple[str, str]] = ("loss", "min")
    main_score: ClassVar[str] = "accuracy"
    targets: ClassVar[tuple[Target, ...]] = ()
    scores: ClassVar[Scores] = ()
    classes: tuple[str, ...]
    label_smoothing: float = 0.0

    @property
    def outputs(self) -> int:
        """Number of outputs of the model."""
        return len(self.classes)

    def encode(self, y: NDArray[Any] | Tensor) -> Tensor:
        """Class numbers `(n,)` to probabilities `(n, classes)`."""
        labels = y if isinstance(y, Tensor) else torch.from_numpy(np.array(y, np.int64))
        return F.one_hot(labels.long(), len(self.classes)).float()

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy with the probabilities `y`."""
        return F.cross_entropy(out, y, label_smoothing=self.label_smoothing)

    def misfit(self, out: Tensor, y: Tensor) -> Tensor:
        """Error of each answer, `(n,)`: the cross-entropy."""
        return F.cross_entropy(out, y, reduction="none")

    def point(self, out: Tensor) -> Tensor:
        """One number per class and sample: the logits."""
        return out

    def predict(self, out: Tensor, coverage: float | None = None) -> Prediction:
        """Probabilities of the classes; they have no intervals, so `coverage` changes nothing."""
        return Prediction(self.classes, out.softmax(-1).numpy())

    def metrics(self, out: Tensor, y: Tensor) -> dict[str, float]:
        """Loss, accuracy, macro F1 and, with more than five classes, top-5 accuracy."""
        from torchmetrics.functional.classification import multiclass_accuracy, multiclass_f1_score

        truth, count = y.argmax(-1), len(self.classes)
        scores = {
            "loss": F.cross_entropy(out, y),
            "accuracy": multiclass_accuracy(out, truth, count, average="micro"),
            "f1": multiclass_f1_score(out, truth, count, average="macro"),
        }
        if count > 5:
            scores["top5"] = multiclass_accuracy(out, truth, count, average="micro", top_k=5)
        return {name: float(value) for name, value in scores.items()}

    def calibrated(self, out: Tensor, y: Tensor) -> "Classification":
        """The task itself: only intervals of quantities are calibrated."""
        return self

    def initial_outputs(self, y: NDArray[Any]) -> None:
        """None: the outputs of the first weights are as good as any."""

    def bounds(self, coverage: float) -> bool:
        """Whether intervals of this coverage can be given: never."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"kind": self.kind, "classes": list(self.classes), "label_smoothing": self.label_smoothing}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Classification":
        """The inverse of `to_dict`."""
        return cls(tuple(values["classes"]), values["label_smoothing"])


Task = Classification | Regression | Embedding
"""What a model's outputs mean. A classification has `classes`, others have `targets`; the other is empty."""
TASKS: dict[str, type[Task]] = {task.kind: task for task in (Classification, Regression, Mixture, Embedding)}


def task_from_dict(values: Mapping[str, Any]) -> Task:
    """The task that `to_dict` described."""
    check_choice("task", values.get("kind"), TASKS)
    return TASKS[values["kind"]].from_dict(values)


def task_for(
    source: Source, rows: NDArray[np.intp], loss: str = "", label_smoothing: float = 0.0, hypotheses: int = 0
) -> Task:
    """The task for a source's labels, scaled by the given rows; `loss` and `hypotheses` are for regression."""
    if source.y is None:
        raise InputError(f"{source.name}: has no labels to train on; name a target column")
    if source.classes:
        if loss not in ("", "cross_entropy") or hypotheses:
            raise InputError(f"loss: {loss!r} is for regression, but {source.name} has classes")
        return Classification(source.classes, label_smoothing)
    y = np.asarray(source.y[rows], dtype=np.float64)
    y = np.where([target.log for target in source.targets], np.log(np.maximum(y, 1e-300)), y)
    mean = np.where(np.ptp(y, axis=0) == 0, y[0], y.mean(axis=0))
    scale = np.where(np.ptp(y, axis=0) == 0, 1.0, y.std(axis=0))
    scale = np.where(np.ptp(source.y, axis=0) == 0, CONSTANT, scale)
    common = source.targets, tuple(mean.tolist()), tuple(scale.tolist())
    return Mixture(*common, loss, hypotheses=hypotheses) if hypotheses else Regression(*common, loss or "mse")
