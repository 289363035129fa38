"""Attribution maps of one sample as JSON numbers on the sample's axes, with a limited number of points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from vitreous.core.errors import InputError, check_choice
from vitreous.data import Axis
from vitreous.serve.arrays import bin_values, coarsen_sample, to_json
from vitreous.serve.requests import ExplainFile, ExplainSample

_MAX_POINTS = {1: 2048, 2: 128, 3: 24}  # along each axis, by the number of axes
_DEFAULT_MAPS = ("attention", "rollout")


@dataclass(frozen=True)
class ExplainOptions:
    """What to explain: a target, the maps to compute, and heads of a layer."""

    target: str | None
    maps: tuple[str, ...]
    heads: bool
    layer: int


def available_maps(predictor: Any) -> tuple[list[str], int, int]:
    """Return the maps that a model supports, and its numbers of layers and heads; none for an exported model."""
    if not predictor.explains:
        return [], 0, 0
    from vitreous.insight.attribution import INTEGRATED_GRADIENTS, METHODS, missing_methods

    model = predictor.model
    if not model.attends:
        return ([] if missing_methods() else [INTEGRATED_GRADIENTS]), 0, 0
    names = [name for name in METHODS if name != INTEGRATED_GRADIENTS or not missing_methods()]
    return names, model.config.depth, model.config.heads


def explain_options(predictor: Any, name: str, request: ExplainSample | ExplainFile) -> ExplainOptions:
    """Check the options of a request to a model, and choose the maps if it names none."""
    available, depth, _ = available_maps(predictor)
    if not available:
        raise InputError(f"explain: {name} has no maps; serve its run folder or a .safetensors file instead")
    for word in request.maps or ():
        check_choice("maps", word, available)
    if request.target is not None:
        check_choice("target", request.target, predictor.classes or [target.name for target in predictor.targets])
    if request.heads and not -depth <= request.layer < depth:
        raise InputError(f"layer: found {request.layer}, expected one of {depth} layers, counted from 0")
    default = [word for word in available if word in _DEFAULT_MAPS] or available
    maps = tuple(dict.fromkeys(request.maps or default))
    return ExplainOptions(request.target, maps, request.heads, request.layer)


def explain_sample(predictor: Any, sample: NDArray[Any], options: ExplainOptions) -> dict[str, Any]:
    """Compute maps of one sample `(channels, *grid)`: over its grid, or of its tokens if they have no grid."""
    from vitreous.insight.attention import attention_maps
    from vitreous.insight.attribution import METHODS, ExplainedSample
    from vitreous.insight.regions import map_to_grid, patch_boxes, token_positions
    from vitreous.nn.record import chosen_layers

    question, model = ExplainedSample(predictor, sample, options.target), predictor.model
    maps = {method: METHODS[method](question) for method in options.maps}
    heads: dict[str, NDArray[Any]] = {}
    if options.heads:
        (layer,) = chosen_layers([options.layer], model.config.depth)
        ((rows,),) = attention_maps(model, question.x, [options.layer])  # (heads, N)
        heads = {f"layer {layer}, head {head}": row for head, row in enumerate(rows)}
    on_tokens = patch_boxes(model.config) is None
    grid = question.sample.shape[1:] if on_tokens else predictor.input[1:]
    steps = coarse_steps(grid)
    positions, present = token_positions(predictor, question.sample) if on_tokens else (None, None)

    def records(values: dict[str, NDArray[Any]]) -> list[dict[str, Any]]:
        if on_tokens:
            placed = {name: tokens[present] for name, tokens in values.items()}
        else:
            placed = {name: bin_values(map_to_grid(predictor, row), steps).mean(-1) for name, row in values.items()}
        return [{"name": name, "values": to_json(row)} for name, row in placed.items()]

    return {
        "answer": question.answer,
        "channels": list(predictor.channels),
        "on": "tokens" if on_tokens else "grid",
        "axes": coarse_axes(predictor.axes, steps, grid),
        "sample": to_json(coarsen_sample(question.sample, steps)),
        "places": [] if positions is None else to_json(positions[present]),
        "maps": records(maps),
        "heads": records(heads),
    }


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
