"""Named models, their cost, and weights from other libraries."""

from vitreous.zoo.cost import Cost, model_cost, model_parts
from vitreous.zoo.variants import VARIANTS, create_model, list_models, model_config
from vitreous.zoo.weights import load_model, load_weights, save_model, save_weights

__all__ = [
    "VARIANTS",
    "Cost",
    "create_model",
    "list_models",
    "load_model",
    "load_weights",
    "model_config",
    "model_cost",
    "model_parts",
    "save_model",
    "save_weights",
]
