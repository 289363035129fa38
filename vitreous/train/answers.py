"""What a model answers to many samples, and a run's answers on its test part, kept beside the truth in `test.npz`.

A report is then made from the run folder alone, wherever the data are. No pickle: the file holds plain arrays.
"""

import io
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor, nn

from vitreous.atomic import write_atomically
from vitreous.data.scale import Scaling
from vitreous.errors import InputError
from vitreous.train.task import Regression, Task

ANSWERS = "test.npz"
_VALUES = 2_000_000  # outputs that are kept at most
_MAPPED = 1_000  # samples whose features are kept at most
_SHOWN = 16  # samples that are kept themselves
_BYTES = 4_000_000  # that those samples may take, but that two are kept however large


@dataclass(frozen=True)
class Answers:
    """Raw outputs for n labelled samples, with a few of the samples and the features of some.

    Args:
        rows: `(n,)` where the samples lie in their source.
        y: class numbers `(n,)`, or quantities `(n, targets)` in their units.
        out: `(n, K)`, what the task reads.
        shown: `(m,)` which of the n are kept as samples: the worst, then as many that are drawn evenly from the rest,
            each half from bad to good.
        samples: `(m, channels, *grid)`, as they came from the source.
        mapped: `(k,)` which of the n have features.
        features: `(k, D)`, what the model's head is given.
    """

    rows: NDArray[Any]
    y: NDArray[Any]
    out: NDArray[Any]
    shown: NDArray[Any]
    samples: NDArray[Any]
    mapped: NDArray[Any]
    features: NDArray[Any]

    @property
    def drawn(self) -> slice:
        """Which of the samples are not kept for their errors; the only one where there are no more."""
        return slice(len(self.shown) // 2, None)

    def fit(self, task: Task, input: Sequence[int]) -> bool:
        """Whether they can be those of a model with this task and input."""
        n = self.rows.size
        labels = (n, len(task.targets)) if isinstance(task, Regression) else (n,)
        shapes = (labels, (n, task.outputs), (self.shown.size, *input), (self.mapped.size,))
        return shapes == (self.y.shape, self.out.shape, self.samples.shape, self.features.shape[:1])


def outputs(
    model: Callable[[Tensor], Tensor],
    x: NDArray[Any],
    rows: NDArray[np.intp],
    scaling: Callable[[Tensor], Tensor],
    accelerator: Accelerator | None = None,
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
    found = []
    with torch.no_grad():
        for start in range(0, length, batch):
            part = np.ascontiguousarray(x[mine[start : start + batch]])
            found.append(model(scaling(torch.from_numpy(part).to(device))).float())
    out = torch.cat(found)[:share]
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
    accelerator: Accelerator | None = None,
    batch: int = 256,
) -> tuple[Tensor, Answers]:
    """Raw outputs for rows of `x`, as `outputs` gives them, and what is to be kept of them beside the labels `y`."""
    kept = evenly(len(rows), max(1, _VALUES // task.outputs))
    mapped = evenly(len(kept), _MAPPED)
    some, others = kept[mapped], np.setdiff1d(np.arange(len(rows)), kept[mapped])
    both = outputs(_with_features(model), x, rows[some], scaling, accelerator, batch)
    out = both.new_empty(len(rows), task.outputs)
    out[some], features = both.tensor_split([task.outputs], dim=1)
    if len(others):
        out[others] = outputs(model, x, rows[others], scaling, accelerator, batch)
    truth = np.asarray(y[rows[kept]])
    order = task.misfit(out[kept], task.encode(truth)).argsort(descending=True).numpy()
    count = min(_SHOWN, len(kept), max(2, _BYTES // max(1, x[:1].nbytes)))
    worst, rest = np.split(order, [count - count // 2])
    shown = np.concatenate([worst, rest[_middles(len(rest), count // 2)]])
    return out, Answers(
        rows[kept], truth, out[kept].numpy(), shown, np.asarray(x[rows[kept][shown]]), mapped, features.numpy()
    )


def _with_features(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The model, but its outputs `(B, K)` are followed by what its head is given, `(B, K + D)`."""

    def both(x: Tensor) -> Tensor:
        found: list[Tensor] = []
        handle = model.get_submodule("head").register_forward_pre_hook(lambda _, given: found.extend(given))
        try:
            return torch.cat([model(x), *found], dim=1)
        finally:
            handle.remove()

    return both


def evenly(count: int, most: int) -> NDArray[np.intp]:
    """Up to `most` of so many places, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(most, max(0, count))).round().astype(np.intp))


def _middles(count: int, parts: int) -> NDArray[np.intp]:
    """The places in the middle of equal parts of so many."""
    return ((np.arange(parts) + 0.5) * count / max(1, parts)).astype(np.intp)


def write_answers(folder: Path, answers: Answers) -> None:
    """Leave the answers in a run folder."""
    content = io.BytesIO()
    np.savez_compressed(content, **asdict(answers))
    write_atomically(folder / ANSWERS, content.getvalue())


def read_answers(folder: Path) -> Answers | None:
    """The answers that a run folder holds, if it does."""
    path = folder / ANSWERS
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return Answers(**arrays)
    except (ValueError, TypeError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as fault:
        raise InputError(f"{path}: is damaged ({fault}); delete it to do without") from None
