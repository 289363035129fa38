"""The task of a pre-training: its loss, its scores and its entry in `task.json`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.nn.pretraining import PretrainConfig
from vitreous.run.folder import PRETRAINING


def _explained(out: Tensor) -> Tensor:
    return 1 - out[:, 0].sum() / out[:, 1].sum().clamp(min=1e-12)


_SCORES: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {  # beside the loss
    "masked": ("explained", _explained),  # share of the hidden variance
    "denoise": ("removed", _explained),  # share of the damage
    "contrast": ("nearest", lambda out: out[:, 1].mean()),  # how often a view is nearest to its pair
}


@dataclass(frozen=True)
class Pretext:
    """A task without labels; the outputs of the model are numbers about each sample, its loss first."""

    kind: ClassVar[str] = PRETRAINING
    better: ClassVar[tuple[str, str]] = ("loss", "min")
    config: PretrainConfig

    def encode(self, y: NDArray[Any] | Tensor) -> Tensor:
        """Labels of zero numbers, `(n, 0)`."""
        return torch.zeros(len(y), 0, device=y.device if isinstance(y, Tensor) else None)

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """The mean of the samples' losses."""
        return out[:, 0].mean()

    def metrics(self, out: Tensor) -> dict[str, float]:
        """The loss and the score of the method."""
        name, score = _SCORES[self.config.method]
        return {"loss": float(out[:, 0].mean()), name: float(score(out))}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"kind": self.kind, **self.config.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Pretext":
        """The inverse of `to_dict`."""
        return cls(PretrainConfig.from_dict({name: value for name, value in values.items() if name != "kind"}))
