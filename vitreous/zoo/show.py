"""Tables of models for people: the whole zoo, and the parts of one model."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from vitreous.errors import InputError
from vitreous.nn import ViTConfig
from vitreous.zoo.adapt import by
from vitreous.zoo.cost import cost, parts
from vitreous.zoo.variants import VARIANTS, list_models, model_config
from vitreous.zoo.weights import read_config


def print_models(pattern: str = "*", as_json: bool = False) -> None:
    """Print name, input, shape, parameters and operations of every model whose name fits the pattern."""
    names = list_models(pattern)
    if not names:
        raise InputError(f"models: no name fits {pattern!r}; try 'vitreous models' for all of them")
    if as_json:
        print(json.dumps({n: VARIANTS[n].to_dict() | asdict(cost(VARIANTS[n])) for n in names}, indent=1))
        return
    table = Table(title="Models", caption="GFLOPs of one forward of one sample; a multiply-add counts as two")
    for heading in ("name", "input", "patch", "tokens", "width", "depth", "heads", "out", "parameters", "GFLOPs"):
        table.add_column(heading, justify="left" if heading == "name" else "right", no_wrap=True)
    for name in names:
        config = VARIANTS[name]
        price = cost(config)
        table.add_row(
            name, by(config.input), by(config.patch), str(price.tokens), str(config.dim), str(config.depth),
            str(config.heads), str(config.out), f"{price.parameters:,}", f"{price.flops / 1e9:,.2f}",
        )  # fmt: skip
    console().print(table)


def print_summary(model: str) -> None:
    """Print the parts of a named model, or of one saved in a folder, in the order the data passes them."""
    config = read_config(Path(model)) if Path(model).is_dir() else model_config(model)
    if not isinstance(config, ViTConfig):
        raise InputError(f"summary: {model} holds a CNN; the summary is for Vision Transformers")
    price = cost(config)
    table = Table(
        title=f"{model}: input (B, {', '.join(str(n) for n in config.input)})",
        caption=f"{price.parameters:,} parameters · {price.flops / 1e9:,.2f} GFLOPs a sample · {_choices(config)}",
    )
    table.add_column("part")
    table.add_column("output")
    table.add_column("parameters", justify="right")
    for name, shape, parameters in parts(config):
        table.add_row(name, shape, f"{parameters:,}")
    console().print(table)


def _choices(config: ViTConfig) -> str:
    return f"{config.heads} heads, {config.score} score, MLP ×{by(config.mlp)}"


def console() -> Console:
    """As wide as the terminal, or wide enough for our tables where there is none."""
    return Console(width=None if sys.stdout.isatty() else 120)
