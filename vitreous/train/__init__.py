"""How a run is made: jobs, the loop, optimisers, checkpoints and processes."""

from vitreous.run.predictor import Prediction as Prediction
from vitreous.run.predictor import Predictor as Predictor
from vitreous.run.predictor import load as load
from vitreous.run.provenance import Provenance as Provenance
from vitreous.run.task import LOSSES as LOSSES
from vitreous.run.task import Classification as Classification
from vitreous.run.task import Regression as Regression
from vitreous.train.config import TrainConfig as TrainConfig
from vitreous.train.finetune import Start as Start
from vitreous.train.finetune import read_start as read_start
from vitreous.train.job import Job as Job
from vitreous.train.own_data import own_data_job as own_data_job
from vitreous.train.pretrain import PretrainJob as PretrainJob
from vitreous.train.pretrain import pretrain_job as pretrain_job
from vitreous.train.prune import PruneJob as PruneJob
from vitreous.train.prune import prune_job as prune_job
from vitreous.train.recipe import Recipe as Recipe
from vitreous.train.supervised import SupervisedJob as SupervisedJob
from vitreous.train.trainer import train as train
