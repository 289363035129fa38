"""Draw a map over its input: along a spectrum, over an image, or on peaks and lines.

Attention maps run from blank (least attention) to red (most). Attribution maps are red where the input supports the
prediction (or raises the quantity) and blue where it opposes it; weaker values are paler.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitreous.insight.regions import coordinate_labels, map_to_grid, patch_boxes, token_positions
from vitreous.insight.style import to_pixels
from vitreous.run.predictor import Predictor

_RED, _BLUE = (0.84, 0.15, 0.12), (0.12, 0.35, 0.78)
_MAX_OPACITY = 0.85  # of the largest value
_MARKER_EDGE: Any = {"edgecolors": "0.5", "linewidths": 0.4}  # keeps blank markers visible


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
    """RGBA colours `(..., 4)`: red above zero, blue below; the opacity is proportional to the magnitude.

    Of a map without negative values the minimum is subtracted first.
    """
    if values.size and values.min() >= 0:
        values = values - values.min()
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    colour = np.where((values >= 0)[..., None], _RED, _BLUE)
    return np.concatenate([colour, _MAX_OPACITY * np.abs(values)[..., None] / largest], axis=-1)


def contrast(values: NDArray[Any]) -> str:
    """Minimum and maximum of an attention map in units of its mean, for a title; empty for maps with signs."""
    mean = float(values.mean()) if values.size else 0.0
    if mean <= 0 or values.min() < 0:
        return ""
    return f"{values.min() / mean:.2g} to {values.max() / mean:.2g} × its mean"
