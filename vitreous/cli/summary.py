"""`vitreous summary`: the parts of one model."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


def summary(model: Annotated[str, Positional, arg(metavar="MODEL")]) -> None:
    """Show the parts of a model in the order of the data flow.

    Args:
        model: a name from 'vitreous models', or a folder with a config.json.
    """
    from vitreous.cli.output import print_table
    from vitreous.core.errors import InputError
    from vitreous.nn import ViTConfig
    from vitreous.zoo.adapt import format_shape
    from vitreous.zoo.cost import model_cost, model_parts
    from vitreous.zoo.variants import model_config
    from vitreous.zoo.weights import read_config

    config = read_config(Path(model)) if Path(model).is_dir() else model_config(model)
    if not isinstance(config, ViTConfig):
        raise InputError(f"summary: {model} holds a CNN; the summary is for Vision Transformers")
    cost = model_cost(config)
    title = f"{model}: input (B, {', '.join(map(str, config.input))})"
    choices = f"{config.heads} heads, {config.score} score, MLP ×{format_shape(config.mlp)}"
    caption = f"{cost.parameters:,} parameters · {cost.flops / 1e9:,.2f} GFLOPs a sample · {choices}"
    rows = [(name, shape, f"{parameters:,}") for name, shape, parameters in model_parts(config)]
    print_table(title, ("part", "output", "parameters"), rows, left=2, caption=caption)
