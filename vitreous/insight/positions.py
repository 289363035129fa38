"""Positions in a model: similarity of position embeddings (S2.6), sinusoids (S0.4) and relative biases (S4.1)."""

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.data.source import Axis
from vitreous.insight.regions import to_array
from vitreous.insight.style import Figure, figure
from vitreous.nn.models import Model
from vitreous.nn.position import GridPosition, sinusoidal
from vitreous.nn.record import chosen_layers
from vitreous.nn.tokens import PatchTokenizer
from vitreous.nn.vit import ViT

_MAX_MAPS = 12  # maps along each axis of the mosaic


def has_position_table(model: Model) -> TypeGuard[ViT]:
    """Whether a model adds a position embedding to each patch."""
    return isinstance(model, ViT) and isinstance(model.position, GridPosition)


def has_relative_bias(model: Model) -> TypeGuard[ViT]:
    """Whether a model has relative biases between patches."""
    return isinstance(model, ViT) and model.bias is not None and isinstance(model.tokenizer, PatchTokenizer)


def patch_grid(model: ViT) -> tuple[int, ...]:
    """Number of patches along each axis."""
    assert isinstance(model.tokenizer, PatchTokenizer)
    return tuple(model.tokenizer.shape)


def position_similarity(model: ViT) -> NDArray[np.float64]:
    """Cosine similarity of the position embeddings of every two patches, `(N, N)`."""
    if not isinstance(model.position, GridPosition):
        raise InputError(f"positions: found position = {model.config.position!r}, expected a table for patches")
    rows = F.normalize(model.position.table[0, model.config.prefix :].double())
    return to_array(rows @ rows.mT)


def grid_verdict(similarity: NDArray[Any], shape: Sequence[int]) -> str:
    """Whether the embeddings show the grid: how often the most similar patch is a neighbour."""
    index = np.stack(np.unravel_index(np.arange(math.prod(shape)), tuple(shape)), axis=1)
    near = np.abs(index[:, None] - index[None]).max(-1) == 1  # (N, N), diagonal neighbours included
    if len(near) < 3:
        return "positions: there is no grid to show"
    others = np.where(np.eye(len(near), dtype=bool), -np.inf, similarity)
    share = float(near[np.arange(len(near)), others.argmax(1)].mean())
    chance = float(near.sum() / (len(near) * (len(near) - 1)))
    deviation = math.sqrt(2 * chance * (1 - chance) / len(near))  # similarity is often mutual: half as many samples
    threshold = chance + 2.5 * deviation
    if share > threshold:
        words = "show the grid" if share > 0.5 else "show the grid faintly"
    else:  # with a threshold of one half or more, a clear grid could stay below it
        words = "do not show the grid" if threshold < 0.5 else "are too few to tell whether they show the grid"
    numbers = f"the most alike is a neighbour for {100 * share:.0f} % (by chance {100 * chance:.0f} %)"
    return f"positions {words}: {numbers}"


def similarity_figure(model: ViT, axes: Sequence[Axis] = (), title: str = "") -> Figure:
    """Similarity of position embeddings: in 1-D a map of all pairs, in 2-D a map of the grid for each patch.

    `axes` of the samples give names and units; without a title, `grid_verdict` is the title.
    """
    similarity, shape = position_similarity(model), patch_grid(model)
    scale: dict[str, Any] = {"cmap": "viridis", "vmin": float(min(0.0, similarity.min())), "vmax": 1}
    with figure(5.2, 4.6) as drawing:
        panel = drawing.subplots()
        if len(shape) == 2:
            image = panel.imshow(_mosaic(similarity, shape), **scale)
            panel.set(xticks=[], yticks=[], xlabel="column of the patch", ylabel="row of the patch")
            panel.spines[:].set_visible(False)
        else:
            ends, label = (0.0, float(len(similarity))), "patch"
            if len(shape) == 1 and axes:
                step, label = axes[0].spacing * model.config.stride[0], axes[0].label
                ends = axes[0].origin, axes[0].origin + step * len(similarity)
            image = panel.imshow(similarity, extent=(*ends, *ends[::-1]), interpolation="nearest", **scale)
            panel.set(xlabel=label, ylabel=label)
        drawing.colorbar(image, label="cosine similarity", shrink=0.8)
        panel.set_title(title or grid_verdict(similarity, shape), loc="left", fontsize=8)
    return drawing


