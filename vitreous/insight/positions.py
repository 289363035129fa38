"""What a model knows of places: likeness of position embeddings (S2.6), sinusoids (S0.4), relative biases (S4.1)."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from vitreous.errors import InputError
from vitreous.insight.style import figure
from vitreous.insight.units import array
from vitreous.nn.position import GridPosition, sinusoidal
from vitreous.nn.record import chosen_layers
from vitreous.nn.tokens import PatchTokenizer
from vitreous.nn.vit import ViT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from vitreous.data.source import Axis

_PANELS = 12  # tokens along an axis whose maps are drawn, at most
_GAP = 1  # blank tokens between two maps


def position_similarity(model: ViT) -> NDArray[np.float64]:
    """Cosine similarity of the position embeddings of every two patches, `(N, N)`."""
    if not isinstance(model.position, GridPosition):
        raise InputError(f"positions: found position = {model.config.position!r}, expected a table for patches")
    rows = F.normalize(model.position.table[0, model.config.prefix :].double())
    return array(rows @ rows.mT)


def grid_verdict(similarity: NDArray[Any], shape: Sequence[int]) -> str:
    """Whether the embeddings show the grid: how often the patch most like a patch is one of its neighbours."""
    places = np.stack(np.unravel_index(np.arange(math.prod(shape)), tuple(shape)), axis=1)
    near = np.abs(places[:, None] - places[None]).max(-1) == 1  # (N, N), also across corners
    if len(near) < 3:
        return "positions: there is no grid to show"
    others = np.where(np.eye(len(near), dtype=bool), -np.inf, similarity)
    found = float(near[np.arange(len(near)), others.argmax(1)].mean())
    chance = float(near.sum() / (len(near) * (len(near) - 1)))
    spread = math.sqrt(2 * chance * (1 - chance) / len(near))  # likeness is often mutual: half as many to count
    sure = chance + 2.5 * spread
    if found > sure:
        words = "show the grid" if found > 0.5 else "show the grid faintly"
    else:  # a clear grid might stay below a bar that is as high as one half
        words = "do not show the grid" if sure < 0.5 else "are too few to tell whether they show the grid"
    told = f"the most alike is a neighbour for {100 * found:.0f} % (by chance {100 * chance:.0f} %)"
    return f"positions {words}: {told}"


def similarity_figure(model: ViT, axes: Sequence["Axis"] = (), title: str = "") -> "Figure":
    """Likeness of position embeddings: one map of all pairs in 1-D; in 2-D a map of the grid for each patch.

    Args:
        model: with learned or sinusoidal positions of patches.
        axes: of the samples, for their names and units.
        title: above the figure; what the embeddings show if empty.
    """
    similarity = position_similarity(model)
    tokenizer = model.tokenizer
    assert isinstance(tokenizer, PatchTokenizer)
    shape = tokenizer.shape
    title = title or grid_verdict(similarity, shape)
    with figure(5.2, 4.6) as drawing:
        panel = drawing.subplots()
        if len(shape) == 2:
            shown = panel.imshow(_mosaic(similarity, shape), cmap="viridis", vmin=_low(similarity), vmax=1)
            panel.set(xticks=[], yticks=[], xlabel="column of the patch", ylabel="row of the patch")
            panel.spines[:].set_visible(False)
        else:
            ends, label = (0.0, float(len(similarity))), "patch"
            if len(shape) == 1 and axes:
                step, label = axes[0].spacing * tokenizer.stride[0], axes[0].label
                ends = axes[0].origin, axes[0].origin + step * len(similarity)
            shown = panel.imshow(
                similarity,
                cmap="viridis",
                vmin=_low(similarity),
                vmax=1,
                extent=(*ends, *ends[::-1]),
                interpolation="nearest",
            )
            panel.set(xlabel=label, ylabel=label)
        drawing.colorbar(shown, label="cosine similarity", shrink=0.8)
        panel.set_title(title, loc="left", fontsize=8)
    return drawing


def _low(similarity: NDArray[Any]) -> float:
    return float(min(0.0, similarity.min()))


def _mosaic(similarity: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
    """The maps of patches, each in its patch's place, with gaps between them; of a large grid, of every k-th patch."""
    rows, columns = shape
    maps = similarity.reshape(rows, columns, rows, columns)
    maps = maps[:: math.ceil(rows / _PANELS), :: math.ceil(columns / _PANELS)]
    padded = np.pad(maps, ((0, 0), (0, 0), (0, _GAP), (0, _GAP)), constant_values=np.nan)
    return padded.swapaxes(1, 2).reshape(padded.shape[0] * padded.shape[2], -1)[:-_GAP, :-_GAP]


