"""Attribution maps of one sample as JSON numbers on the sample's axes, with a limited number of points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from vitreous.core.errors import InputError, check_choice
from vitreous.data import Axis
from vitreous.run.prediction import AnyPredictor
from vitreous.serve.arrays import bin_values, coarsen_sample, to_json

if TYPE_CHECKING:
    from vitreous.run.predictor import Predictor

_MAX_POINTS = {1: 2048, 2: 128, 3: 24}  # along each axis, by the number of axes
_DEFAULT_MAPS = ("attention", "rollout")
Maps = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class ExplainOptions:
    """What to explain: a target, the maps to compute (None for the default ones), and heads of a layer."""

    target: str | None
    maps: Sequence[str] | None
    heads: bool
    layer: int


def available_maps(predictor: AnyPredictor) -> tuple[list[str], int, int]:
    """Return the maps that a model supports, and its numbers of layers and heads; none for an exported model."""
    if not hasattr(predictor, "model"):  # exported
        return [], 0, 0
    from vitreous.insight.attribution import INTEGRATED_GRADIENTS, METHODS, missing_methods

    model = predictor.model
    if not model.attends:
        return ([] if missing_methods() else [INTEGRATED_GRADIENTS]), 0, 0
    names = [name for name in METHODS if name != INTEGRATED_GRADIENTS or not missing_methods()]
    return names, model.config.depth, model.config.heads


def choose_maps(predictor: AnyPredictor, name: str, options: ExplainOptions) -> tuple[str, ...]:
    """Check the options and return the names of the maps to compute."""
    available, depth, _ = available_maps(predictor)
    if not available:
        raise InputError(f"explain: {name} has no maps; serve its run folder or a .safetensors file instead")
    for word in options.maps or ():
        check_choice("maps", word, available)
    if options.target is not None:
        check_choice("target", options.target, predictor.classes or [target.name for target in predictor.targets])
    if options.heads and not -depth <= options.layer < depth:
        raise InputError(f"layer: found {options.layer}, expected one of {depth} layers, counted from 0")
    if options.maps:
        return tuple(dict.fromkeys(options.maps))
    return tuple(word for word in available if word in _DEFAULT_MAPS) or tuple(available)


def explain_sample(
    predictor: "Predictor", sample: NDArray[Any], options: ExplainOptions, maps: Sequence[str]
) -> dict[str, Any]:
    """Compute maps of one sample `(channels, *grid)`: over its grid, or of its tokens if they have no grid."""
    from vitreous.insight.attention import attention_maps
    from vitreous.insight.attribution import METHODS, ExplainedSample
    from vitreous.insight.regions import patch_boxes
    from vitreous.nn.record import chosen_layers
    from vitreous.nn.vit import ViT

    question, model = ExplainedSample(predictor, sample, options.target), predictor.model
    values = {name: METHODS[name](question) for name in maps}
    heads: Maps = {}
    if options.heads and isinstance(model, ViT):
        (layer,) = chosen_layers([options.layer], model.config.depth)
        ((rows,),) = attention_maps(model, question.x, [options.layer])  # (heads, N)
        heads = {f"layer {layer}, head {head}": row for head, row in enumerate(rows)}
    answer = {"answer": question.answer, "channels": list(predictor.channels)}
    on_tokens = patch_boxes(model.config) is None
    place = _place_on_tokens if on_tokens else _place_on_grid
    return answer | {"on": "tokens" if on_tokens else "grid"} | place(predictor, question.sample, values, heads)


def _place_on_tokens(predictor: "Predictor", sample: NDArray[Any], maps: Maps, heads: Maps) -> dict[str, Any]:
    from vitreous.insight.regions import token_positions

    positions, present = token_positions(predictor, sample)
    return _describe_sample(predictor, sample, sample.shape[1:]) | {
        "places": to_json(positions[present]),
        "maps": [{"name": name, "values": to_json(values[present])} for name, values in maps.items()],
        "heads": [{"name": name, "values": to_json(values[present])} for name, values in heads.items()],
    }


def _place_on_grid(predictor: "Predictor", sample: NDArray[Any], maps: Maps, heads: Maps) -> dict[str, Any]:
    from vitreous.insight.regions import map_to_grid

    steps = coarse_steps(predictor.input[1:])

    def average_bins(tokens: NDArray[Any]) -> Any:
        return to_json(bin_values(map_to_grid(predictor, tokens), steps).mean(-1))

    return _describe_sample(predictor, sample, predictor.input[1:]) | {
        "places": [],
        "maps": [{"name": name, "values": average_bins(values)} for name, values in maps.items()],
        "heads": [{"name": name, "values": average_bins(values)} for name, values in heads.items()],
    }


def _describe_sample(predictor: "Predictor", sample: NDArray[Any], grid: Sequence[int]) -> dict[str, Any]:
    steps = coarse_steps(grid)
    return {"axes": coarse_axes(predictor.axes, steps, grid), "sample": to_json(coarsen_sample(sample, steps))}


def coarse_steps(grid: Sequence[int]) -> tuple[int, ...]:
    """Return how many points along each axis become one."""
    return tuple(math.ceil(count / _MAX_POINTS[len(grid)]) for count in grid)


def coarse_axes(axes: Sequence[Axis], steps: Sequence[int], grid: Sequence[int]) -> list[dict[str, Any]]:
    """Return the axes of the coarse grid; a point lies in the middle of its bin."""
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
