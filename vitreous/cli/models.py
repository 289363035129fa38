"""`vitreous models`: the named models with their size and cost."""

from typing import Annotated

from tyro.conf import Positional, arg


def models(pattern: Annotated[str, Positional, arg(metavar="[PATTERN]")] = "*", *, json: bool = False) -> None:
    """List the named models with their size and cost.

    Args:
        pattern: show only names that match, e.g. 'vit_base*'.
        json: print JSON instead of a table.
    """
    from dataclasses import asdict
    from json import dumps

    from rich.table import Table

    from vitreous.core.errors import InputError
    from vitreous.core.terminal import console
    from vitreous.zoo.adapt import format_shape
    from vitreous.zoo.cost import model_cost
    from vitreous.zoo.variants import VARIANTS, list_models

    names = list_models(pattern)
    if not names:
        raise InputError(f"models: no name matches {pattern!r}; 'vitreous models' lists all names")
    if json:
        print(dumps({name: VARIANTS[name].to_dict() | asdict(model_cost(VARIANTS[name])) for name in names}, indent=1))
        return
    table = Table(title="Models", caption="GFLOPs of one forward pass of one sample; a multiply-add counts as two")
    for heading in ("name", "input", "patch", "tokens", "width", "depth", "heads", "out", "parameters", "GFLOPs"):
        table.add_column(heading, justify="left" if heading == "name" else "right", no_wrap=True)
    for name in names:
        config = VARIANTS[name]
        cost = model_cost(config)
        table.add_row(
            name, format_shape(config.input), format_shape(config.patch), str(cost.tokens), str(config.dim),
            str(config.depth), str(config.heads), str(config.out), f"{cost.parameters:,}", f"{cost.flops / 1e9:,.2f}",
        )  # fmt: skip
    console().print(table)
