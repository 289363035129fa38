"""How a run is made: jobs, the loop, optimisers, checkpoints and processes."""

from vitreous.run.predictor import Prediction, Predictor, load
from vitreous.run.provenance import Provenance
from vitreous.run.task import LOSSES, Classification, Regression
from vitreous.train.config import TrainConfig
from vitreous.train.finetune import Start, read_start
from vitreous.train.job import Job
from vitreous.train.own_data import own_data_job
from vitreous.train.pretrain import PretrainJob, pretrain_job
from vitreous.train.prune import PruneJob, prune_job
from vitreous.train.recipe import Recipe
from vitreous.train.supervised import SupervisedJob
from vitreous.train.trainer import train

__all__ = [
    "LOSSES",
    "Classification",
    "Job",
    "Prediction",
    "Predictor",
    "PretrainJob",
    "Provenance",
    "PruneJob",
    "Recipe",
    "Regression",
    "Start",
    "SupervisedJob",
    "TrainConfig",
    "load",
    "own_data_job",
    "pretrain_job",
    "prune_job",
    "read_start",
    "train",
]
