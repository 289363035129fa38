"""Classification: one class of several."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from vitreous.data.source import Target
from vitreous.run.prediction import Prediction, Scores


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

    @property
    def label_names(self) -> tuple[str, ...]:
        """The classes."""
        return self.classes

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

    def bounds(self, coverage: float) -> bool:
        """Whether intervals of this coverage can be given: never."""
        return False

    def initial_outputs(self, y: NDArray[Any]) -> Tensor | None:
        """Outputs that the model begins with: whatever its weights give."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"kind": self.kind, "classes": list(self.classes), "label_smoothing": self.label_smoothing}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Classification":
        """The inverse of `to_dict`."""
        return cls(tuple(values["classes"]), values["label_smoothing"])
