"""`vitreous gallery`: the physics gallery as a table."""


def gallery() -> None:
    """List the physics gallery: spins, showers, jets, lenses, light curves and chirps, each with its simulator.

    vitreous train ising --out run

    trains an entry and draws figures of the physics and of the model's answers.
    """
    from rich.table import Table

    from vitreous.core.terminal import console
    from vitreous.recipes import GALLERY, load_recipe

    table = Table(title="The physics gallery", caption="vitreous train RECIPE --out RUN [--model M] [--system S]")
    for heading in ("recipe", "data", "question", "models", "systems"):
        table.add_column(heading)
    for recipe in map(load_recipe, GALLERY):
        name = f"{recipe.name}\n(vitreous\\[{recipe.extra}])" if recipe.extra else recipe.name
        table.add_row(name, recipe.title, recipe.question, "\n".join(recipe.models), "\n".join(recipe.systems))
    console().print(table)
