"""Mixture regression: several hypotheses for one input, each with a weight and an uncertainty."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.run.regression import Regression


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
        """Number of outputs of the model."""
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
        """Outputs to begin with, `(outputs,)`: medians far apart among the targets `y`."""
        encoded = self.encode(y).clamp(-1.5, 1.5)  # first, or outliers would end on one place
        chosen = [encoded.mean(0)]
        for _ in range(self.hypotheses):
            chosen.append(encoded[torch.cdist(encoded, torch.stack(chosen)).amin(1).argmax()])
        medians = torch.stack(chosen[1:])
        return torch.cat([medians.flatten(), torch.zeros(medians.numel() + self.hypotheses)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return super().to_dict() | {"hypotheses": self.hypotheses}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; the name of a loss that earlier versions wrote, and ignored, is dropped."""
        return replace(super().from_dict({**values, "loss": ""}), hypotheses=values["hypotheses"])
