"""Named models, their cost, and weights from other libraries."""

from vitreous.zoo.cost import Cost as Cost
from vitreous.zoo.cost import model_cost as model_cost
from vitreous.zoo.cost import model_parts as model_parts
from vitreous.zoo.variants import VARIANTS as VARIANTS
from vitreous.zoo.variants import create_model as create_model
from vitreous.zoo.variants import list_models as list_models
from vitreous.zoo.variants import model_config as model_config
from vitreous.zoo.weights import load_model as load_model
from vitreous.zoo.weights import load_weights as load_weights
from vitreous.zoo.weights import save_model as save_model
from vitreous.zoo.weights import save_weights as save_weights
