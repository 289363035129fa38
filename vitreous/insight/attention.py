"""Where a transformer looks (S2.6): maps a layer and head, rollout, and how far and how broadly each head looks.

Rollout is that of Abnar and Zuidema 2020; the mean attention distance is that of Dosovitskiy et al. 2021, figure 7.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from vitreous.errors import InputError
from vitreous.insight.overlay import axis_label, draw_image, draw_rows
from vitreous.insight.style import figure
from vitreous.insight.units import array, coordinates, model_input, on_grid
from vitreous.nn.models import Model
from vitreous.nn.record import Record, chosen_layers, record, unwrap
from vitreous.nn.vit import ViT
from vitreous.train.predictor import Predictor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_AT_ONCE = 2**25  # weights in memory at a time
_SURE = 0.05  # probability below which a trend is no accident


def attends(model: Model) -> bool:
    """Whether a model has attention to look at."""
    return isinstance(model, ViT) and model.config.attention != "none"


def no_attention(model: Model) -> str:
    """What to say of a run without it."""
    kind = "has blocks without mixing" if isinstance(model, ViT) else "is a CNN"
    return f"run {kind}: it has no attention, so there are attributions only"


def transformer(predictor: Predictor) -> ViT:
    """The predictor's model, or one line that says that it has no attention."""
    return _attending(predictor.model)


def _attending(model: Model) -> ViT:
    inner = unwrap(model)
    if isinstance(inner, ViT) and attends(inner):
        return inner
    name = "ViT with attention = 'none'" if isinstance(inner, ViT) else type(inner).__name__
    raise InputError(f"attention: a {name} has none; attributions work for every model")


def rollout(weights: Iterable[Tensor]) -> Tensor:
    """How much of each input token reaches each output token, `(B, N, N)`, from `(B, heads, N, N)` of every layer.

    The product of `(mean over heads + 1) / 2` over the layers: half of a token passes by each attention.
    """
    total: Tensor | None = None
    for layer in weights:
        step = (layer.mean(1) + torch.eye(layer.shape[-1], device=layer.device)) / 2
        step = step / step.sum(-1, keepdim=True)
        total = step if total is None else step @ total
    if total is None:
        raise InputError("rollout: found no layers")
    return total


