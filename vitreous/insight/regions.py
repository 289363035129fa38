"""Regions of an input to which attention and attributions are assigned, and maps of them, drawn over the input.

On a grid they are patches, which may overlap, and cells, which do not; for peaks, lines and sets they are the tokens.
Attention maps run from blank (least attention) to red (most). Attribution maps are red where the input supports the
prediction (or raises the quantity) and blue where it opposes it; weaker values are paler.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from vitreous.insight.style import to_pixels
from vitreous.nn.config import ViTConfig
from vitreous.nn.models import Config
from vitreous.nn.tokens import token_grid
from vitreous.nn.vit import ViT
from vitreous.run.predictor import Predictor

Box = tuple[slice, ...]
_CNN_CELLS = {1: 64, 2: 8, 3: 4}  # cells of a CNN along each axis, by the number of axes
_RED, _BLUE = (0.84, 0.15, 0.12), (0.12, 0.35, 0.78)
_MAX_OPACITY = 0.85  # of the largest value
_MARKER_EDGE: Any = {"edgecolors": "0.5", "linewidths": 0.4}  # keeps blank markers visible


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


def draw_map(axes: Any, predictor: Predictor, sample: ArrayLike, values: NDArray[Any]) -> None:
    """Draw a sample `(channels, *grid)` and over it a map `(*grid)`, or one of its patches or tokens `(N,)`."""
    if patch_boxes(predictor.model.config) is None:
        _draw_tokens(axes, predictor, sample, values)
    elif len(predictor.axes) > 1:
        draw_image(axes, predictor, sample, values)
    else:
        curves, x = _curves(predictor, sample)
        low, high = float(curves.min()), float(curves.max())
        margin = 0.05 * (high - low) or 1.0
        axes.plot(x, curves.T, lw=0.8, color="k")
        _draw_stripes(axes, map_to_grid(predictor, values)[None], x, (low - margin, high + margin))
        axes.set(ylim=(low - margin, high + margin), xlim=(x[0], x[-1]), xlabel=axis_label(predictor))
        axes.set_ylabel(", ".join(predictor.channels))


def draw_image(axes: Any, predictor: Predictor, sample: ArrayLike, values: NDArray[Any], small: bool = False) -> None:
    """Draw an image and its map; of a volume, the maximum along its first axis. `small` omits the ticks."""
    image = predictor.check(np.asarray(sample)[None])[0].astype(np.float64)  # (channels, *grid)
    grid_map = map_to_grid(predictor, values)
    if grid_map.ndim == 3:
        image = image.max(1)
        grid_map = np.take_along_axis(grid_map, np.abs(grid_map).argmax(0)[None], 0)[0]
    (rows, columns), (height, width) = predictor.axes[-2:], image.shape[1:]
    extent = (*_edges(columns.origin, columns.spacing, width), *_edges(rows.origin, rows.spacing, height)[::-1])
    axes.imshow(to_pixels(image), cmap="gray", extent=extent, interpolation="nearest")
    axes.imshow(_colours(grid_map), extent=extent, interpolation="nearest")
    if small or {rows.unit, columns.unit} <= {"", "px"}:
        axes.set_xticks([])
        axes.set_yticks([])
    else:
        axes.set(xlabel=columns.label, ylabel=rows.label)


def draw_rows(axes: Any, predictor: Predictor, sample: ArrayLike, values: NDArray[Any]) -> None:
    """Draw several maps `(rows, N)` of a one-dimensional sample on one colour scale, with its curve behind them."""
    curves, x = _curves(predictor, sample)
    if patch_boxes(predictor.model.config) is None:
        positions, present = token_positions(predictor, sample)
        rows, columns = np.broadcast_arrays(np.arange(len(values))[:, None], positions[present])
        colours = _colours(values[:, present]).reshape(-1, 4)
        axes.scatter(columns.ravel(), rows.ravel(), c=colours, marker="s", s=16, **_MARKER_EDGE)
    else:
        grid_maps = np.stack([map_to_grid(predictor, row) for row in values])
        _draw_stripes(axes, grid_maps, x, (-0.5, len(values) - 0.5))
    if len(curves) == 1:
        span = np.ptp(curves) or 1.0
        axes.plot(x, len(values) - 0.5 - (curves[0] - curves.min()) / span * len(values), lw=0.5, color="k", alpha=0.6)
        axes.set_xlim(x[0], x[-1])
    axes.set_ylim(len(values) - 0.5, -0.5)


def axis_label(predictor: Predictor) -> str:
    """Label of the horizontal axis of a one-dimensional sample."""
    config = predictor.model.config
    along_axis = config.input[0] == 1 or patch_boxes(config)
    return predictor.axes[0].label if along_axis else coordinate_labels(predictor)[0]


def _draw_tokens(axes: Any, predictor: Predictor, sample: ArrayLike, values: NDArray[Any]) -> None:
    """A marker on each peak, or a stem for each line or element, coloured by its value."""
    positions, present = token_positions(predictor, sample)
    positions, values = positions[present], values[present]
    if predictor.model.config.input[0] == 1:
        curves, x = _curves(predictor, sample)
        order = slice(None) if x[-1] > x[0] else slice(None, None, -1)  # np.interp needs ascending x
        heights = np.interp(positions, x[order], curves[0, order])
        axes.plot(x, curves[0], lw=0.7, color="0.4")
        axes.set_ylabel(predictor.channels[0])
    else:
        heights = np.abs(values)
        axes.set_ylabel("strength")
    axes.set_xlabel(axis_label(predictor))
    colours = _colours(values)
    axes.vlines(positions, 0, heights, colors=colours, lw=2.5)
    axes.scatter(positions, heights, c=colours, s=20, zorder=3, **_MARKER_EDGE)
    axes.margins(x=0.01)


def _curves(predictor: Predictor, sample: ArrayLike) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The channels of a spectrum `(channels, points)`, and the coordinates of its points `(points,)`."""
    (axis,) = predictor.axes
    curves = predictor.check(np.asarray(sample)[None])[0]
    return curves, axis.origin + axis.spacing * np.arange(curves.shape[-1])


def _draw_stripes(axes: Any, rows: NDArray[Any], x: NDArray[np.float64], height: tuple[float, float]) -> None:
    """Draw maps `(rows, points)` as horizontal stripes over the whole axis, the first at `height[0]`."""
    extent = (*_edges(x[0], x[1] - x[0] if len(x) > 1 else 1.0, len(x)), *height)
    axes.imshow(_colours(rows), extent=extent, aspect="auto", interpolation="nearest", origin="lower", zorder=0)


def _edges(origin: float, spacing: float, count: int) -> tuple[float, float]:
    """Outer edges of `count` pixels whose centres begin at `origin`."""
    return origin - spacing / 2, origin + spacing * (count - 0.5)


def _colours(values: NDArray[Any]) -> NDArray[np.float64]:
    """RGBA colours `(..., 4)` by sign and magnitude; a map without negative values begins at its minimum."""
    if values.size and values.min() >= 0:
        values = values - values.min()
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    colour = np.where((values >= 0)[..., None], _RED, _BLUE)
    return np.concatenate([colour, _MAX_OPACITY * np.abs(values)[..., None] / largest], axis=-1)


def contrast(values: NDArray[Any]) -> str:
    """Minimum and maximum of an attention map in units of its mean, for a title; empty for maps with signs."""
    mean = float(values.mean()) if values.size else 0.0
    positive = mean > 0 and values.min() >= 0
    return f"{values.min() / mean:.2g} to {values.max() / mean:.2g} × its mean" if positive else ""
