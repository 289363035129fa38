"""`SampleJob`: what jobs on samples of a source have in common, with labels or without."""

from collections.abc import Callable
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from vitreous.data import PARTS, Source, Split, split
from vitreous.data.augment import Augment
from vitreous.data.scale import Scaling
from vitreous.nn.models import Config
from vitreous.train.augmentation import check_scale
from vitreous.train.batches import Batch, Batches, create_batches
from vitreous.train.job import Job
from vitreous.train.processes import check_batch, compiles


class SampleJob(Job):
    """A job whose batches are scaled and augmented samples."""

    source: Source
    config: Config
    scale: str
    validation: float
    test: float
    # after `setup`
    accelerator: Accelerator
    parts: Split
    scaling: Scaling
    task: Any
    _batches: Batches
    _prepare: Callable[[Tensor, Tensor], Batch]

    def split_source(self, accelerator: Accelerator, *augments: Augment) -> None:
        """Check the description and split the samples into parts."""
        self.accelerator = accelerator
        for augment in augments:
            augment.check(len(self.source.axes))
        check_scale(self.scale, self.config)
        check_batch(self.settings, accelerator)
        self.parts = split(self.source, self.validation, self.test, self.settings.seed)
        self.validates = len(self.parts.validation) > 0

    def create_batches(self, source: Source, change: Callable[[Tensor, Tensor], Batch]) -> None:
        """Batches of the training part; `change` augments scaled samples and their targets."""
        settings, scale = self.settings, self.scaling.on(self.accelerator.device)
        self.better = self.task.better
        self._batches = create_batches(
            source, self.parts.train, self.task, settings.batch, settings.seed, self.accelerator
        )

        def prepare(x: Tensor, y: Tensor) -> Batch:
            return change(scale(x), y)

        self._prepare = torch.compile(prepare) if compiles(settings, self.accelerator) else prepare

    def batches(self, step: int) -> Batch:
        return self._batches(step)

    def prepare(self, x: Tensor, y: Tensor) -> Batch:
        return self._prepare(x, y)

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        loss: Tensor = self.task.loss(out, y)
        return loss

    def describe_data(self) -> dict[str, Any]:
        """Fields of `experiment.json` about scaling and parts."""
        return {
            "scale": self.scale,
            "validation": self.validation,
            "test": self.test,
            "samples": {part: len(getattr(self.parts, part)) for part in PARTS},
        }
