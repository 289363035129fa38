"""What a model answers to many samples, and a run's answers on its test part, kept beside the truth in `test.npz`.

A report is then made from the run folder alone, wherever the data are. No pickle: the file holds plain arrays.
"""

import copy
import io
import zipfile
import zlib
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
from vitreous.train.task import Task

ANSWERS = "test.npz"
_VALUES = 2_000_000  # outputs that are kept at most
_MAPPED = 1_000  # samples whose features are kept at most
_WORST, _TYPICAL = 12, 4  # samples that are kept themselves
_BYTES = 4_000_000  # that those samples may take


@dataclass(frozen=True)
class Answers:
    """Raw outputs for n labelled samples, with a few of the samples and the features of some.

    Args:
        rows: `(n,)` where the samples lie in their source.
        y: class numbers `(n,)`, or quantities `(n, targets)` in their units.
        out: `(n, K)`, what the task reads.
        shown: `(m,)` which of the n are kept as samples: the worst first, then some drawn evenly.
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


def outputs(
    model: nn.Module,
    x: NDArray[Any],
    rows: NDArray[np.intp],
    scaling: Scaling,
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
    out: Tensor | None = None,
    accelerator: Accelerator | None = None,
    batch: int = 256,
) -> Answers:
    """The answers to rows of `x` and their labels `y`; `out` where the outputs are known already."""
    if out is None:
        out = outputs(model, x, rows, scaling, accelerator, batch)
    kept = evenly(len(rows), max(1, _VALUES // out.shape[1]))
    rows, out = rows[kept], out[kept]
    truth = np.asarray(y[rows])
    worst = task.misfit(out, task.encode(truth)).argsort(descending=True).numpy()
    most = max(_TYPICAL, min(_WORST, _BYTES // max(1, x[:1].nbytes) - _TYPICAL))
    shown = np.concatenate([worst[:most], worst[most:][evenly(len(worst) - most, _TYPICAL)]])
    mapped = evenly(len(rows), _MAPPED)
    bare = copy.deepcopy(model)
    bare.head = nn.Identity()
    features = outputs(bare, x, rows[mapped], scaling, accelerator, batch)
    return Answers(
        rows, truth, out.numpy(), shown, np.asarray(x[rows[shown]]), mapped, features.numpy().astype(np.float32)
    )


def evenly(count: int, most: int) -> NDArray[np.intp]:
    """Up to `most` of so many places, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(most, max(0, count))).round().astype(np.intp))


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
