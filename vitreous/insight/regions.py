"""Regions of an input to which attention and attributions are assigned.

On a grid these are patches, which may overlap, and cells, which do not. For peaks, lines and sets they are the tokens.
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
from vitreous.run.predictor import Predictor

Box = tuple[slice, ...]
_CNN_CELLS = {1: 64, 2: 8, 3: 4}  # cells of a CNN along each axis, by the number of axes


def model_input(predictor: Predictor, samples: ArrayLike) -> Tensor:
    """Scaled samples `(n, channels, *grid)` on the device of the model, from raw ones."""
    device = next(predictor.model.parameters()).device
    return predictor.scaling(torch.from_numpy(predictor.check(samples)).to(device))


def to_array(x: Tensor) -> NDArray[np.float64]:
    """A tensor as a double-precision array."""
    return np.asarray(x.detach().cpu().double().numpy())


def patch_boxes(config: Config) -> list[Box] | None:
    """The slices of the grid that each patch covers; None if the tokens are not patches of a grid."""
    step = _step(config)
    if step is None:
        return None
    patch = config.patch if isinstance(config, ViTConfig) else step
    return [
        tuple(slice(i * s, i * s + p) for i, s, p in zip(index, step, patch, strict=True))
        for index in np.ndindex(*token_grid(config.grid, patch, step))
    ]


def cell_numbers(config: Config) -> NDArray[np.intp] | None:
    """The cell number of each grid point, `(*grid)`, for cells as large as the stride, which do not overlap."""
    step = _step(config)
    if step is None:
        return None
    along = [np.arange(n) // s for n, s in zip(config.grid, step, strict=True)]
    return np.asarray(np.ravel_multi_index(np.ix_(*along), tuple(int(i[-1]) + 1 for i in along)))


def _step(config: Config) -> tuple[int, ...] | None:
    if isinstance(config, ViTConfig):
        return config.stride if config.tokens == "patch" else None
    return tuple(-(-n // _CNN_CELLS[len(config.grid)]) for n in config.grid)


def spread_to_grid(values: NDArray[Any], boxes: Sequence[Box], grid: Sequence[int]) -> NDArray[np.float64]:
    """Values of patches `(N,)` on the points of the grid; the mean where patches overlap.

    >>> spread_to_grid(np.array([1.0, 3.0]), [(slice(0, 3),), (slice(2, 5),)], (5,))
    array([1., 1., 2., 3., 3.])
    """
    total, count = np.zeros(grid), np.zeros(grid)
    for value, box in zip(values, boxes, strict=True):
        total[box] += value
        count[box] += 1
    return total / np.maximum(count, 1)


def map_to_grid(predictor: Predictor, values: NDArray[Any]) -> NDArray[Any]:
    """A map of patches `(N,)` on the points of the grid; a map of another kind unchanged."""
    grid, boxes = predictor.model.config.grid, patch_boxes(predictor.model.config)
    return values if values.shape == grid or boxes is None else spread_to_grid(values, boxes, grid)


def values_per_cell(values: NDArray[Any], config: Config) -> NDArray[Any]:
    """One number per cell: the sum of a map `(*grid)`, or the mean of a map of patches `(N,)`; other maps unchanged."""
    cells, boxes = cell_numbers(config), patch_boxes(config)
    if cells is None or boxes is None:
        return values
    if values.shape == config.grid:
        return np.bincount(cells.ravel(), values.ravel())
    return np.bincount(cells.ravel(), spread_to_grid(values, boxes, config.grid).ravel()) / np.bincount(cells.ravel())


def to_grid_units(config: ViTConfig, coords: Tensor) -> Tensor:
    """Coordinates of patches or peaks `(..., axes)`, converted from the unit of the config to grid points."""
    return (coords - coords.new_tensor(config.origin or (0.0,))) / coords.new_tensor(config.spacing or (1.0,))


def coordinate_labels(predictor: Predictor) -> tuple[str, ...]:
    """Names of the coordinates of tokens that are not on a grid, e.g. `rapidity`, `azimuth (rad)`."""
    config, channels = predictor.model.config, predictor.channels
    if isinstance(config, ViTConfig) and config.tokens == "packed":
        return channels[len(channels) - config.axes :] or (predictor.axes[0].label,)
    return channels[:1]


@torch.no_grad()
def token_positions(predictor: Predictor, sample: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Positions `(N,)` of tokens that are not on a grid, and a mask `(N,)` of the tokens that are present.

    Peaks lie on the axis, in its unit; a line has its first number, an element of a packed set its first coordinate.
    Elements of a set without coordinates are numbered.
    """
    model = predictor.model
    assert isinstance(model, ViT)
    tokens = model.tokenizer(model_input(predictor, np.asarray(sample)[None]))
    count = tokens.values.shape[1]
    present = np.ones(count, dtype=bool) if tokens.mask is None else tokens.mask[0].cpu().numpy()
    if not tokens.coords.shape[-1]:
        return np.arange(count, dtype=np.float64), present
    positions = tokens.coords.double().reshape(-1, count, tokens.coords.shape[-1])[0, :, 0]  # of the one sample
    if model.config.tokens == "peaks":
        axis = predictor.axes[0]
        positions = axis.origin + axis.spacing * to_grid_units(model.config, positions)
    return to_array(positions), present
