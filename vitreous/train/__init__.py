"""The loop, tasks, recipes and runs."""

from vitreous.train.config import TrainConfig
from vitreous.train.predictor import Prediction, Predictor, load
from vitreous.train.pretrain import PretrainExperiment, pretrain, pretraining
from vitreous.train.recipes import RECIPES, TEXTS
from vitreous.train.recipes.own import own
from vitreous.train.run import Experiment, train
from vitreous.train.start import Start, read_start
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
    "PretrainExperiment",
    "Regression",
    "Start",
    "TextExperiment",
    "TrainConfig",
    "Translator",
    "load",
    "load_translator",
    "own",
    "pretrain",
    "pretraining",
    "read_start",
    "train",
    "train_text",
]
