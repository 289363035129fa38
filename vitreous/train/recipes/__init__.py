"""Recipes: one small function each, whose docstring states the command, the hardware, the time and the result.

A recipe takes the kind of model and gives an `Experiment`; `RECIPES` finds it by the name on the command line.
"""

from collections.abc import Callable

from vitreous.train.recipes.digits import digits
from vitreous.train.recipes.lenses import lensing
from vitreous.train.recipes.mnist import mnist, mnist_cpu
from vitreous.train.recipes.particles import jets, showers
from vitreous.train.recipes.powder import powder_best, powder_cnn, powder_index, powder_vit
from vitreous.train.recipes.series import chirps, light_curves
from vitreous.train.recipes.spins import ising, ising_temperature
from vitreous.train.recipes.translate import translate_en_de
from vitreous.train.run import Experiment
from vitreous.train.translate import TextExperiment

RECIPES: dict[str, Callable[..., Experiment]] = {
    "digits": digits,
    "mnist": mnist,
    "mnist-cpu": mnist_cpu,
    "powder-vit": powder_vit,
    "powder-cnn": powder_cnn,
    "powder-best": powder_best,
    "powder-index": powder_index,
    "ising": ising,
    "ising-temperature": ising_temperature,
    "showers": showers,
    "jets": jets,
    "lensing": lensing,
    "light-curves": light_curves,
    "chirps": chirps,
}
TEXTS: dict[str, Callable[..., TextExperiment]] = {"translate-en-de": translate_en_de}
"""Recipes of texts, likewise."""
MODELS = ("vit", "cnn")