def sinusoidal_figure(positions: int = 512, dim: int = 10) -> "Figure":
    """The heat map of sinusoidal positions (S0.4): 512 positions × 10 dimensions."""
    table = sinusoidal(torch.arange(float(positions))[:, None], dim).numpy()  # (positions, dim)
    with figure(5, 4.5) as drawing:
        axes = drawing.subplots()
        shown = axes.imshow(table, aspect="auto", cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
        axes.set(xlabel="dimension", ylabel="position", xticks=range(0, dim, math.ceil(dim / 10)))
        drawing.colorbar(shown, label="value")
    return drawing


def bias_figure(model: ViT, layers: Sequence[int] | None = None, title: str = "") -> "Figure":
    """The relative bias `p_ij` (S4.1) of each layer and head against the displacement from query to key.

    In 1-D a panel a layer with a row a head, in 2-D a panel a layer and head; in 3-D the same, for keys in the slice of
    the query. Each is drawn about its own mean, which the softmax does not see.
    """
    tokenizer = model.tokenizer
    if model.bias is None or not isinstance(tokenizer, PatchTokenizer):
        raise InputError(f"bias: found bias = {model.config.bias!r}, expected a model with bias = 'relative'")
    chosen = chosen_layers(layers, model.config.depth)
    table = displacement_map(array(model.bias.table[chosen]), tokenizer.shape)
    return displacement_figure(table, [f"layer {layer}" for layer in chosen], title)


def displacement_map(table: NDArray[Any], shape: Sequence[int]) -> NDArray[np.float64]:
    """A table of biases `(layers, heads, entries)` by the displacement of the key from the query: `(…, *(2n − 1))`."""
    reach = tuple(2 * n - 1 for n in shape)
    grid = np.asarray(table[..., : math.prod(reach)]).reshape(*table.shape[:-1], *reach)
    return np.flip(grid, axis=tuple(range(-len(reach), 0)))  # the table counts from the key to the query


def displacement_figure(
    maps: NDArray[Any], names: Sequence[str], title: str = "", label: str = "bias, about its mean"
) -> "Figure":
    """Maps `(rows, heads, *displacements)`, a row of panels (in 1-D: a panel) for each name; of volumes, the middle."""
    maps = maps - maps.mean(axis=tuple(range(2, maps.ndim)), keepdims=True)
    if maps.ndim == 5:
        maps = maps[:, :, maps.shape[2] // 2]
    rows, heads, *reach = maps.shape
    half = [n // 2 for n in reach]
    flat = len(half) == 1
    columns = 1 if flat else heads
    size = (7, (0.6 + 0.2 * heads) * rows + 0.7) if flat else (1.7 * heads + 1, 1.7 * rows + 0.4)
    with figure(*size) as drawing:
        panels = drawing.subplots(rows, columns, squeeze=False, sharex=True)
        largest = float(np.abs(maps).max()) or 1.0
        for row, name in enumerate(names):
            for column in range(columns):
                extent = (
                    (-half[0] - 0.5, half[0] + 0.5, heads - 0.5, -0.5)
                    if flat
                    else (-half[1] - 0.5, half[1] + 0.5, half[0] + 0.5, -half[0] - 0.5)
                )
                axes = panels[row, column]
                shown = axes.imshow(
                    maps[row] if flat else maps[row, column], cmap="RdBu_r", vmin=-largest, vmax=largest, extent=extent,
                    aspect="auto" if flat else "equal", interpolation="nearest",
                )  # fmt: skip
                axes.set_title(name if flat else f"{name}, head {column}", loc="left", fontsize=7)
            panels[row, 0].set_ylabel("head" if flat else "rows to the key")
        panels[-1, 0].set_xlabel("patches to the key" if flat else "columns to the key")
        drawing.colorbar(shown, ax=panels, label=label, shrink=0.7)
        drawing.suptitle(title, fontsize=9)
    return drawing
