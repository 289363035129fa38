"""What all tokenizers share: the tokens they return, their settings, and the checks of a batch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.core.settings import Settings
from vitreous.nn.attention.bias import Layout

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig


class Tokens(NamedTuple):
    """The output of a tokenizer."""

    values: Tensor
    """`(B, N, D)`."""
    mask: Tensor | None
    """`(B, N)`: True for tokens with data; None if all have data."""
    coords: Tensor
    """`(N, axes)` or `(B, N, axes)`: coordinates in the units of the input."""


class Contents(NamedTuple):
    """The input numbers that each token represents: the target of pre-training."""

    values: Tensor
    """`(B, N, shown)`."""
    mask: Tensor | None
    """`(B, N)`: True for tokens with data; None if all have data."""
    coords: Tensor | None = None
    """`(B, N, axes)`: coordinates, for sets that contain them."""


class Tokenizer(nn.Module):
    """Base class of all tokenizers: a forward from the input to `Tokens`."""

    is_grid: bool = False
    """Whether the tokens are a regular grid."""
    ranked: bool = False
    """Whether a token whose content is hidden is located by its number in the sequence, not by its coordinates."""
    axes: int = 0
    """Coordinates of a token."""
    shape: tuple[int, ...]
    """Tokens along each axis; `(most,)` if the tokens are no grid."""
    index: Tensor
    """`(most, axes)`, position of each token on the token grid; grids only."""
    shown: int
    """Numbers that a token represents: the last axis of `contents`."""

    @property
    def most(self) -> int:
        """Largest number of tokens."""
        return math.prod(self.shape)

    def contents(self, x: Tensor, mask: Tensor | None = None) -> Contents:
        """The input numbers that each token represents."""
        raise NotImplementedError

    def layout(self, prefix: int) -> Layout:
        """Where the tokens are, for attention that depends on it."""
        return Layout(self.index if self.is_grid else torch.zeros(self.most, 0), self.shape, prefix)

    def hiding_units(self, values: Tensor) -> Tensor:
        """`(N,)`: tokens with equal numbers are hidden together. `values` are the contents `(B, N, shown)`."""
        return torch.arange(values.shape[1], device=values.device)

    def hide(self, x: Tensor, values: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The input without what only hidden tokens `(B, N)` show, and which of the contents are really hidden."""
        return x, hidden.unsqueeze(-1).expand_as(values)

    def picture(self, x: Tensor) -> Tensor:
        """The input for a figure; a table of the contents `(B, N, shown)` unless it is a grid."""
        return self.contents(x).values

    def visible(self, hidden: Tensor) -> Tensor:
        """Which numbers of `picture` can be seen while the tokens `hidden` `(B, N)` are hidden."""
        return ~hidden.unsqueeze(-1)

    def assemble(self, values: Tensor) -> Tensor:
        """Contents `(B, N, shown)` in the form of `picture`."""
        return values


@dataclass(frozen=True)
class TokenizerConfig(Settings):
    """Base class of the settings of one tokenizer."""

    kind: ClassVar[str]
    """The word for it in `ViTConfig(tokens=…)`."""
    builds: ClassVar[type[Tokenizer]]
    """The tokenizer."""
    is_set: ClassVar[bool] = False
    """Whether tokens are elements without an order, of which a sample may have fewer than the model takes."""
    has_mask: ClassVar[bool] = True
    """Whether samples themselves say which tokens are missing."""
    zero_is_missing: ClassVar[bool] = False
    """Whether zeros in a sample mark missing tokens, so that samples must not be scaled."""
    searches: ClassVar[bool] = False
    """Whether tokens are searched for in the values of a sample."""

    @property
    def is_grid(self) -> bool:
        """Whether its tokens are a regular grid."""
        return self.builds.is_grid

    def complete(self, c: "ViTConfig") -> Self:
        """A copy that fits the rest of the model's settings; `InputError` if there is none."""
        raise NotImplementedError

    def _spread(self, name: str, axes: int, c: "ViTConfig") -> tuple[Any, ...]:
        """A setting with one value for each axis; a single value is repeated."""
        value: tuple[Any, ...] = getattr(self, name)
        if len(value) not in (1, axes):
            raise InputError(f"{name}: found {value}, expected one number for each axis of input {c.input}")
        return value * axes if len(value) == 1 else value

    def _scales(self, axes: int, c: "ViTConfig") -> dict[str, Any]:
        """`origin` and `spacing`, of the parts that have them, with one value for each axis."""
        if c.position == "sinusoidal" and c.dim < 2 * axes:
            raise InputError(f"dim: {c.dim} is too narrow for sinusoidal positions along {axes} axes")
        scales = {name: self._spread(name, axes, c) for name in ("origin", "spacing") if getattr(self, name, ())}
        if any(step == 0 for step in scales.get("spacing", ())):
            raise InputError(f"spacing: found {scales['spacing']}, expected steps other than 0")
        return scales


