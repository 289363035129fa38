"""The pieces of an input that are attended to, credited or taken away.

On a grid a transformer attends to patches, which may overlap; what is taken away are cells, which do not. Peaks, lines
and elements of a set are the tokens themselves.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from vitreous.nn.config import ViTConfig
from vitreous.nn.models import Config
from vitreous.nn.tokens import token_grid
from vitreous.nn.vit import ViT
from vitreous.train.predictor import Predictor

Box = tuple[slice, ...]
_CELLS = {1: 64, 2: 8, 3: 4}  # of a CNN, along each of so many axes


def model_input(predictor: Predictor, samples: ArrayLike) -> Tensor:
    """Raw samples `(n, channels, *grid)` as the model takes them, on its device."""
    device = next(predictor.model.parameters()).device
    return predictor.scaling(torch.from_numpy(predictor.check(samples)).to(device))


def array(x: Tensor) -> NDArray[np.float64]:
    """A tensor as an array of double precision."""
    return np.asarray(x.detach().cpu().double().numpy())


def boxes(config: Config) -> list[Box] | None:
    """The samples of each patch along every axis of the grid; None where the tokens are no part of a grid."""
    step = _step(config)
    if step is None:
        return None
    patch = config.patch if isinstance(config, ViTConfig) else step
    return [
        tuple(slice(i * s, i * s + p) for i, s, p in zip(place, step, patch, strict=True))
        for place in np.ndindex(*token_grid(config.grid, patch, step))
    ]


def cells(config: Config) -> NDArray[np.intp] | None:
    """The number of the cell that each sample is in, `(*grid)`; cells are as large as the step between patches.

    Were patches taken away that overlap, their neighbours would still show what is in them.
    """
    step = _step(config)
    if step is None:
        return None
    along = [np.arange(n) // s for n, s in zip(config.grid, step, strict=True)]
    return np.asarray(np.ravel_multi_index(np.ix_(*along), tuple(int(i[-1]) + 1 for i in along)))


def _step(config: Config) -> tuple[int, ...] | None:
    if isinstance(config, ViTConfig):
        return config.stride if config.tokens == "patch" else None
    return tuple(-(-n // _CELLS[len(config.grid)]) for n in config.grid)


def spread(values: NDArray[Any], units: Sequence[Box], grid: Sequence[int]) -> NDArray[np.float64]:
    """Values of units `(N,)` over the samples of the grid; where units overlap, their mean.

    >>> spread(np.array([1.0, 3.0]), [(slice(0, 3),), (slice(2, 5),)], (5,))
    array([1., 1., 2., 3., 3.])
    """
    total, count = np.zeros(grid), np.zeros(grid)
    for value, box in zip(values, units, strict=True):
        total[box] += value
        count[box] += 1
    return total / np.maximum(count, 1)


def in_cells(values: NDArray[Any], config: Config) -> NDArray[Any]:
    """One number a cell: the sum of a map `(*grid)`, or the mean of one of patches `(N,)`; other tokens as they are."""
    where, patches = cells(config), boxes(config)
    if where is None or patches is None:
        return values
    if values.shape == config.grid:
        return np.bincount(where.ravel(), values.ravel())
    return np.bincount(where.ravel(), spread(values, patches, config.grid).ravel()) / np.bincount(where.ravel())


def on_grid(config: ViTConfig, coords: Tensor) -> Tensor:
    """Coordinates of patches or peaks `(..., axes)` in the unit of the config, counted in samples of the grid."""
    return (coords - coords.new_tensor(config.origin or (0.0,))) / coords.new_tensor(config.spacing or (1.0,))


def coordinates(predictor: Predictor) -> tuple[str, ...]:
    """What the coordinates of tokens that are no part of a grid are called, e.g. `rapidity`, `azimuth (rad)`."""
    config, channels = predictor.model.config, predictor.channels
    if isinstance(config, ViTConfig) and config.tokens == "packed":
        return channels[len(channels) - config.axes :] or (predictor.axes[0].label,)
    return channels[:1]


@torch.no_grad()
def places(predictor: Predictor, sample: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Where the tokens of a sample lie that are no part of a grid, `(N,)`, and which of them there are.

    Peaks lie along the axis in its unit, lines where their first number says, elements of a packed set where their
    first coordinate says, and those of a set without coordinates in their order.
    """
    model = predictor.model
    assert isinstance(model, ViT)
    tokens = model.tokenizer(model_input(predictor, np.asarray(sample)[None]))
    count = tokens.values.shape[1]
    present = np.ones(count, dtype=bool) if tokens.mask is None else tokens.mask[0].cpu().numpy()
    if not tokens.coords.shape[-1]:
        return np.arange(count, dtype=np.float64), present
    where = tokens.coords.double().reshape(-1, count, tokens.coords.shape[-1])[0, :, 0]  # of the one sample
    if model.config.tokens == "peaks":
        axis = predictor.axes[0]
        where = axis.origin + axis.spacing * on_grid(model.config, where)
    return array(where), present
