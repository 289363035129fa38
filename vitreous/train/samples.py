"""`SampleJob`: what jobs on samples of a source have in common, with labels or without: scaling and augmentation."""

from collections.abc import Callable
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.data import PARTS, Source, Split, split
from vitreous.data.augment import Augment
from vitreous.data.scale import Scaling
from vitreous.nn.config import ViTConfig
from vitreous.nn.models import Config, describe
from vitreous.nn.tokens.sets import present_elements
from vitreous.train.batches import Batch, Batches, SimulatedBatches, StoredBatches
from vitreous.train.fingerprint import describe_source, flatten
from vitreous.train.job import Job

Change = Callable[[Tensor, Tensor], Batch]
"""Samples and targets to changed ones."""


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
    _prepare: Change

    def fingerprint(self) -> dict[str, Any]:
        shares = {"scale": self.scale, "validation": self.validation, "test": self.test}
        model = flatten("model", describe(self.config))
        return super().fingerprint() | shares | self.choices() | describe_source(self.source) | model

    def choices(self) -> dict[str, Any]:
        """The part of the fingerprint that only this kind of job has."""
        return {}

    def split_source(self, accelerator: Accelerator, *augments: Augment) -> None:
        """Check the description and split the samples into parts."""
        self.accelerator, settings, config = accelerator, self.settings, self.config
        for augment in augments:
            augment.check(len(self.source.axes))
        if config.tokenizer is not None and config.tokenizer.zero_is_missing and self.scale != "none":
            missing = f"zeros mark missing elements of {config.tokenizer.kind} samples"
            raise InputError(f"scale: found {self.scale!r}, but {missing}; expected 'none'")
        if settings.batch % (accelerator.num_processes * settings.accumulate):
            parts = f"{accelerator.num_processes} process(es) in {settings.accumulate} part(s)"
            raise InputError(f"batch: {settings.batch} samples cannot be shared evenly by {parts}")
        self.parts = split(self.source, self.validation, self.test, settings.seed)
        self.validates = len(self.parts.validation) > 0

    def create_batches(self, source: Source, change: Change) -> None:
        """Batches of the training part; `change` augments scaled samples and their targets."""
        settings, device, self.better = self.settings, self.accelerator.device, self.task.better
        scale, common = self.scaling.on(device), (self.task, settings.batch, settings.seed, device)
        processes = self.accelerator.process_index, self.accelerator.num_processes
        if source.fresh is None:
            self._batches = StoredBatches(source, self.parts.train, *common, *processes)
        else:
            self._batches = SimulatedBatches(source, *common, *processes)

        def prepare(x: Tensor, y: Tensor) -> Batch:
            return change(scale(x), y)

        compiles = device.type == "cuda" and settings.compile in ("auto", "on")
        self._prepare = torch.compile(prepare) if compiles else prepare

    def batches(self, step: int) -> Batch:
        return self._batches(step)

    def prepare(self, x: Tensor, y: Tensor) -> Batch:
        return self._prepare(x, y)

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        loss: Tensor = self.task.loss(out, y)
        return loss

    def describe_data(self) -> dict[str, Any]:
        """Fields of `experiment.json` about scaling and parts."""
        samples = {part: len(getattr(self.parts, part)) for part in PARTS}
        return {"scale": self.scale, "validation": self.validation, "test": self.test, "samples": samples}


def augmentation_for(augment: Augment, config: Config) -> Change:
    """The function that augments the samples of a model: any `Augment` for a grid, noise alone for a packed set."""
    if augment == Augment():
        return lambda x, y: (x, y)
    if not isinstance(config, ViTConfig) or config.tokens != "packed":
        return augment
    if augment != Augment(noise=augment.noise, fill=augment.fill):
        raise InputError("augment: elements of a packed set have neither order nor shape; expected noise alone")
    features = config.input[0] - config.axes
    return lambda x, y: (element_noise(x, features, augment.noise), y)


def element_noise(x: Tensor, features: int, noise: float) -> Tensor:
    """Packed sets `(B, rows, N)` with white noise on the features (the first rows) of the elements that are present.

    Its deviation is at most `noise` times the deviation of the feature over the elements; every sample has its own.
    Coordinates and missing elements do not change: zeros with noise would be elements.
    """
    values, present = x[:, :features], present_elements(x).unsqueeze(1)
    count = present.sum(-1, keepdim=True).clamp(min=1)
    mean = values.sum(-1, keepdim=True) / count  # missing ones are zeros
    deviation = ((values - mean).square() * present).sum(-1, keepdim=True).div(count).sqrt()  # (B, features, 1)
    level = noise * torch.rand(len(x), 1, 1, device=x.device, dtype=x.dtype)
    changed = values + present * deviation * level * torch.randn_like(values)
    return torch.cat([changed, x[:, features:]], dim=1)