def entropy(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean entropy of the rows of `(B, heads, N, N)` in nats, `(B, heads)`; `mask` `(B, N)` says which rows count."""
    return _mean(-torch.xlogy(weights, weights).sum(-1), mask)


def distance(weights: Tensor, coords: Tensor, prefix: int = 0, mask: Tensor | None = None) -> Tensor:
    """Mean distance between a token and those that it attends to, `(B, heads)`, in the unit of the coordinates.

    Args:
        weights: `(B, heads, prefix + N, prefix + N)`; prefix tokens have no place and do not count.
        coords: `(N, axes)` or `(B, N, axes)`.
        prefix: class token and registers.
        mask: `(B, N)`, False where there is no token.
    """
    return _weighted(weights[..., prefix:, prefix:], _apart(coords), mask)


def _apart(coords: Tensor, period: Tensor | None = None) -> Tensor:
    """Distances between every two places `(N, axes)` or `(B, N, axes)`: `(1 or B, 1, N, N)`.

    With periods `(axes,)`, by the shorter way round.
    """
    places = coords if coords.dim() == 3 else coords.unsqueeze(0)
    if period is None:
        return torch.cdist(places, places, compute_mode="donot_use_mm_for_euclid_dist").unsqueeze(1)
    steps = (places.unsqueeze(2) - places.unsqueeze(1)).abs()
    around: Tensor = torch.linalg.vector_norm(torch.minimum(steps, period - steps), dim=-1).unsqueeze(1)
    return around


def _weighted(inner: Tensor, apart: Tensor, mask: Tensor | None) -> Tensor:
    """The mean over tokens of the distances `apart`, by the weights `(B, heads, N, N)` of each."""
    total = inner.sum(-1).clamp(min=1e-12)
    return _mean((inner * apart.to(inner.dtype)).sum(-1) / total, mask)


def _mean(rows: Tensor, mask: Tensor | None) -> Tensor:
    """The mean over those rows of `(B, heads, N)` that hold a token."""
    if mask is None:
        return rows.mean(-1)
    present = mask.unsqueeze(1).to(rows.dtype)
    return (rows * present).sum(-1) / present.sum(-1).clamp(min=1)


def readout(model: ViT, seen: Record) -> Tensor:
    """How much of each token the model's pooling reads, `(B, prefix + N)`, summing to one."""
    prefix, pool, normed = model.config.prefix, model.config.pool, seen["normed"]
    batch, count = normed.shape[:2]
    if pool == "cls":
        return F.one_hot(torch.zeros(batch, dtype=torch.long, device=normed.device), count).to(normed.dtype)
    if pool == "attention":
        return F.pad(seen["pool.weights"].mean(1).squeeze(1), (prefix, 0))
    mask = seen["mask"] if "mask" in seen else normed.new_ones(batch, count - prefix)
    return F.pad(mask / mask.sum(1, keepdim=True).clamp(min=1), (prefix, 0)).to(normed.dtype)


@torch.no_grad()
def attention_maps(model: ViT, x: Tensor, layers: Sequence[int] | int | None = None) -> NDArray[np.float64]:
    """What the pooling (the class token, say) attends to in each layer and head: `(B, layers, heads, N)`."""
    with record(_attending(model), layers) as seen:
        model(x)
    rows = readout(model, seen)
    found = [torch.einsum("bn,bhnm->bhm", rows, weights) for weights in seen.attention.values()]
    return array(torch.stack(found, dim=1)[..., model.config.prefix :])


@torch.no_grad()
def rollout_map(model: ViT, x: Tensor) -> NDArray[np.float64]:
    """How much of each token reaches the pooling by way of all layers: `(B, N)`."""
    with record(_attending(model), reduce=lambda weights: weights.mean(1, keepdim=True)) as seen:
        model(x)
    reached = torch.einsum("bn,bnm->bm", readout(model, seen), rollout(seen.attention.values()))
    return array(reached[:, model.config.prefix :])


def maps_figure(
    predictor: Predictor, sample: ArrayLike, layers: Sequence[int] | int | None = None, title: str = ""
) -> "Figure":
    """The attention of every head in the given layers, drawn over one sample `(channels, *grid)`.

    For a curve a panel a layer with a row a head; for a picture a panel a layer and head, the heads' mean last.
    """
    model = transformer(predictor)
    x = model_input(predictor, np.asarray(sample)[None])
    maps = attention_maps(model, x, layers)[0]  # (layers, heads, N)
    names = [f"layer {layer}" for layer in chosen_layers(layers, model.config.depth)]
    maps = np.concatenate([maps, maps.mean(1, keepdims=True)], axis=1)
    heads = [*(f"head {head}" for head in range(maps.shape[1] - 1)), "mean"]
    if len(predictor.axes) > 1:
        with figure(1.2 * len(heads), 1.3 * len(names) + 0.2) as drawing:
            panels = drawing.subplots(len(names), len(heads), squeeze=False)
            for row, name in enumerate(names):
                for column, head in enumerate(heads):
                    draw_image(panels[row, column], predictor, sample, maps[row, column], small=True)
                    panels[row, column].set_title(head if row == 0 else "", fontsize=8)
                panels[row, 0].set_ylabel(name, fontsize=8)
            drawing.suptitle(title, fontsize=9)
        return drawing
    with figure(9, (0.5 + 0.16 * len(heads)) * len(names) + 0.8) as drawing:
        panels = drawing.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
        for axes, name, values in zip(panels, names, maps, strict=True):
            draw_rows(axes, predictor, sample, values)
            axes.set_yticks(range(len(heads)), heads, fontsize=6)
            axes.set_title(name, loc="left", fontsize=8)
        panels[-1].set_xlabel(axis_label(predictor))
        drawing.suptitle(title, fontsize=9)
    return drawing


@dataclass(frozen=True)
class Measure:
    """One number for each head, `(layers, heads)`, and what it would be for a head that looks everywhere alike."""

    label: str
    values: NDArray[np.float64]
    uniform: float

    @property
    def trend(self) -> str:
        """Whether it changes with depth, by Spearman's rank correlation over all heads."""
        from scipy.stats import spearmanr

        layers = np.repeat(np.arange(len(self.values)), self.values.shape[1])
        if len(self.values) < 2 or np.ptp(self.values) == 0:
            return "has no trend"
        found = spearmanr(layers, self.values.ravel())
        if not found.pvalue < _SURE:
            return f"shows no clear trend with depth (ρ = {found.statistic:.2f}, p = {found.pvalue:.2g})"
        word = "grows" if found.statistic > 0 else "falls"
        return f"{word} with depth (ρ = {found.statistic:.2f}, p = {found.pvalue:.1g})"


@torch.no_grad()
def head_measures(predictor: Predictor, samples: ArrayLike, periodic: bool = False) -> list[Measure]:
    """Attention distance on the grid and, where there are such, in physical units, and entropy: means over samples.

    On a `periodic` grid distances are those of the shorter way round.
    """
    model = transformer(predictor)
    c, inputs = model.config, model_input(predictor, samples)
    count = c.prefix + model.tokenizer.most
    batch = max(1, _AT_ONCE // (c.depth * c.heads * count**2))
    found: dict[str, list[Tensor]] = {}  # label: (B, layers + 1, heads) of each batch, the last row for uniform weights
    for part in inputs.split(batch):
        with record(model) as seen:
            model(part)
        mask = seen["mask"] if "mask" in seen else torch.ones_like(seen["tokens"][..., 0], dtype=torch.bool)
        rows = F.pad(mask, (c.prefix, 0), value=True)
        even = (rows / rows.sum(1, keepdim=True))[:, None, None, :].expand(-1, c.heads, rows.shape[1], -1)
        layers = [*seen.attention.values(), even]
        for label, (places, length) in _coordinates(predictor, seen["coords"]).items():
            apart = _apart(places, length if periodic else None)
            each = [_weighted(weights[..., c.prefix :, c.prefix :], apart, mask) for weights in layers]
            found.setdefault(f"attention distance ({label})", []).append(torch.stack(each, 1))
        found.setdefault("entropy (nats)", []).append(torch.stack([entropy(w, rows) for w in layers], 1))
    means = {label: array(torch.cat(parts).mean(0)) for label, parts in found.items()}
    return [Measure(label, values[:-1], float(values[-1].mean())) for label, values in means.items()]


def _coordinates(predictor: Predictor, coords: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """The tokens' places in samples of the grid, and in the axes' unit where they share one; and the axes' lengths."""
    c, axes = transformer(predictor).config, predictor.axes
    if not coords.shape[-1]:
        return {}
    if c.tokens not in ("patch", "peaks"):
        return {", ".join(coordinates(predictor)): (coords, torch.full_like(coords[0, 0], math.inf))}
    places, lengths = on_grid(c, coords), coords.new_tensor(c.grid)
    units = {axis.unit for axis in axes}
    steps = coords.new_tensor([axis.spacing for axis in axes])
    if len(units) > 1 or units <= {"", "px"}:
        return {"px" if units == {"px"} else "samples": (places, lengths)}
    return {"samples": (places, lengths), units.pop(): (places * steps, lengths * steps.abs())}


def heads_figure(measures: Sequence[Measure], title: str = "") -> "Figure":
    """Each measure of the heads against depth: a point a head, the layers' means, and a head that looks everywhere."""
    with figure(3.2 * len(measures), 3.2) as drawing:
        panels = drawing.subplots(1, len(measures), squeeze=False)[0]
        for axes, measure in zip(panels, measures, strict=True):
            layers = np.arange(len(measure.values))
            axes.plot(layers, measure.values, ".", color="0.55", ms=5)
            axes.plot(layers, measure.values.mean(1), "-", color="C0", lw=1.2, label="mean of the heads")
            axes.axhline(measure.uniform, color="k", lw=0.7, ls="--", label="looks everywhere")
            axes.set(xlabel="layer", ylabel=measure.label)
            axes.set_xticks(layers[:: math.ceil(len(layers) / 12)])
            axes.set_title(measure.trend.replace(" (", "\n("), loc="left", fontsize=7)
        panels[0].legend(frameon=False, fontsize=7)
        drawing.suptitle(title, fontsize=9)
    return drawing
