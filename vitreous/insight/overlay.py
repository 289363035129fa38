"""A map over the input that it belongs to: along the curve of a spectrum, over a picture, on peaks and lines.

Attention is red from its least, left blank, to its most. Attributions are red where they speak for the answer (or raise
the quantity), blue where they speak against it; the paler, the less.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitreous.insight.units import boxes, coordinates, places, spread
from vitreous.train.predictor import Predictor

_RED, _BLUE = (0.84, 0.15, 0.12), (0.12, 0.35, 0.78)
_DENSEST = 0.85  # opacity of the largest value
_RIM: Any = {"edgecolors": "0.5", "linewidths": 0.4}  # of marks that may be blank


def draw_map(axes: Any, predictor: Predictor, sample: ArrayLike, values: NDArray[Any]) -> None:
    """Draw a sample `(channels, *grid)`, and over it values `(*grid)` or of its units `(N,)`."""
    if boxes(predictor.model.config) is None:
        _draw_tokens(axes, predictor, sample, values)
    elif len(predictor.axes) > 1:
        draw_image(axes, predictor, sample, values)
    else:
        curves, x = _curves(predictor, sample)
        low, high = float(curves.min()), float(curves.max())
        margin = 0.05 * (high - low) or 1.0
        axes.plot(x, curves.T, lw=0.8, color="k")
        _stripes(axes, over_grid(predictor, values)[None], x, (low - margin, high + margin))
        axes.set(ylim=(low - margin, high + margin), xlim=(x[0], x[-1]), xlabel=axis_label(predictor))
        axes.set_ylabel(", ".join(predictor.channels))


def draw_image(axes: Any, predictor: Predictor, sample: ArrayLike, values: NDArray[Any], small: bool = False) -> None:
    """The same for a picture; of a volume, the largest along its first axis. `small` leaves ticks out."""
    picture = predictor.check(np.asarray(sample)[None])[0].astype(np.float64)  # (channels, *grid)
    tint = over_grid(predictor, values)
    if tint.ndim == 3:
        picture = picture.max(1)
        tint = np.take_along_axis(tint, np.abs(tint).argmax(0)[None], 0)[0]
    picture = (picture - picture.min()) / (np.ptp(picture) or 1.0)
    plain = np.moveaxis(picture, 0, -1) if len(picture) == 3 else picture.mean(0)
    rows, columns = predictor.axes[-2:]
    extent = (
        *_ends(columns.origin, columns.spacing, plain.shape[1]),
        *_ends(rows.origin, rows.spacing, plain.shape[0])[::-1],
    )
    axes.imshow(plain, cmap="gray", extent=extent, interpolation="nearest")
    axes.imshow(_tinted(tint), extent=extent, interpolation="nearest")
    if small or {rows.unit, columns.unit} <= {"", "px"}:
        axes.set_xticks([])
        axes.set_yticks([])
    else:
        axes.set(xlabel=columns.label, ylabel=rows.label)


def draw_rows(axes: Any, predictor: Predictor, sample: ArrayLike, values: NDArray[Any]) -> None:
    """Rows of values `(rows, N)`, on one scale, along the one axis of a sample, with its curve behind them."""
    if boxes(predictor.model.config) is None:
        where, present = places(predictor, sample)
        rows, columns = np.broadcast_arrays(np.arange(len(values))[:, None], where[present])
        colours = _tinted(values[:, present]).reshape(-1, 4)
        axes.scatter(columns.ravel(), rows.ravel(), c=colours, marker="s", s=16, **_RIM)
    else:
        _, x = _curves(predictor, sample)
        _stripes(axes, np.stack([over_grid(predictor, each) for each in values]), x, (-0.5, len(values) - 0.5))
    if predictor.model.config.input[0] == 1:
        curves, x = _curves(predictor, sample)
        span = np.ptp(curves) or 1.0
        axes.plot(x, len(values) - 0.5 - (curves[0] - curves.min()) / span * len(values), lw=0.5, color="k", alpha=0.6)
        axes.set_xlim(x[0], x[-1])
    axes.set_ylim(len(values) - 0.5, -0.5)


def axis_label(predictor: Predictor) -> str:
    """What the horizontal axis of a sample with one axis shows."""
    return (
        predictor.axes[0].label
        if predictor.model.config.input[0] == 1 or boxes(predictor.model.config)
        else coordinates(predictor)[0]
    )


def _draw_tokens(axes: Any, predictor: Predictor, sample: ArrayLike, values: NDArray[Any]) -> None:
    """A mark on each peak, or a stem for each line or element, in the colour of its value."""
    where, present = places(predictor, sample)
    colours = _tinted(values[present])
    if predictor.model.config.input[0] == 1:
        curves, x = _curves(predictor, sample)
        tops = (
            np.interp(where[present], x, curves[0])
            if x[-1] > x[0]
            else np.interp(where[present], x[::-1], curves[0, ::-1])
        )
        axes.plot(x, curves[0], lw=0.7, color="0.4")
        axes.set_ylabel(predictor.channels[0])
    else:
        tops = np.abs(values[present])
        axes.set_ylabel("strength")
    axes.set_xlabel(axis_label(predictor))
    axes.vlines(where[present], 0, tops, colors=colours, lw=2.5)
    axes.scatter(where[present], tops, c=colours, s=20, zorder=3, **_RIM)
    axes.margins(x=0.01)


def _curves(predictor: Predictor, sample: ArrayLike) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The channels of a spectrum `(channels, points)`, and where its points lie."""
    (axis,) = predictor.axes
    curves = predictor.check(np.asarray(sample)[None])[0]
    return curves, axis.origin + axis.spacing * np.arange(curves.shape[-1])


def over_grid(predictor: Predictor, values: NDArray[Any]) -> NDArray[Any]:
    """Values of patches `(N,)` over the samples of the grid; others as they are."""
    grid, units = predictor.model.config.grid, boxes(predictor.model.config)
    return values if values.shape == grid or units is None else spread(values, units, grid)


def _stripes(axes: Any, rows: NDArray[Any], x: NDArray[np.float64], height: tuple[float, float]) -> None:
    """Rows of values `(rows, points)`, each as wide as the axis; the first on top where the height falls."""
    extent = (*_ends(x[0], x[1] - x[0] if len(x) > 1 else 1.0, len(x)), *height)
    axes.imshow(_tinted(rows), extent=extent, aspect="auto", interpolation="nearest", origin="lower", zorder=0)


def _ends(origin: float, spacing: float, count: int) -> tuple[float, float]:
    return origin - spacing / 2, origin + spacing * (count - 0.5)


def _tinted(values: NDArray[Any]) -> NDArray[np.float64]:
    """Colours `(..., 4)`: red above zero, blue below, as opaque as the value is large, or as it is above the least."""
    if values.size and values.min() >= 0:
        values = values - values.min()
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    colour = np.where((values >= 0)[..., None], _RED, _BLUE)
    return np.concatenate([colour, _DENSEST * np.abs(values)[..., None] / largest], axis=-1)


def contrast(values: NDArray[Any]) -> str:
    """How far a map of attention is from even, for a title; nothing for maps with signs."""
    mean = float(values.mean()) if values.size else 0.0
    if mean <= 0 or values.min() < 0:
        return ""
    return f"{values.min() / mean:.2g} to {values.max() / mean:.2g} × its mean"
