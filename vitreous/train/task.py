"""Tasks: from raw outputs to a loss, metrics and physical quantities.

A task gives the model's targets as floats `(B, K)` (class probabilities, or scaled quantities), so that batches can be
mixed, and turns outputs back: probabilities, or values in the targets' own units with an interval.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from vitreous.data.source import Source, Target
from vitreous.errors import InputError, check_choice
from vitreous.prediction import half_widths, rank_of


@dataclass(frozen=True)
class Classification:
    """One class of several."""

    kind: ClassVar[str] = "classification"
    classes: tuple[str, ...]
    label_smoothing: float = 0.0
    better: ClassVar[tuple[str, str]] = ("loss", "min")

    @property
    def outputs(self) -> int:
        """Outputs that the model must have."""
        return len(self.classes)

    def encode(self, y: NDArray[Any] | Tensor) -> Tensor:
        """Class numbers `(n,)` to probabilities `(n, classes)`."""
        labels = y if isinstance(y, Tensor) else torch.from_numpy(np.array(y, np.int64))
        return F.one_hot(labels.long(), len(self.classes)).float()

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy with the probabilities `y`."""
        return F.cross_entropy(out, y, label_smoothing=self.label_smoothing)

    def misfit(self, out: Tensor, y: Tensor) -> Tensor:
        """How far each answer is from the truth, `(n,)`: the cross-entropy."""
        return F.cross_entropy(out, y, reduction="none")

    def metrics(self, out: Tensor, y: Tensor) -> dict[str, float]:
        """Accuracy, top-5 accuracy and macro F1, of logits and class probabilities."""
        from torchmetrics.functional.classification import multiclass_accuracy, multiclass_f1_score

        truth, count = y.argmax(-1), len(self.classes)
        found = {
            "loss": F.cross_entropy(out, y),
            "accuracy": multiclass_accuracy(out, truth, count, average="micro"),
            "f1": multiclass_f1_score(out, truth, count, average="macro"),
        }
        if count > 5:
            found["top5"] = multiclass_accuracy(out, truth, count, average="micro", top_k=5)
        return {name: float(value) for name, value in found.items()}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"kind": self.kind, "classes": list(self.classes), "label_smoothing": self.label_smoothing}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Classification":
        """The inverse of `to_dict`."""
        return cls(tuple(values["classes"]), values["label_smoothing"])


def _mape(out: Tensor, y: Tensor, task: "Regression") -> Tensor:
    """Mean of |error / truth|, in physical units; truths below a thousandth of the spread count as that."""
    truth = task.decode(y)
    return ((task.physical(out) - truth).abs() / truth.abs().clamp(min=task.least(y))).mean()


def _gaussian(out: Tensor, y: Tensor, task: "Regression") -> Tensor:
    """Negative log-likelihood of a normal distribution whose mean and log-variance are both predicted."""
    mean, log_variance = out.chunk(2, dim=-1)
    log_variance = log_variance.clamp(-12, 8)
    return 0.5 * (log_variance + (y - mean).square() * torch.exp(-log_variance)).mean()


LOSSES: dict[str, Callable[[Tensor, Tensor, "Regression"], Tensor]] = {
    "l1": lambda out, y, task: F.l1_loss(out, y),
    "mse": lambda out, y, task: F.mse_loss(out, y),
    "huber": lambda out, y, task: F.huber_loss(out, y),
    "mape": _mape,
    "gaussian": _gaussian,
}


