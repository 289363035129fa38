"""`vitreous gallery`: the physics gallery as a table."""


def gallery() -> None:
    """List the physics gallery: spins, showers, jets, lenses, light curves and chirps, each with its simulator.

    vitreous train ising --out run

    trains an entry and draws figures of the physics and of the model's answers.
    """
    from vitreous.cli.output import print_table
    from vitreous.recipes import GALLERY, load_recipe

    headings, rows = ("recipe", "data", "question", "models", "systems"), []
    for recipe in map(load_recipe, GALLERY):
        name = f"{recipe.name}\n(vitreous\\[{recipe.extra}])" if recipe.extra else recipe.name
        rows.append((name, recipe.title, recipe.question, "\n".join(recipe.models), "\n".join(recipe.systems)))
    caption = "vitreous train RECIPE --out RUN [--model M] [--system S]"
    print_table("The physics gallery", headings, rows, left=len(headings), caption=caption)
