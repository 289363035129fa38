"""How a model runs: options that change speed, memory or what is recorded, but no weight.

`Network.set_execution` changes options for good, `executing` for the length of a `with` block.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vitreous.nn.kernels.linear import use_float8

if TYPE_CHECKING:
    from vitreous.nn.record import Record
    from vitreous.nn.reduction.reducer import Reducer


@dataclass(frozen=True)
class Execution:
    """Options of a forward pass. A model reads them from its attribute `execution`."""

    checkpointing: bool = False
    """Training: recompute each block for the backward pass instead of storing its activations. Has no effect where
    tokens are merged or dropped."""
    stream: torch.dtype | None = None
    """Data type of the tokens between blocks under autocast; None leaves it to autocast."""
    float8: bool = False
    """FP8 matrix multiplication in the linear layers of the blocks. Needs a GPU with FP8."""
    reducer: "Reducer | None" = None
    """Merges or drops tokens in every block; see `merged`."""
    recording: "Record | None" = None
    """Receives attention weights and intermediate values; see `record`."""
    token_counts: list[list[Tensor]] | None = None
    """Receives the token counts of every forward pass that merges or drops tokens; see `count_tokens`."""


class Network(nn.Module):
    """Base class of all models: their capabilities, and how they run."""

    attends: bool = False
    """Whether the model computes attention weights."""
    records: bool = False
    """Whether `record` works."""
    reduces: bool = False
    """Whether tokens can be merged or dropped."""
    blocks: nn.ModuleList
    """Blocks whose values `record` stores, of models that record."""
    execution: Execution = Execution()

    def set_execution(self, **changes: Any) -> None:
        """Change options of `Execution`."""
        self.execution = replace(self.execution, **changes)
        if "float8" in changes:
            use_float8(self, self.execution.float8)


@contextmanager
def executing(model: Network, **changes: Any) -> Iterator[None]:
    """Change options of `Execution` within the `with` block; other options may change meanwhile."""
    before = {name: getattr(model.execution, name) for name in changes}
    model.set_execution(**changes)
    try:
        yield
    finally:
        model.set_execution(**before)


def unwrap(model: nn.Module) -> nn.Module:
    """The model itself, without the wrapper of `torch.compile`."""
    inner: nn.Module = getattr(model, "_orig_mod", model)
    return inner
