"""Where a model looked in one sample, as numbers that a page can draw: bounded in size, in the axes' units."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitreous.data import Axis
from vitreous.errors import InputError, check_choice
from vitreous.prediction import AnyPredictor
from vitreous.serve.numbers import plain

if TYPE_CHECKING:
    from vitreous.train.predictor import Predictor

_FINEST = {1: 2048, 2: 128, 3: 24}  # points along each of so many axes
_USUAL = ("attention", "rollout")


@dataclass(frozen=True)
class Wish:
    """What to explain, and by which maps: the usual ones if none are named."""

    target: str | None
    maps: Sequence[str] | None
    heads: bool
    layer: int


def maps_of(predictor: AnyPredictor) -> tuple[list[str], int, int]:
    """Names of the maps that a model allows, its layers and heads; none where it cannot be looked into."""
    if not hasattr(predictor, "model"):  # exported
        return [], 0, 0
    from vitreous.insight.attention import attends
    from vitreous.insight.attribution import GRADIENTS, METHODS, left_out

    model = predictor.model
    if not attends(model):
        return ([] if left_out() else [GRADIENTS]), 0, 0
    names = [name for name in METHODS if name != GRADIENTS or not left_out()]
    return names, model.config.depth, model.config.heads


def check_wish(predictor: AnyPredictor, name: str, wish: Wish) -> tuple[str, ...]:
    """The maps to draw, or one line that says why there are none."""
    known, depth, _ = maps_of(predictor)
    if not known:
        raise InputError(f"explain: {name} cannot be looked into; serve its run folder, or a .safetensors file")
    for word in wish.maps or ():
        check_choice("maps", word, known)
    if wish.target is not None:
        check_choice("target", wish.target, predictor.classes or [target.name for target in predictor.targets])
    if wish.heads and not -depth <= wish.layer < depth:
        raise InputError(f"layer: found {wish.layer}, expected one of {depth} layers, counted from 0")
    return tuple(dict.fromkeys(wish.maps or ())) or tuple(word for word in known if word in _USUAL) or tuple(known)


def explained(predictor: "Predictor", sample: NDArray[Any], wish: Wish, maps: Sequence[str]) -> dict[str, Any]:
    """The answer, and each map over the grid or of the tokens."""
    from vitreous.insight.attention import attention_maps
    from vitreous.insight.attribution import METHODS, Question
    from vitreous.insight.overlay import over_grid
    from vitreous.insight.units import boxes, places
    from vitreous.nn.record import chosen_layers
    from vitreous.nn.vit import ViT

    question, model = Question(predictor, sample, wish.target), predictor.model
    found = {name: METHODS[name](question) for name in maps}
    heads = dict[str, NDArray[Any]]()
    if wish.heads and isinstance(model, ViT):
        (layer,) = chosen_layers([wish.layer], model.config.depth)
        ((values,),) = attention_maps(model, question.x, [wish.layer])  # (heads, N)
        heads = {f"layer {layer}, head {head}": row for head, row in enumerate(values)}
    told = {"answer": question.answer, "channels": list(predictor.channels)}
    if boxes(model.config) is None:
        where, present = places(predictor, sample)
        steps = _steps(question.sample.shape[1:])
        return told | {
            "on": "tokens",
            "axes": _axes(predictor.axes, steps, question.sample.shape[1:]),
            "sample": plain(_farthest(question.sample, steps)),
            "places": plain(where[present]),
            "maps": [{"name": name, "values": plain(values[present])} for name, values in found.items()],
            "heads": [{"name": name, "values": plain(values[present])} for name, values in heads.items()],
        }
    steps = _steps(predictor.input[1:])

    def drawn(each: dict[str, NDArray[Any]]) -> list[dict[str, Any]]:
        return [
            {"name": name, "values": plain(_bins(over_grid(predictor, values), steps).mean(-1))}
            for name, values in each.items()
        ]

    return told | {
        "on": "grid",
        "axes": _axes(predictor.axes, steps, predictor.input[1:]),
        "sample": plain(_farthest(question.sample, steps)),
        "places": [],
        "maps": drawn(found),
        "heads": drawn(heads),
    }


def _steps(grid: Sequence[int]) -> tuple[int, ...]:
    """How many points along each axis become one."""
    return tuple(math.ceil(count / _FINEST[len(grid)]) for count in grid)


def _axes(axes: Sequence[Axis], steps: Sequence[int], grid: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {
            "name": axis.name,
            "unit": axis.unit,
            "origin": axis.origin + axis.spacing * (step - 1) / 2,
            "spacing": axis.spacing * step,
            "count": math.ceil(count / step),
        }
        for axis, step, count in zip(axes, steps, grid, strict=True)
    ]


def _bins(values: NDArray[Any], steps: Sequence[int]) -> NDArray[np.float64]:
    """Values `(*grid)` as `(*coarse grid, step · step · …)`, the last ones repeated where a bin is not full.

    >>> _bins(np.array([1.0, 2.0, 3.0]), (2,))
    array([[1., 2.],
           [3., 3.]])
    """
    padded = np.pad(values.astype(np.float64), [(0, -n % s) for n, s in zip(values.shape, steps, strict=True)], "edge")
    shape = [part for n, s in zip(padded.shape, steps, strict=True) for part in (n // s, s)]
    order = [*range(0, len(shape), 2), *range(1, len(shape), 2)]
    parted = padded.reshape(shape).transpose(order)
    return parted.reshape(*parted.shape[: len(steps)], -1)


def _farthest(sample: NDArray[Any], steps: Sequence[int]) -> NDArray[np.float64]:
    """Of each bin of each channel the value farthest from the channel's median, so that narrow lines stay."""
    found = []
    for channel in sample:
        bins = _bins(channel, steps)
        place = np.abs(bins - np.median(channel)).argmax(-1)[..., None]
        found.append(np.take_along_axis(bins, place, -1)[..., 0])
    return np.stack(found)
