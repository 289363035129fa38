"""Outputs of a model for many samples, and a run's answers on its test part, stored with the truth in `test.npz`.

A report needs the run folder alone, wherever the data are. No pickle: the file holds plain arrays.
"""

import io
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vitreous.core.atomic import write_atomically
from vitreous.core.batching import split_into_batches
from vitreous.core.checksums import read_verified
from vitreous.core.errors import InputError
from vitreous.data.scale import Scaling
from vitreous.run.familiarity import Familiarity
from vitreous.run.task import Task

if TYPE_CHECKING:  # heavy, and only trainings have one
    from accelerate import Accelerator

ANSWERS = "test.npz"


@dataclass(frozen=True)
class StorageLimits:
    """How much of the answers is stored."""

    outputs: int = 2_000_000  # numbers
    features: int = 1_000  # samples with features
    samples: int = 16  # samples that are stored themselves
    sample_bytes: int = 4_000_000  # size of those samples; two are stored however large they are


_LIMITS = StorageLimits()


@dataclass(frozen=True)
class Answers:
    """Raw outputs for n labelled samples, with a few of the samples and the features of some.

    Args:
        rows: `(n,)` row of each sample in its source.
        y: class numbers `(n,)`, or quantities `(n, targets)` in their units.
        out: `(n, K)`, the model's outputs.
        shown: `(m,)` which of the n samples are stored: the worst, then as many drawn evenly from the rest, each half
            from bad to good.
        samples: `(m, channels, *grid)`, as in the source.
        mapped: `(k,)` which of the n samples have features.
        features: `(k, D)`, the input of the model's head.
        familiarity: `(k,)`, how familiar those samples are; empty if that is not known.
    """

    rows: NDArray[Any]
    y: NDArray[Any]
    out: NDArray[Any]
    shown: NDArray[Any]
    samples: NDArray[Any]
    mapped: NDArray[Any]
    features: NDArray[Any]
    familiarity: NDArray[Any] = field(default_factory=lambda: np.zeros(0))

    @property
    def drawn(self) -> slice:
        """The stored samples that were drawn evenly; the only one if there is just one."""
        return slice(len(self.shown) // 2, None)

    def fit(self, task: Task, input: Sequence[int]) -> bool:
        """Whether they can come from a model with this task and input."""
        n = self.rows.size
        labels = (n, len(task.targets)) if task.targets else (n,)
        shapes = (labels, (n, task.outputs), (self.shown.size, *input), (self.mapped.size,))
        return shapes == (self.y.shape, self.out.shape, self.samples.shape, self.features.shape[:1])


def outputs(
    model: Callable[[Tensor], Tensor],
    x: NDArray[Any],
    rows: NDArray[np.intp],
    scaling: Callable[[Tensor], Tensor],
    accelerator: "Accelerator | None" = None,
    batch: int = 256,
    device: torch.device | None = None,
) -> Tensor:
    """Raw outputs `(len(rows), K)` of the model, computed in equal batches shared by all processes, on the CPU."""
    world = accelerator.num_processes if accelerator else 1
    rank = accelerator.process_index if accelerator else 0
    device = accelerator.device if accelerator else device or torch.device("cpu")
    share = -(-len(rows) // world)
    batch = max(1, min(batch, share))
    length = -(-share // batch) * batch
    mine = np.resize(rows[rank * share : (rank + 1) * share] if rank * share < len(rows) else rows, length)
    with torch.no_grad():
        parts = (torch.from_numpy(np.ascontiguousarray(x[chosen])) for chosen in split_into_batches(mine, batch))
        out = torch.cat([model(scaling(part.to(device))).float() for part in parts])[:share]
    if accelerator and world > 1:
        out = accelerator.gather(out)
    return out[: len(rows)].cpu()


def collect(
    model: nn.Module,
    task: Task,
    scaling: Scaling,
    x: NDArray[Any],
    y: NDArray[Any],
    rows: NDArray[np.intp],
    accelerator: "Accelerator | None" = None,
    batch: int = 256,
    limits: StorageLimits = _LIMITS,
    familiarity: Familiarity | None = None,
) -> tuple[Tensor, Answers]:
    """Raw outputs for rows of `x`, as `outputs` returns them, and the `Answers` to store, with the labels `y`."""
    stored = evenly(len(rows), max(1, limits.outputs // task.outputs))
    mapped = evenly(len(stored), limits.features)
    some, others = stored[mapped], np.setdiff1d(np.arange(len(rows)), stored[mapped])
    both = outputs(with_features(model), x, rows[some], scaling, accelerator, batch)
    out = both.new_empty(len(rows), task.outputs)
    out[some], features = both.tensor_split([task.outputs], dim=1)
    if len(others):
        out[others] = outputs(model, x, rows[others], scaling, accelerator, batch)
    truth = np.asarray(y[rows[stored]])
    order = task.misfit(out[stored], task.encode(truth)).argsort(descending=True).numpy()
    count = min(limits.samples, len(stored), max(2, limits.sample_bytes // max(1, x[:1].nbytes)))
    worst, rest = np.split(order, [count - count // 2])
    middles = (np.arange(count // 2) + 0.5) * len(rest) / max(1, count // 2)  # of equal parts of the rest
    shown = np.concatenate([worst, rest[middles.astype(np.intp)]])
    answers = Answers(
        rows[stored], truth, out[stored].numpy(), shown, np.asarray(x[rows[stored][shown]]), mapped, features.numpy()
    )
    if familiarity is None:
        return out, answers
    return out, replace(answers, familiarity=familiarity.p_values(np.asarray(x[rows[some]]), answers.features))


def with_features(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The model with outputs `(B, K)` followed by the input of its head, `(B, K + D)`."""

    def both(x: Tensor) -> Tensor:
        features: list[Tensor] = []
        handle = model.get_submodule("head").register_forward_pre_hook(lambda _, inputs: features.extend(inputs))
        try:
            return torch.cat([model(x), *features], dim=1)
        finally:
            handle.remove()

    return both


def evenly(count: int, most: int) -> NDArray[np.intp]:
    """Up to `most` of the numbers from 0 to `count - 1`, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(most, max(0, count))).round().astype(np.intp))


def write_answers(folder: Path, answers: Answers) -> None:
    """Write the answers to a run folder."""
    content = io.BytesIO()
    np.savez_compressed(content, **asdict(answers))
    write_atomically(folder / ANSWERS, content.getvalue())


def read_answers(folder: Path) -> Answers | None:
    """The answers in a run folder; None if there are none."""
    path = folder / ANSWERS
    if not path.is_file():
        return None
    content = io.BytesIO(read_verified(path))
    try:
        with np.load(content, allow_pickle=False) as arrays:
            return Answers(**arrays)
    except (ValueError, TypeError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as fault:
        raise InputError(f"{path}: is damaged ({fault}); delete it to do without") from None
