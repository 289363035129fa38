"""Named models, and weights trained elsewhere."""

from vitreous.zoo.cost import Cost, cost, parts
from vitreous.zoo.variants import VARIANTS, create_model, list_models, model_config
from vitreous.zoo.weights import load_model, load_weights, save_model, save_weights

__all__ = [
    "VARIANTS",
    "Cost",
    "cost",
    "create_model",
    "list_models",
    "load_model",
    "load_weights",
    "model_config",
    "parts",
    "save_model",
    "save_weights",
]
