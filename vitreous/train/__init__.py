"""The loop, tasks, recipes and runs."""

from vitreous.train.config import TrainConfig
from vitreous.train.predictor import Prediction, Predictor, load
from vitreous.train.recipes import RECIPES, TEXTS
from vitreous.train.recipes.own import own
from vitreous.train.run import Experiment, train
from vitreous.train.task import LOSSES, Classification, Regression
from vitreous.train.translate import TextExperiment, train_text
from vitreous.train.translator import Translator, load_translator

__all__ = [
    "LOSSES",
    "RECIPES",
    "TEXTS",
    "Classification",
    "Experiment",
    "Prediction",
    "Predictor",
    "Regression",
    "TextExperiment",
    "TrainConfig",
    "Translator",
    "load",
    "load_translator",
    "own",
    "train",
    "train_text",
]
