"""`vitreous models`: the named models with their size and cost."""

from typing import Annotated

from tyro.conf import Positional, arg

_HEADINGS = ("name", "input", "patch", "tokens", "width", "depth", "heads", "out", "parameters", "GFLOPs")


def models(pattern: Annotated[str, Positional, arg(metavar="[PATTERN]")] = "*", *, json: bool = False) -> None:
    """List the named models with their size and cost.

    Args:
        pattern: show only names that match, e.g. 'vit_base*'.
        json: print JSON instead of a table.
    """
    from dataclasses import asdict
    from json import dumps

    from vitreous.cli.output import print_table
    from vitreous.core.errors import InputError
    from vitreous.zoo.adapt import format_shape
    from vitreous.zoo.cost import model_cost
    from vitreous.zoo.variants import VARIANTS, list_models

    costs = {name: model_cost(VARIANTS[name]) for name in list_models(pattern)}
    if not costs:
        raise InputError(f"models: no name matches {pattern!r}; 'vitreous models' lists all names")
    if json:
        print(dumps({name: VARIANTS[name].to_dict() | asdict(cost) for name, cost in costs.items()}, indent=1))
        return
    rows = []
    for name, cost in costs.items():
        config = VARIANTS[name]
        sizes = (cost.tokens, config.dim, config.depth, config.heads, config.out, f"{cost.parameters:,}")
        shapes = format_shape(config.input), format_shape(config.patch)
        rows.append((name, *shapes, *map(str, sizes), f"{cost.flops / 1e9:,.2f}"))
    caption = "GFLOPs of one forward pass of one sample; a multiply-add counts as two"
    print_table("Models", _HEADINGS, rows, no_wrap=len(_HEADINGS), caption=caption)
