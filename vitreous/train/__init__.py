"""The loop, tasks, recipes and runs."""

from vitreous.train.config import TrainConfig
from vitreous.train.predictor import Prediction, Predictor, load
from vitreous.train.recipes import RECIPES
from vitreous.train.recipes.own import own
from vitreous.train.run import Experiment, train
from vitreous.train.task import LOSSES, Classification, Regression

__all__ = [
    "LOSSES",
    "RECIPES",
    "Classification",
    "Experiment",
    "Prediction",
    "Predictor",
    "Regression",
    "TrainConfig",
    "load",
    "own",
    "train",
]
