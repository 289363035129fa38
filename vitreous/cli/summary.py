"""`vitreous summary`: the parts of one model."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


def summary(model: Annotated[str, Positional, arg(metavar="MODEL")]) -> None:
    """Show the parts of a model in the order of the data flow.

    Args:
        model: a name from 'vitreous models', or a folder with a config.json.
    """
    from rich.table import Table

    from vitreous.core.errors import InputError
    from vitreous.core.terminal import console
    from vitreous.nn import ViTConfig
    from vitreous.zoo.adapt import format_shape
    from vitreous.zoo.cost import model_cost, model_parts
    from vitreous.zoo.variants import model_config
    from vitreous.zoo.weights import read_config

    config = read_config(Path(model)) if Path(model).is_dir() else model_config(model)
    if not isinstance(config, ViTConfig):
        raise InputError(f"summary: {model} holds a CNN; the summary is for Vision Transformers")
    cost = model_cost(config)
    choices = f"{config.heads} heads, {config.score} score, MLP ×{format_shape(config.mlp)}"
    table = Table(
        title=f"{model}: input (B, {', '.join(str(size) for size in config.input)})",
        caption=f"{cost.parameters:,} parameters · {cost.flops / 1e9:,.2f} GFLOPs a sample · {choices}",
    )
    table.add_column("part")
    table.add_column("output")
    table.add_column("parameters", justify="right")
    for name, shape, parameters in model_parts(config):
        table.add_row(name, shape, f"{parameters:,}")
    console().print(table)
