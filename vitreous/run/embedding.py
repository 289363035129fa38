"""The task of an embedding: samples become unit vectors, near each other for a measurement and what it contains.

It is trained on references, each of one thing, and on measurements of mixtures of these things (InfoNCE in both
directions, as CLIP, with several right answers).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.data.source import Target
from vitreous.run.prediction import Prediction, Scores

FIRST = (1, 10)
"""Numbers of references among which the scores look for the contents of a measurement."""

_NEVER = -1e4  # logit of what is no candidate; finite, so that gradients are


class Contents(NamedTuple):
    """What the samples of a batch hold, as the task's labels `(n, 1 + 2K)` say it."""

    reference: Tensor  # (n,), whether a sample is a reference; the others are measurements
    things: Tensor  # (n, K), numbers of the things in a sample, -1 for none; a reference is of the first one
    shares: Tensor  # (n, K), of the things in a measurement


def check_answers(task: object, run: object) -> None:
    """Raise `InputError` for a run of an embedding, whose answers are neither classes nor quantities."""
    if isinstance(task, Embedding):
        raise InputError(f"{run}: found a run of an embedding, expected one that answers with classes or quantities")


def encode_contents(contents: Contents) -> Tensor:
    """Labels `(n, 1 + 2K)`."""
    return torch.cat([contents.reference[:, None].float(), contents.things.float(), contents.shares.float()], dim=1)


def decode_contents(y: Tensor) -> Contents:
    """The inverse of `encode_contents`."""
    things, shares = y[:, 1:].chunk(2, dim=1)
    return Contents(y[:, 0] > 0.5, things, shares)


@dataclass(frozen=True)
class Embedding:
    """Unit vectors of `size` numbers; outputs are vectors of any length.

    Args:
        size: numbers of a vector.
        temperature: of the softmax over cosines.
        power: of the shares of a mixture, by which its components share the target.
    """

    kind: ClassVar[str] = "embedding"
    better: ClassVar[tuple[str, str]] = ("loss", "min")
    main_score: ClassVar[str] = "top10"
    classes: ClassVar[tuple[str, ...]] = ()
    scores: ClassVar[Scores] = ()
    size: int
    temperature: float = 0.05
    power: float = 0.5

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"size: found {self.size}, expected at least 1")
        if not self.temperature > 0:
            raise InputError(f"temperature: found {self.temperature:g}, expected a number above 0")

    @property
    def outputs(self) -> int:
        """Number of outputs of the model."""
        return self.size

    @property
    def targets(self) -> tuple[Target, ...]:
        """The numbers of the vector."""
        return tuple(Target(f"e{i}") for i in range(self.size))

    def encode(self, y: NDArray[Any] | Tensor) -> Tensor:
        """Labels as they are, see `encode_contents`."""
        return y if isinstance(y, Tensor) else torch.from_numpy(np.array(y, np.float32))

    def point(self, out: Tensor) -> Tensor:
        """Unit vectors `(n, size)`."""
        return F.normalize(out, dim=-1)

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy of each measurement over all references, and of each reference over all measurements."""
        contents = decode_contents(y)
        cosine = self._cosines(out) / self.temperature
        target = _containment(contents, self.power)
        rows, columns = ~contents.reference, contents.reference
        return (_cross_entropy(cosine, target, rows, columns) + _cross_entropy(cosine, target.T, columns, rows)) / 2

    def misfit(self, out: Tensor, y: Tensor) -> Tensor:
        """Error of each answer, `(n,)`: 1 minus the cosine to the references of the contents, weighted; or 0."""
        target = _containment(decode_contents(y), self.power)
        return (target * (1 - self._cosines(out))).sum(1) / target.sum(1).clamp(min=1e-12)

    def metrics(self, out: Tensor, y: Tensor) -> dict[str, float]:
        """Loss; shares of measurements whose strongest component, and of all components, are the nearest references.

        `top10`: the strongest component is among the ten nearest references. `all10`: of all components, how many are.
        """
        contents = decode_contents(y)
        share = _containment(contents, 1.0)[~contents.reference][:, contents.reference]  # (M, R)
        cosine = self._cosines(out)[~contents.reference][:, contents.reference]
        scores = {"loss": float(self.loss(out, y))}
        if not share.numel():
            return scores | {f"{name}{n}": 0.0 for n in FIRST for name in ("top", "all")}
        present = share > 0
        strongest = cosine.gather(1, share.argmax(1, keepdim=True))
        rank = (cosine > strongest).sum(1)
        ranks = cosine.argsort(1, descending=True).argsort(1)  # how many references are nearer than each
        for n in FIRST:
            scores[f"top{n}"] = float((rank < n).float().mean())
            scores[f"all{n}"] = float((ranks[present] < n).float().mean())
        return scores

    def predict(self, out: Tensor, coverage: float | None = None) -> Prediction:
        """Unit vectors; they have no intervals, so `coverage` changes nothing."""
        return Prediction(targets=self.targets, values=self.point(out).double().numpy())

    def calibrated(self, out: Tensor, y: Tensor) -> "Embedding":
        """The task itself: there are no intervals."""
        return self

    def initial_outputs(self, y: NDArray[Any]) -> None:
        """None: the outputs of the first weights are as good as any."""

    def bounds(self, coverage: float) -> bool:
        """Whether intervals of this coverage can be given: never."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"kind": self.kind, "size": self.size, "temperature": self.temperature, "power": self.power}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Embedding":
        """The inverse of `to_dict`."""
        return cls(values["size"], values["temperature"], values["power"])

    def _cosines(self, out: Tensor) -> Tensor:
        """`(n, size) -> (n, n)`."""
        vectors = self.point(out.float())
        return vectors @ vectors.T


def _containment(contents: Contents, power: float) -> Tensor:
    """Shares to a power `(n, n)` of the references (columns) in the measurements (rows), 0 elsewhere."""
    same = contents.things[:, None] == contents.things[None, :, :1]  # (n, n, K)
    pairs = ~contents.reference[:, None] & contents.reference[None]
    share = contents.shares.clamp(min=1e-12).pow(power) * (contents.shares > 0)
    return (same * share[:, None]).sum(-1) * pairs


def _cross_entropy(logits: Tensor, target: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The mean over rows with a target; without indexing by a mask, which a CUDA graph cannot record."""
    log_softmax = logits.masked_fill(~columns[None], _NEVER).log_softmax(1)
    total = target.sum(1)
    each = -(target * log_softmax).sum(1) / total.clamp(min=1e-12)
    counted = rows & (total > 0)
    return each.masked_fill(~counted, 0.0).sum() / counted.sum().clamp(min=1)
