"""Attention of a transformer (S2.6): maps by layer and head, rollout, attention distance and entropy of each head.

Rollout follows Abnar and Zuidema 2020; the mean attention distance follows Dosovitskiy et al. 2021, figure 7.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.insight import regions
from vitreous.insight.regions import model_input, to_array
from vitreous.insight.style import Figure, figure
from vitreous.nn.execution import unwrap
from vitreous.nn.models import Model
from vitreous.nn.record import Record, chosen_layers, record
from vitreous.nn.vit import ViT
from vitreous.run.predictor import Predictor

_SIGNIFICANCE = 0.05  # p value below which a trend is reported


def no_attention_note(model: Model) -> str:
    """A sentence for a run without attention, after "the" or the name of the run."""
    reason = "has blocks without mixing" if isinstance(model, ViT) else "is a CNN"
    return f"run {reason}: it has no attention, so there are attributions only"


def attention_model(predictor: Predictor) -> ViT:
    """The model of a predictor; `InputError` if it has no attention."""
    return _check_attends(predictor.model)


def _check_attends(model: Model) -> ViT:
    inner = unwrap(model)
    if isinstance(inner, ViT) and inner.attends:
        return inner
    name = "ViT with attention = 'none'" if isinstance(inner, ViT) else type(inner).__name__
    raise InputError(f"attention: a {name} has none; attributions work for every model")


def rollout(weights: Iterable[Tensor]) -> Tensor:
    """Attention rollout: the share of each input token in each output token, `(B, N, N)`.

    The product of `(mean over heads + 1) / 2` over the layers, from their weights `(B, heads, N, N)`; the 1 stands for
    the residual connection.
    """
    total: Tensor | None = None
    for layer in weights:
        step = (layer.mean(1) + torch.eye(layer.shape[-1], device=layer.device)) / 2
        step = step / step.sum(-1, keepdim=True)
        total = step if total is None else step @ total
    if total is None:
        raise InputError("rollout: found no layers")
    return total


def attention_entropy(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean entropy of the rows of `(B, heads, N, N)` in nats, `(B, heads)`; `mask` `(B, N)` selects the rows."""
    return _masked_mean(-torch.xlogy(weights, weights).sum(-1), mask)


def pairwise_distances(coords: Tensor, period: Tensor | None = None) -> Tensor:
    """Distances between all pairs of tokens: `(N, axes)` or `(B, N, axes)` -> `(1 or B, 1, N, N)`.

    With periods `(axes,)` these are the shortest distances on the periodic grid.
    """
    coords = coords if coords.dim() == 3 else coords.unsqueeze(0)
    if period is None:
        return torch.cdist(coords, coords, compute_mode="donot_use_mm_for_euclid_dist").unsqueeze(1)
    steps = (coords.unsqueeze(2) - coords.unsqueeze(1)).abs()
    periodic: Tensor = torch.linalg.vector_norm(torch.minimum(steps, period - steps), dim=-1).unsqueeze(1)
    return periodic


