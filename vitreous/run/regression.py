"""Regression: quantities in their own units, with calibrated intervals; as a mixture, several answers for one input."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from vitreous.core.errors import InputError, check_choice
from vitreous.data.source import Target
from vitreous.run.prediction import Prediction, half_widths, quantities, rank_of

CONSTANT = 1e-30
"""Scale of a target that never changes: every output then decodes to its one value."""
_CALIBRATION_SCORES = 5000  # scores that are stored for each target, at most


def _mape(out: Tensor, y: Tensor, task: "Regression") -> Tensor:
    """Mean of |error / truth| in physical units; truths below a thousandth of the spread count as that."""
    truth = task.decode(y)
    return ((task.physical(out) - truth).abs() / truth.abs().clamp(min=task.resolution(y))).mean()


def _gaussian(out: Tensor, y: Tensor, task: "Regression") -> Tensor:
    """Negative log-likelihood of a normal distribution; mean and log-variance are both predicted."""
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
    """One or several quantities, standardised for the model and returned in their own units.

    Args:
        targets: names and units.
        mean, scale: mean and standard deviation of each target in the training part.
        loss_name: one of `LOSSES`; `gaussian` also predicts the uncertainty of each value.
        scores: for each target, sorted |error| / uncertainty on the validation part; intervals are made from them.
        calibrated_on: number of validation samples behind `scores`.
    """

    kind: ClassVar[str] = "regression"
    better: ClassVar[tuple[str, str]] = ("rmse_scaled", "min")
    main_score: ClassVar[str] = "rmse"
    classes: ClassVar[tuple[str, ...]] = ()
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
        """Number of outputs of the model: with `gaussian`, a mean and a log-variance for each target."""
        return len(self.targets) * (2 if self.loss_name == "gaussian" else 1)

    def encode(self, y: NDArray[Any] | Tensor) -> Tensor:
        """Physical targets `(n, K)` to standardised ones."""
        values = (y if isinstance(y, Tensor) else torch.from_numpy(np.array(y, np.float64))).double()
        values = torch.where(self._is_log(values), values.clamp(min=1e-300).log(), values)
        scale = values.new_tensor(self.scale)
        return torch.where(scale <= CONSTANT, 0.0, (values - values.new_tensor(self.mean)) / scale).float()

    def decode(self, values: Tensor) -> Tensor:
        """Standardised targets `(n, K)` to physical values `(n, K)`."""
        decoded = values * values.new_tensor(self.scale) + values.new_tensor(self.mean)
        return torch.where(self._is_log(values), decoded.clamp(-80, 80).exp(), decoded)

    def point(self, out: Tensor) -> Tensor:
        """The standardised answer `(n, K)` in raw outputs."""
        return out[:, : len(self.targets)]

    def physical(self, out: Tensor) -> Tensor:
        """The answer `(n, K)` in raw outputs, in the targets' units."""
        return self.decode(self.point(out))

    def uncertainty(self, out: Tensor) -> Tensor:
        """Standard deviation of each value, in physical units; the same for all samples unless it is predicted."""
        return self._spread(out) * self._unit(out)

    def _is_log(self, like: Tensor) -> Tensor:
        return torch.tensor([target.log for target in self.targets], device=like.device)

    def _unit(self, out: Tensor) -> Tensor:
        """Physical size of one standardised unit, `(n, K)`; for a logarithm it is proportional to the value."""
        scale = out.new_tensor(self.scale)
        return torch.where(self._is_log(out), scale * self.physical(out), scale)

    def _spread(self, out: Tensor) -> Tensor:
        """The predicted standard deviation in standardised units, `(n, K)`."""
        if self.loss_name != "gaussian":
            return torch.ones_like(self.point(out))
        return torch.exp(0.5 * out.chunk(2, dim=-1)[1].clamp(-12, 8))

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """The chosen loss on standardised targets."""
        return LOSSES[self.loss_name](out, y, self)

    def misfit(self, out: Tensor, y: Tensor) -> Tensor:
        """Error of each answer, `(n,)`: the largest error of its targets."""
        return self.errors(out, y).amax(1)

    def errors(self, out: Tensor, y: Tensor) -> Tensor:
        """|answer - truth| in standard deviations of each target, `(n, K)`; 0 for a target that never changes."""
        return (self.point(out) - y).abs() * (y.new_tensor(self.scale) > CONSTANT)

    def resolution(self, like: Tensor) -> Tensor:
        """Smallest value of each target that counts as different from zero, `(K,)`: a thousandth of its spread."""
        spread = [0.0 if target.log else scale for target, scale in zip(self.targets, self.scale, strict=True)]
        return 1e-3 * like.new_tensor(spread)

    def predict(self, out: Tensor, coverage: float | None = None) -> Prediction:
        """Values in the targets' units, with intervals where a coverage is asked for."""
        values, uncertainty = self.physical(out).numpy(), self.uncertainty(out).numpy()
        return quantities(self.targets, values, uncertainty, self.scores, coverage)

    def metrics(self, out: Tensor, y: Tensor) -> dict[str, float]:
        """MAE, RMSE, MAPE and R² of each target in its units, their means, and the RMSE in standard deviations.

        A single sample has no R², and a target that may be zero has no MAPE. A calibrated task also reports which share
        of the truths lies in its 90 % intervals.
        """
        value, truth = self.physical(out).double(), self.decode(y).double()
        scores: dict[str, float] = {"loss": float(self.loss(out, y))}
        resolution = self.resolution(truth)
        never_zero = (truth > resolution).all(0) | (truth < -resolution).all(0)
        for name, function in _score_functions(len(truth)).items():
            columns = [i for i in range(len(self.targets)) if name != "mape" or never_zero[i]]
            each = {self.targets[i].name: float(function(value[:, i], truth[:, i])) for i in columns}
            if len(self.targets) > 1:
                scores |= {f"{name}/{target}": score for target, score in each.items()}
            if each:
                scores[name] = float(np.mean([*each.values()]))
        scores["rmse_scaled"] = float((self.point(out) - y).square().mean().sqrt())
        if self.bounds(0.9):
            scores["coverage90"] = float(((value - truth).abs() <= self.half_width(out, 0.9)).float().mean())
        return scores

    def calibrated(self, out: Tensor, y: Tensor, most: int = _CALIBRATION_SCORES) -> Self:
        """The same task with the scores of a held-out part, for split-conformal intervals."""
        scores = (self.physical(out) - self.decode(y)).abs() / self.uncertainty(out)  # (n, K)
        ordered = scores.double().sort(dim=0).values
        if len(ordered) > most:
            ordered = ordered[torch.linspace(0, len(ordered) - 1, most).round().long()]
        return replace(self, scores=tuple(tuple(column) for column in ordered.T.tolist()), calibrated_on=len(out))

    def bounds(self, coverage: float) -> bool:
        """Whether there are enough validation samples for intervals of this coverage."""
        return bool(self.scores) and rank_of(len(self.scores[0]), coverage) <= len(self.scores[0])

    def half_width(self, out: Tensor, coverage: float) -> Tensor:
        """Half the width of the interval that covers the truth with this probability, `(n, K)`, in units."""
        return self.uncertainty(out) * out.new_tensor(half_widths(self.scores, coverage))

    def initial_outputs(self, y: NDArray[Any]) -> Tensor | None:
        """Outputs for the model to begin with, `(outputs,)`; None leaves them to its first weights."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "kind": self.kind, "targets": [asdict(target) for target in self.targets], "mean": list(self.mean),
            "scale": list(self.scale), "loss": self.loss_name, "scores": [list(column) for column in self.scores],
            "calibrated_on": self.calibrated_on,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        targets = tuple(Target(**target) for target in values["targets"])
        scores = tuple(tuple(column) for column in values["scores"])
        count = values.get("calibrated_on", len(scores[0]) if scores else 0)  # runs of earlier versions lack it
        mean, scale = tuple(values["mean"]), tuple(values["scale"])
        if not len(targets) == len(mean) == len(scale) or len(scores) not in (0, len(targets)):
            raise InputError(f"is damaged (found {len(mean)} means for {len(targets)} targets)")
        return cls(targets, mean, scale, values["loss"], scores, count)


def _score_functions(samples: int) -> dict[str, Callable[[Tensor, Tensor], Any]]:
    """Scores of one target by name; R² needs two samples."""
    from torchmetrics import functional

    functions: dict[str, Callable[[Tensor, Tensor], Any]] = {
        "mae": functional.mean_absolute_error,
        "rmse": lambda a, b: functional.mean_squared_error(a, b, squared=False),
        "mape": functional.mean_absolute_percentage_error,
    }
    return functions | ({"r2": functional.r2_score} if samples > 1 else {})


@dataclass(frozen=True)
class Mixture(Regression):
    """Quantities for which one input may allow several answers.

    The loss is the negative log-likelihood of a mixture of Laplace distributions; the answer is the median of the
    component with the largest weight. Outputs are H·K medians, H·K log-widths and H log-weights. The loss cannot be
    chosen: `loss_name` stays empty.
    """

    kind: ClassVar[str] = "mixture"
    better: ClassVar[tuple[str, str]] = ("loss", "min")
    loss_name: str = ""
    hypotheses: int = 4

    def __post_init__(self) -> None:
        if self.loss_name:
            raise InputError(f"loss: found {self.loss_name!r}, but a task with several hypotheses has its own loss")

    @property
    def outputs(self) -> int:
        return self.hypotheses * (2 * len(self.targets) + 1)

    def parts(self, out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Medians and log-widths `(n, H, K)`, standardised, and log-weights `(n, H)`."""
        each = self.hypotheses * len(self.targets)
        medians, widths, weights = out.split([each, each, self.hypotheses], dim=1)
        shape = (out.shape[0], self.hypotheses, len(self.targets))
        return medians.reshape(shape), widths.reshape(shape).clamp(-7, 3), weights.log_softmax(1)

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """The mixture's negative log-likelihood per target."""
        medians, widths, weights = self.parts(out.float())
        misfit = ((medians - y[:, None]).abs() * torch.exp(-widths) + widths).sum(2)  # (n, H)
        return -torch.logsumexp(weights - misfit, dim=1).mean() / len(self.targets)

    def point(self, out: Tensor) -> Tensor:
        """The medians of the component with the largest weight, `(n, K)`."""
        return self._likeliest(out, self.parts(out)[0])

    def _spread(self, out: Tensor) -> Tensor:
        return self._likeliest(out, self.parts(out)[1]).exp() * 2**0.5

    def _likeliest(self, out: Tensor, values: Tensor) -> Tensor:
        """Of values `(n, H, K)` those of the component with the largest weight, `(n, K)`."""
        best = self.parts(out)[2].argmax(1)  # (n,)
        return values.gather(1, best[:, None, None].expand(-1, 1, values.shape[2])).squeeze(1)

    def initial_outputs(self, y: NDArray[Any]) -> Tensor:
        """Outputs for the model to begin with, `(outputs,)`: medians far apart among the targets `y`."""
        encoded = self.encode(y).clamp(-1.5, 1.5)  # first, or outliers would end on one place
        chosen = [encoded.mean(0)]
        for _ in range(self.hypotheses):
            chosen.append(encoded[torch.cdist(encoded, torch.stack(chosen)).amin(1).argmax()])
        medians = torch.stack(chosen[1:])
        return torch.cat([medians.flatten(), torch.zeros(medians.numel() + self.hypotheses)])

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"hypotheses": self.hypotheses}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; the name of a loss that earlier versions wrote, and ignored, is dropped."""
        return replace(super().from_dict({**values, "loss": ""}), hypotheses=values["hypotheses"])
