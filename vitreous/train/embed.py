"""Training of an embedding on references and measurements, which are near if the one contains the other."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from vitreous.core.errors import InputError
from vitreous.data import Source
from vitreous.data.augment import Augment
from vitreous.data.scale import fit_scaling
from vitreous.nn.models import Config, Model, build
from vitreous.run.answers import outputs
from vitreous.run.embedding import Embedding
from vitreous.run.provenance import Provenance
from vitreous.run.task_file import write_task
from vitreous.train.config import TrainConfig
from vitreous.train.fingerprint import flatten
from vitreous.train.job import TrainedModel
from vitreous.train.samples import SampleJob
from vitreous.train.supervised import apply_settings
from vitreous.zoo.weights import load_model


@dataclass(eq=False)
class EmbedJob(SampleJob):
    """A training of an embedding.

    Args:
        source: samples with the labels of `run.embedding.encode_contents`.
        config: the model; its `input` and `out` are set from the data and the task.
        scale: how samples are scaled, one of `SCALINGS`.
        validation, test: shares of the data, if the source does not define the parts; `test` is not used.
    """

    source: Source
    config: Config
    task: Embedding
    settings: TrainConfig = field(default_factory=TrainConfig)
    scale: str = "sample"
    validation: float = 0.1
    test: float = 0.0
    provenance: Provenance = field(default_factory=Provenance)

    model: Model = field(init=False, repr=False)

    def choices(self) -> dict[str, Any]:
        return flatten("task", self.task.to_dict())

    def setup(self, accelerator: Accelerator, folder: Path, resume: bool) -> None:
        self.split_source(accelerator)
        self.scaling = fit_scaling(self.scale, self.source.x, self.parts.train)
        torch.manual_seed(self.settings.seed)
        self.model = build(replace(self.config, input=self.source.input, out=self.task.outputs))
        apply_settings(self.model, self.settings)
        self.create_batches(self.source, lambda x, y: (x, y))

    def with_changes(self, changes: Mapping[str, Any]) -> "EmbedJob":
        changed = {name: value for name, value in changes.items() if value is not None}
        epochs, scale = changed.pop("epochs", None), changed.pop("scale", None)
        for name in {"start", "freeze", "layer_decay"} & changed.keys():
            option = {"start": "from"}.get(name, name)
            raise InputError(f"{option}: the training of an embedding begins with random weights")
        settings = replace(self.settings, **changed)
        if epochs is not None:
            settings = settings.with_steps(max(1, round(epochs * len(self.source) / settings.batch)))
        return replace(self, settings=settings, scale=scale or self.scale)

    def evaluate(self, model: TrainedModel) -> dict[str, float]:
        rows, y = self.parts.validation, self.source.y
        assert y is not None
        out = outputs(model, self.source.x, rows, self.scaling, self.accelerator, self.settings.batch)
        return self.task.metrics(out, self.task.encode(y[rows]))

    def describe(self, folder: Path) -> dict[str, Any]:
        write_task(folder, self.task, self.scaling, self.source)
        unused = {"from": "", "augment": Augment().to_dict(), "loss": "", "label_smoothing": 0.0, "hypotheses": 0}
        return unused | self.describe_data()

    def finish(self, folder: Path) -> dict[str, Any]:
        model = load_model(folder).to(self.accelerator.device).eval()
        size = {"parameters": sum(p.numel() for p in model.parameters())}
        return size | ({"validation": self.evaluate(model)} if self.validates else {})