def attention_distance(weights: Tensor, distances: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean distance between a token and the tokens that it attends to, `(B, heads)`, by their `pairwise_distances`.

    `weights` `(B, heads, N, N)` are those of tokens with coordinates; `mask` `(B, N)` is False where there is no token.
    """
    total = weights.sum(-1).clamp(min=1e-12)
    return _masked_mean((weights * distances.to(weights.dtype)).sum(-1) / total, mask)


def _masked_mean(rows: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over the rows of `(B, heads, N)` that hold a token."""
    if mask is None:
        return rows.mean(-1)
    present = mask.unsqueeze(1).to(rows.dtype)
    return (rows * present).sum(-1) / present.sum(-1).clamp(min=1)


def pooling_weights(model: ViT, seen: Record) -> Tensor:
    """Weight of each token in the pooling of the model, `(B, prefix + N)`, with a sum of one."""
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
    """Attention from the pooled token (e.g. the class token) in each layer and head: `(B, layers, heads, N)`."""
    with record(_check_attends(model), layers) as seen:
        model(x)
    pooled = pooling_weights(model, seen)
    maps = [torch.einsum("bn,bhnm->bhm", pooled, weights) for weights in seen.attention.values()]
    return to_array(torch.stack(maps, dim=1)[..., model.config.prefix :])


@torch.no_grad()
def rollout_map(model: ViT, x: Tensor) -> NDArray[np.float64]:
    """Attention rollout from the pooled token: the share of each token after all layers, `(B, N)`."""
    with record(_check_attends(model), reduce=lambda weights: weights.mean(1, keepdim=True)) as seen:
        model(x)
    shares = torch.einsum("bn,bnm->bm", pooling_weights(model, seen), rollout(seen.attention.values()))
    return to_array(shares[:, model.config.prefix :])


def maps_figure(
    predictor: Predictor, sample: ArrayLike, layers: Sequence[int] | int | None = None, title: str = ""
) -> Figure:
    """Attention maps of every head in the given layers, over one sample `(channels, *grid)`.

    A spectrum has a panel per layer with a row per head; an image a panel per layer and head. The mean comes last.
    """
    model = attention_model(predictor)
    x = model_input(predictor, np.asarray(sample)[None])
    maps = attention_maps(model, x, layers)[0]  # (layers, heads, N)
    names = [f"layer {layer}" for layer in chosen_layers(layers, model.config.depth)]
    maps = np.concatenate([maps, maps.mean(1, keepdims=True)], axis=1)
    heads = [*(f"head {head}" for head in range(maps.shape[1] - 1)), "mean"]
    flat, rows, columns = len(predictor.axes) == 1, len(names), len(heads)
    size = (9, (0.5 + 0.16 * columns) * rows + 0.8) if flat else (1.2 * columns, 1.3 * rows + 0.2)
    with figure(*size) as drawing:
        panels = drawing.subplots(rows, 1 if flat else columns, sharex=flat, squeeze=False)
        for line, name, values in zip(panels, names, maps, strict=True):
            if flat:
                regions.draw_rows(line[0], predictor, sample, values)
                line[0].set_yticks(range(columns), heads, fontsize=6)
                line[0].set_title(name, loc="left", fontsize=8)
                continue
            for axes, head, head_map in zip(line, heads, values, strict=True):
                regions.draw_image(axes, predictor, sample, head_map, small=True)
                axes.set_title(head if name == names[0] else "", fontsize=8)
            line[0].set_ylabel(name, fontsize=8)
        if flat:
            panels[-1, 0].set_xlabel(regions.axis_label(predictor))
        drawing.suptitle(title, fontsize=9)
    return drawing


@dataclass(frozen=True)
class HeadMeasure:
    """A quantity of every head, `(layers, heads)`, and its value for uniform attention; the label gives its unit."""

    label: str
    values: NDArray[np.float64]
    uniform: float

    @property
    def trend(self) -> str:
        """Whether the values change with depth, by Spearman's rank correlation over all heads."""
        from scipy.stats import spearmanr

        if len(self.values) < 2 or np.ptp(self.values) == 0:
            return "has no trend"
        layers = np.repeat(np.arange(len(self.values)), self.values.shape[1])
        test = spearmanr(layers, self.values.ravel())
        if not test.pvalue < _SIGNIFICANCE:
            return f"shows no clear trend with depth (ρ = {test.statistic:.2f}, p = {test.pvalue:.2g})"
        verb = "grows" if test.statistic > 0 else "falls"
        return f"{verb} with depth (ρ = {test.statistic:.2f}, p = {test.pvalue:.1g})"


@torch.no_grad()
def head_measures(
    predictor: Predictor, samples: ArrayLike, periodic: bool = False, max_weights: int = 2**25
) -> list[HeadMeasure]:
    """Attention distance and entropy of every head, averaged over samples `(n, channels, *grid)`.

    The distance is in grid points and, if the axes share a unit, in that unit.

    Args:
        samples: raw.
        periodic: measure the shortest distances on a periodic grid.
        max_weights: attention weights in memory at a time; limits the batch.
    """
    model = attention_model(predictor)
    c = model.config
    batch = max(1, max_weights // (c.depth * c.heads * (c.prefix + model.tokenizer.most) ** 2))
    batches: dict[str, list[Tensor]] = {}  # label: (B, layers + 1, heads); the last row is for uniform weights
    for part in model_input(predictor, samples).split(batch):
        with record(model) as seen:
            model(part)
        mask = seen["mask"] if "mask" in seen else torch.ones_like(seen["tokens"][..., 0], dtype=torch.bool)
        rows = F.pad(mask, (c.prefix, 0), value=True)
        uniform = (rows / rows.sum(1, keepdim=True))[:, None, None, :].expand(-1, c.heads, rows.shape[1], -1)
        layers = [*seen.attention.values(), uniform]
        for label, (coords, period) in _coordinates(predictor, seen["coords"]).items():
            distances = pairwise_distances(coords, period if periodic else None)
            means = [attention_distance(weights[..., c.prefix :, c.prefix :], distances, mask) for weights in layers]
            batches.setdefault(f"attention distance ({label})", []).append(torch.stack(means, 1))
        entropies = [attention_entropy(weights, rows) for weights in layers]
        batches.setdefault("entropy (nats)", []).append(torch.stack(entropies, 1))
    averages = {label: to_array(torch.cat(parts).mean(0)) for label, parts in batches.items()}
    return [HeadMeasure(label, values[:-1], float(values[-1].mean())) for label, values in averages.items()]


def _coordinates(predictor: Predictor, coords: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """Coordinates of the tokens and lengths of the axes, by unit: grid points, and the unit that the axes share."""
    c = attention_model(predictor).config
    if not coords.shape[-1]:
        return {}
    if c.tokens not in ("patch", "peaks"):
        return {", ".join(regions.coordinate_labels(predictor)): (coords, torch.full_like(coords[0, 0], math.inf))}
    points, lengths = regions.to_grid_units(c, coords), coords.new_tensor(c.grid)
    units = {axis.unit for axis in predictor.axes}
    if len(units) > 1 or units <= {"", "px"}:
        return {"px" if units == {"px"} else "samples": (points, lengths)}
    steps = coords.new_tensor([axis.spacing for axis in predictor.axes])
    return {"samples": (points, lengths), units.pop(): (points * steps, lengths * steps.abs())}


def heads_figure(measures: Sequence[HeadMeasure], title: str = "") -> Figure:
    """Measures against depth: a point per head, the mean of each layer, and the value for uniform attention."""
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
