"""Every recipe by its name. The table holds where each record lies; it is imported when it is asked for."""

from importlib import import_module

from vitreous.core.errors import InputError
from vitreous.train.recipe import Recipe

RECIPES = {
    "digits": "vitreous.recipes.digits:DIGITS",
    "mnist": "vitreous.recipes.digits:MNIST",
    "mnist-cpu": "vitreous.recipes.digits:MNIST_CPU",
    "powder-vit": "vitreous.powder.recipes:VIT",
    "powder-cnn": "vitreous.powder.recipes:CNN",
    "powder-best": "vitreous.powder.recipes:BEST",
    "powder-index": "vitreous.powder.recipes:INDEX",
    "powder-symmetry": "vitreous.powder.recipes:SYMMETRY",
    "powder-embed": "vitreous.powder.recipes:EMBED",
    "ising": "vitreous.gallery.ising.recipe:RECIPE",
    "ising-temperature": "vitreous.gallery.ising.recipe:TEMPERATURE",
    "showers": "vitreous.gallery.showers.recipe:RECIPE",
    "jets": "vitreous.gallery.jets.recipe:RECIPE",
    "lensing": "vitreous.gallery.lensing.recipe:RECIPE",
    "light-curves": "vitreous.gallery.light_curves.recipe:RECIPE",
    "chirps": "vitreous.gallery.chirps.recipe:RECIPE",
    "translate-en-de": "vitreous.text.recipe:EN_DE",
}
"""Name on the command line to module and variable of the record."""
GALLERY = tuple(name for name, place in RECIPES.items() if place.startswith("vitreous.gallery."))
"""Recipes of the physics gallery."""


def load_recipe(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in RECIPES:
        raise InputError(f"recipe: unknown name {name!r}; expected one of: {', '.join(RECIPES)}")
    module, _, variable = RECIPES[name].partition(":")
    recipe: Recipe = getattr(import_module(module), variable)
    return recipe
