"""`Job`: what a loop trains. Supervised training, pre-training, pruning and translation are jobs.

A job is a description first: data, model, settings. `setup` builds its model and its batches for a machine.
"""

import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.core.version import __version__
from vitreous.run.folder import EXPERIMENT, write_json
from vitreous.run.provenance import Provenance
from vitreous.train.batches import Batch
from vitreous.train.config import TrainConfig
from vitreous.train.device import pick_precision
from vitreous.zoo.weights import save_model

TrainedModel = Callable[[Tensor], Tensor]


class Job(ABC):
    """A training, as the loop sees it."""

    settings: TrainConfig
    provenance: Provenance
    model: nn.Module  # after `setup`
    better: tuple[str, str]  # the score that decides which weights are best, and whether `min` or `max` is better
    validates: bool  # whether there is a validation part to evaluate on

    def with_changes(self, changes: Mapping[str, Any]) -> "Job":
        """The same job with changed settings, None for no change.

        Beside the fields of `TrainConfig`, `epochs` stands for a number of steps, `scale` for another scaling, and
        `start` for weights to begin with.
        """
        raise InputError(f"{type(self).__name__}: its settings cannot be changed")

    def fingerprint(self) -> dict[str, Any]:
        """What a training that is resumed must have in common with the one that was begun, by name; before `setup`.

        Choices come first, then content, then what follows from both: the first difference is reported.
        """
        return {"recipe": self.provenance.recipe, "system": self.provenance.system}

    @abstractmethod
    def setup(self, accelerator: Accelerator, folder: Path, resume: bool) -> None:
        """Check the description, then build the model and the batches for this machine."""

    @abstractmethod
    def batches(self, step: int) -> Batch:
        """Raw samples and targets of a step, on the device; a function of the seed and the step alone."""

    def prepare(self, x: Tensor, y: Tensor) -> Batch:
        """Raw samples and targets as the model takes them, scaled and augmented; runs on the device."""
        return x, y

    @abstractmethod
    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """The loss of the model's outputs."""

    @abstractmethod
    def evaluate(self, model: TrainedModel) -> dict[str, float]:
        """Scores on the validation part."""

    @abstractmethod
    def describe(self, folder: Path) -> dict[str, Any]:
        """Write what the run needs beside its weights; returns the job's own fields of `experiment.json`."""

    def save(self, model: nn.Module, folder: Path) -> None:
        """Write the weights to keep."""
        save_model(model, folder)

    @abstractmethod
    def finish(self, folder: Path) -> dict[str, Any]:
        """Scores of the weights that were kept, for `result.json`."""


def write_experiment(job: Job, folder: Path, own: Mapping[str, Any], accelerator: Accelerator) -> None:
    """Write `experiment.json`: where the run comes from and how it is made."""
    device = accelerator.device.type
    made_with: dict[str, Any] = {"vitreous": __version__, "torch": torch.__version__}
    made_with["python"] = platform.python_version()
    made_with["device"] = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    made_with["processes"] = accelerator.num_processes
    made_with["precision"] = pick_precision(job.settings.precision, device)
    fields = job.provenance.to_dict() | {"train": job.settings.to_dict()} | dict(own) | {"made_with": made_with}
    write_json(folder / EXPERIMENT, fields)