def check_unordered(c: "ViTConfig") -> None:
    """Raise `InputError` for settings that need tokens in a fixed order."""
    if c.bias == "relative":
        raise InputError("bias: 'relative' needs a grid; pass the biases of a set to forward as pairwise=")
    for name, choice in (("pool", "flatten"), ("score", "location")):
        if getattr(c, name) == choice:
            raise InputError(f"{name}: {choice!r} needs a fixed order of tokens, which a set does not have")


def check_self_located(c: "ViTConfig") -> None:
    """Raise `InputError` for settings that do not fit tokens whose content includes their position."""
    if c.position != "none":
        raise InputError(f"position: found {c.position!r}; {c.tokens} contain their position, so it must be 'none'")
    check_unordered(c)


def check_batch(x: Tensor, expected: Sequence[int], weight: Tensor) -> None:
    """Raise `InputError` unless `x` is `(batch, *expected)` with the data type of the model's weights."""
    _check_type(x, weight)
    if tuple(x.shape[1:]) != tuple(expected):
        shape = format_shape(("batch", *expected))
        raise InputError(f"input: found a batch of shape {format_shape(x.shape)}, expected {shape}")


def check_elements(x: Tensor, rows: int, most: int, weight: Tensor) -> None:
    """Raise `InputError` unless `x` is `(batch, rows, N ≤ most)` with the data type of the model's weights."""
    _check_type(x, weight)
    if x.dim() != 3 or x.shape[1] != rows or x.shape[2] > most:
        shape = format_shape(("batch", rows, f"at most {most}"))
        raise InputError(f"input: found a batch of shape {format_shape(x.shape)}, expected {shape}")


def check_mask(mask: Tensor, shape: Sequence[int]) -> None:
    """Raise `InputError` unless a mask is boolean and has this shape."""
    if mask.dtype != torch.bool or tuple(mask.shape) != tuple(shape):
        actual = f"{mask.dtype} of shape {format_shape(mask.shape)}"
        raise InputError(f"mask: found {actual}, expected torch.bool of shape {format_shape(shape)}")


def check_alone(mask: Tensor | None, coords: Tensor | None, what: str) -> None:
    """Raise `InputError` if a tokenizer that derives mask and coordinates from its input is passed some."""
    if mask is not None or coords is not None:
        raise InputError(f"mask, coords: {what}; only sets and grids take them as arguments")


def _check_type(x: object, weight: Tensor) -> None:
    """Raise `InputError` unless a batch is a tensor of the model's data type; autocast allows all real types."""
    if not isinstance(x, Tensor):
        raise InputError(f"input: found {type(x).__module__}.{type(x).__name__}, expected a torch.Tensor")
    mixed = x.is_floating_point() and x.device.type != "meta" and torch.is_autocast_enabled(x.device.type)
    if x.dtype != weight.dtype and not mixed:
        raise InputError(f"input: found {x.dtype}, expected {weight.dtype} like the model")


def format_shape(shape: Sequence[object]) -> str:
    """A shape for an error message."""
    return f"({', '.join(str(n) for n in shape)})"