@dataclass(frozen=True)
class Regression:
    """One or many quantities, standardised for the model and given back in their own units.

    Args:
        targets: names and units.
        mean, scale: of each target in the training part.
        loss: one of `LOSSES`; `gaussian` also predicts each value's own uncertainty.
        scores: for each target, sorted |error| / uncertainty on the validation part: what intervals are made from.
        calibrated_on: samples of that part, of whose scores some may stand for all.
    """

    kind: ClassVar[str] = "regression"
    better: ClassVar[tuple[str, str]] = ("rmse_scaled", "min")
    targets: tuple[Target, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    loss_name: str = "mse"
    scores: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    calibrated_on: int = 0

    def __post_init__(self) -> None:
        check_choice("loss", self.loss_name, LOSSES)

    @property
    def outputs(self) -> int:
        """Outputs that the model must have: with `gaussian`, a mean and a log-variance of each target."""
        return len(self.targets) * (2 if self.loss_name == "gaussian" else 1)

    def encode(self, y: NDArray[Any] | Tensor) -> Tensor:
        """Physical targets `(n, K)` to standardised ones."""
        values = (y if isinstance(y, Tensor) else torch.from_numpy(np.array(y, np.float64))).double()
        log = torch.tensor([target.log for target in self.targets], device=values.device)
        values = torch.where(log, values.clamp(min=1e-300).log(), values)
        scale = values.new_tensor(self.scale)
        return torch.where(scale <= _NOTHING, 0.0, (values - values.new_tensor(self.mean)) / scale).float()

    def decode(self, values: Tensor) -> Tensor:
        """Standardised targets `(n, K)` to physical values `(n, K)`."""
        found = values * values.new_tensor(self.scale) + values.new_tensor(self.mean)
        log = torch.tensor([target.log for target in self.targets], device=values.device)
        return torch.where(log, found.clamp(-80, 80).exp(), found)

    def point(self, out: Tensor) -> Tensor:
        """The standardised answer `(n, K)` in raw outputs."""
        return out[:, : len(self.targets)]

    def physical(self, out: Tensor) -> Tensor:
        """The answer `(n, K)` in raw outputs, in the targets' units."""
        return self.decode(self.point(out))

    def uncertainty(self, out: Tensor) -> Tensor:
        """The model's own standard deviation of each value, in physical units; one and the same without `gaussian`."""
        return self._spread(out) * self._unit(out)

    def _unit(self, out: Tensor) -> Tensor:
        """What one standardised unit is worth, `(n, K)`: for a logarithm, so much of the value."""
        scale = out.new_tensor(self.scale)
        log = torch.tensor([target.log for target in self.targets], device=out.device)
        return torch.where(log, scale * self.physical(out), scale)

    def _spread(self, out: Tensor) -> Tensor:
        """The model's own standard deviation in standardised units, `(n, K)`."""
        if self.loss_name != "gaussian":
            return torch.ones_like(self.point(out))
        return torch.exp(0.5 * out.chunk(2, dim=-1)[1].clamp(-12, 8))

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """The chosen loss on standardised targets."""
        return LOSSES[self.loss_name](out, y, self)

    def misfit(self, out: Tensor, y: Tensor) -> Tensor:
        """How far each answer is from the truth, `(n,)`: the largest of its errors."""
        return self.errors(out, y).amax(1)

    def errors(self, out: Tensor, y: Tensor) -> Tensor:
        """|answer − truth| in standard deviations of each target, `(n, K)`; 0 for one that never changes."""
        return (self.point(out) - y).abs() * (y.new_tensor(self.scale) > _NOTHING)

    def least(self, like: Tensor) -> Tensor:
        """What differs from zero of each target, `(K,)`: a thousandth of its spread; anything if in logarithms."""
        spread = [0.0 if target.log else scale for target, scale in zip(self.targets, self.scale, strict=True)]
        return 1e-3 * like.new_tensor(spread)

    def metrics(self, out: Tensor, y: Tensor) -> dict[str, float]:
        """MAE, RMSE, MAPE and R² of each target in its units, their means, and the RMSE in standard deviations.

        A single sample has no R², a target that may be zero no MAPE; a calibrated task also tells how many truths its
        90 % intervals hold.
        """
        from torchmetrics.functional import (
            mean_absolute_error,
            mean_absolute_percentage_error,
            mean_squared_error,
            r2_score,
        )

        value, truth = self.physical(out).double(), self.decode(y).double()
        found: dict[str, float] = {"loss": float(self.loss(out, y))}
        functions = {
            "mae": mean_absolute_error,
            "rmse": lambda a, b: mean_squared_error(a, b, squared=False),
            "mape": mean_absolute_percentage_error,
        }
        if len(truth) > 1:
            functions["r2"] = r2_score
        least = self.least(truth)
        never_zero = (truth > least).all(0) | (truth < -least).all(0)
        for name, function in functions.items():
            each = {
                target.name: float(function(value[:, i], truth[:, i]))
                for i, target in enumerate(self.targets)
                if name != "mape" or never_zero[i]
            }
            if len(self.targets) > 1:
                found |= {f"{name}/{target}": score for target, score in each.items()}
            if each:
                found[name] = float(np.mean([*each.values()]))
        found["rmse_scaled"] = float((self.point(out) - y).square().mean().sqrt())
        if self.bounds(0.9):
            found["coverage90"] = float(((value - truth).abs() <= self.half_width(out, 0.9)).float().mean())
        return found

    def calibrated(self, out: Tensor, y: Tensor, most: int = 5000) -> "Regression":
        """The same task with the scores of a held-out part, for split-conformal intervals."""
        scores = (self.physical(out) - self.decode(y)).abs() / self.uncertainty(out)  # (n, K)
        ordered = scores.double().sort(dim=0).values
        if len(ordered) > most:
            ordered = ordered[torch.linspace(0, len(ordered) - 1, most).round().long()]
        kept = tuple(tuple(column) for column in ordered.T.tolist())
        return replace(self, scores=kept, calibrated_on=len(out))

    def bounds(self, coverage: float) -> bool:
        """Whether there are validation samples enough for intervals of this coverage."""
        return bool(self.scores) and rank_of(len(self.scores[0]), coverage) <= len(self.scores[0])

    def half_width(self, out: Tensor, coverage: float) -> Tensor:
        """Half the width of the interval that covers the truth with the given probability, `(n, K)`, in units."""
        return self.uncertainty(out) * out.new_tensor(half_widths(self.scores, coverage))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        targets = [asdict(target) for target in self.targets]
        return {
            "kind": self.kind, "targets": targets, "mean": list(self.mean), "scale": list(self.scale),
            "loss": self.loss_name, "scores": [list(column) for column in self.scores],
            "calibrated_on": self.calibrated_on,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        targets = tuple(Target(**target) for target in values["targets"])
        scores = tuple(tuple(column) for column in values["scores"])
        count = values.get("calibrated_on", len(scores[0]) if scores else 0)  # earlier runs do not tell
        return cls(targets, tuple(values["mean"]), tuple(values["scale"]), values["loss"], scores, count)


@dataclass(frozen=True)
class Mixture(Regression):
    """Quantities of which one input may allow several sets: hypotheses, each with a weight and an uncertainty.

    The loss is the negative log-likelihood of a mixture of Laplace distributions; the answer is the middle of the
    hypothesis with the largest weight. Outputs are H·K middles, H·K log-widths and H log-weights.
    """

    kind: ClassVar[str] = "mixture"
    better: ClassVar[tuple[str, str]] = ("loss", "min")
    hypotheses: int = 4

    @property
    def outputs(self) -> int:
        """Outputs that the model must have."""
        return self.hypotheses * (2 * len(self.targets) + 1)

    def parts(self, out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Middles and log-widths `(n, H, K)`, standardised, and log-weights `(n, H)`."""
        each = self.hypotheses * len(self.targets)
        middles, widths, weights = out.split([each, each, self.hypotheses], dim=1)
        shape = (out.shape[0], self.hypotheses, len(self.targets))
        return middles.reshape(shape), widths.reshape(shape).clamp(-7, 3), weights.log_softmax(1)

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """The mixture's negative log-likelihood, a target."""
        middles, widths, weights = self.parts(out.float())
        misfit = ((middles - y[:, None]).abs() * torch.exp(-widths) + widths).sum(2)  # (n, H)
        return -torch.logsumexp(weights - misfit, dim=1).mean() / len(self.targets)

    def point(self, out: Tensor) -> Tensor:
        """The likeliest hypothesis."""
        return self._best(out, self.parts(out)[0])

    def _spread(self, out: Tensor) -> Tensor:
        return self._best(out, self.parts(out)[1]).exp() * 2**0.5

    def _best(self, out: Tensor, values: Tensor) -> Tensor:
        best = self.parts(out)[2].argmax(1)  # (n,)
        return values.gather(1, best[:, None, None].expand(-1, 1, values.shape[2])).squeeze(1)

    def start(self, y: NDArray[Any]) -> Tensor:
        """Outputs to begin with, `(outputs,)`: hypotheses far apart among the given targets."""
        known = self.encode(y).clamp(-1.5, 1.5)  # first, or outliers would end on one place
        chosen = [known.mean(0)]
        for _ in range(self.hypotheses):
            chosen.append(known[torch.cdist(known, torch.stack(chosen)).amin(1).argmax()])
        middles = torch.stack(chosen[1:])
        return torch.cat([middles.flatten(), torch.zeros(middles.numel() + self.hypotheses)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return super().to_dict() | {"hypotheses": self.hypotheses}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return replace(super().from_dict(values), hypotheses=values["hypotheses"])


_NOTHING = 1e-30  # scale of a target that never changes, so that its outputs are that one value

Task = Classification | Regression
TASKS: dict[str, type[Classification] | type[Regression]] = {t.kind: t for t in (Classification, Regression, Mixture)}


def task_from_dict(values: Mapping[str, Any]) -> Task:
    """The task that `to_dict` described."""
    check_choice("task", values.get("kind"), TASKS)
    return TASKS[values["kind"]].from_dict(values)


def task_for(
    source: Source, rows: NDArray[np.intp], loss: str = "", label_smoothing: float = 0.0, hypotheses: int = 0
) -> Task:
    """The task that a source's labels ask for, scaled by the given rows; `loss` and `hypotheses` are for regression."""
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
    scale = np.where(np.ptp(source.y, axis=0) == 0, _NOTHING, scale)
    known = source.targets, tuple(mean.tolist()), tuple(scale.tolist()), loss or "mse"
    return Mixture(*known, hypotheses=hypotheses) if hypotheses else Regression(*known)