def _mosaic(similarity: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
    """The map of each patch at the position of the patch, with gaps between them; every k-th patch of a large grid."""
    rows, columns = shape
    maps = similarity.reshape(rows, columns, rows, columns)
    maps = maps[:: math.ceil(rows / _MAX_MAPS), :: math.ceil(columns / _MAX_MAPS)]
    padded = np.pad(maps, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=np.nan)  # a blank pixel between two maps
    return padded.swapaxes(1, 2).reshape(padded.shape[0] * padded.shape[2], -1)[:-1, :-1]


def sinusoidal_figure(positions: int = 512, dim: int = 10) -> Figure:
    """Heat map of sinusoidal positions (S0.4)."""
    table = sinusoidal(torch.arange(float(positions))[:, None], dim).numpy()  # (positions, dim)
    with figure(5, 4.5) as drawing:
        axes = drawing.subplots()
        image = axes.imshow(table, aspect="auto", cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
        axes.set(xlabel="dimension", ylabel="position", xticks=range(0, dim, math.ceil(dim / 10)))
        drawing.colorbar(image, label="value")
    return drawing


def displacement_map(table: NDArray[Any], shape: Sequence[int]) -> NDArray[np.float64]:
    """A bias table `(layers, heads, entries)` by displacement from query to key: `(layers, heads, *(2n − 1))`."""
    reach = tuple(2 * n - 1 for n in shape)
    grid = np.asarray(table[..., : math.prod(reach)]).reshape(*table.shape[:-1], *reach)
    return np.flip(grid, axis=tuple(range(-len(reach), 0)))  # the table counts from the key to the query


def bias_figure(model: ViT, layers: Sequence[int] | None = None, title: str = "") -> Figure:
    """The relative bias `p_ij` (S4.1) of each layer and head against the displacement from query to key.

    In 1-D a panel per layer with a row per head, in 2-D a panel per layer and head; in 3-D the keys in the slice of the
    query. The mean is subtracted, because the softmax does not depend on it.
    """
    if model.bias is None or not has_relative_bias(model):
        raise InputError(f"bias: found bias = {model.config.bias!r}, expected a model with bias = 'relative'")
    chosen = chosen_layers(layers, model.config.depth)
    maps = displacement_map(to_array(model.bias.table[chosen]), patch_grid(model))  # (layers, heads, *displacements)
    maps = maps - maps.mean(axis=tuple(range(2, maps.ndim)), keepdims=True)
    if maps.ndim == 5:
        maps = maps[:, :, maps.shape[2] // 2]
    (rows, heads), half = maps.shape[:2], [n // 2 for n in maps.shape[2:]]
    flat = len(half) == 1
    size = (7, (0.6 + 0.2 * heads) * rows + 0.7) if flat else (1.7 * heads + 1, 1.7 * rows + 0.4)
    vertical = (heads - 0.5, -0.5) if flat else (half[0] + 0.5, -half[0] - 0.5)
    largest = float(np.abs(maps).max()) or 1.0
    style: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest, "interpolation": "nearest"}
    style |= {"extent": (-half[-1] - 0.5, half[-1] + 0.5, *vertical), "aspect": "auto" if flat else "equal"}
    with figure(*size) as drawing:
        panels = drawing.subplots(rows, 1 if flat else heads, squeeze=False, sharex=True)
        for line, layer, values in zip(panels, chosen, maps, strict=True):
            for head, axes in enumerate(line):
                image = axes.imshow(values if flat else values[head], **style)
                axes.set_title(f"layer {layer}" if flat else f"layer {layer}, head {head}", loc="left", fontsize=7)
            line[0].set_ylabel("head" if flat else "rows to the key")
        panels[-1, 0].set_xlabel("patches to the key" if flat else "columns to the key")
        drawing.colorbar(image, ax=panels, label="bias, about its mean", shrink=0.7)
        drawing.suptitle(title, fontsize=9)
    return drawing
