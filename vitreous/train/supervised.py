"""Supervised training: labelled samples, a model and a task, put together as a job."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor, nn

from vitreous.core.atomic import write_atomically
from vitreous.core.errors import InputError
from vitreous.data import Source, split
from vitreous.data.augment import Augment
from vitreous.data.scale import fit_scaling
from vitreous.nn.config import ViTConfig
from vitreous.nn.models import Config, Model, build
from vitreous.nn.reduction.reducer import measure_flops
from vitreous.run.answers import collect, evenly, outputs, with_features, write_answers
from vitreous.run.familiarity import FAMILIARITY, MOST_SAMPLES, Familiarity
from vitreous.run.provenance import Provenance
from vitreous.run.task import Task, task_for
from vitreous.run.task_file import write_task
from vitreous.train.config import TrainConfig
from vitreous.train.finetune import Start, begin_with, freeze
from vitreous.train.fingerprint import digest_start, flatten
from vitreous.train.job import TrainedModel
from vitreous.train.samples import SampleJob, augmentation_for
from vitreous.zoo.weights import load_model

NO_DROPOUT: dict[str, Any] = {"dropout": 0.0, "attention_dropout": 0.0, "drop_path": 0.0}
"""Settings of a ViT without any dropout."""


@dataclass(eq=False)
class SupervisedJob(SampleJob):
    """A training on labelled samples.

    Args:
        config: the model; its `input` and `out` are set from the data.
        augment: random changes of training batches.
        scale: how samples are scaled, one of `SCALINGS`.
        loss_name, label_smoothing: loss of a regression, empty for the default; smoothing of a classification.
        hypotheses: of a regression: number of answers that the model chooses from if one sample may have several; or 0.
        validation, test: shares of the data, if the source does not define the parts.
        start: weights to begin with; None for random ones.
    """

    source: Source
    config: Config
    settings: TrainConfig = field(default_factory=TrainConfig)
    augment: Augment = field(default_factory=Augment)
    scale: str = "channel"
    loss_name: str = ""
    label_smoothing: float = 0.0
    hypotheses: int = 0
    validation: float = 0.1
    test: float = 0.1
    provenance: Provenance = field(default_factory=Provenance)
    start: Start | None = None

    model: Model = field(init=False, repr=False)
    task: Task = field(init=False, repr=False)

    def choices(self) -> dict[str, Any]:
        start = {"weights to begin with": digest_start(self.start)}
        return self._loss() | flatten("augment", self.augment.to_dict()) | start

    def _loss(self) -> dict[str, Any]:
        return {"loss": self.loss_name, "label_smoothing": self.label_smoothing, "hypotheses": self.hypotheses}

    def setup(self, accelerator: Accelerator, folder: Path, resume: bool) -> None:
        self.split_source(accelerator, self.augment)
        rows, start = self.parts.train, self.start
        task = None if start is None else start.task
        self.task = task or task_for(self.source, rows, self.loss_name, self.label_smoothing, self.hypotheses)
        self.scaling = fit_scaling(self.scale, self.source.x, rows) if start is None else start.scaling
        torch.manual_seed(self.settings.seed)
        self.model = self._build()
        apply_settings(self.model, self.settings)
        self.create_batches(self.source, augmentation_for(self.augment, self.model.config))

    def _build(self) -> Model:
        """The model with its first weights."""
        model = build(replace(self.config, input=self.source.input, out=self.task.outputs))
        if self.start is not None:
            begin_with(model, self.start)
        outputs_at_first = self.task.initial_outputs(self._labels[self.parts.train])
        if outputs_at_first is not None and (self.start is None or self.start.task is None):
            *_, last = (module for module in model.modules() if isinstance(module, nn.Linear))
            last.bias.data.copy_(outputs_at_first)
        if self.settings.freeze:
            freeze(model, self.start)
        return model

    def with_changes(self, changes: Mapping[str, Any]) -> "SupervisedJob":
        changed = {name: value for name, value in changes.items() if value is not None}
        epochs, scale, start = (changed.pop(name, None) for name in ("epochs", "scale", "start"))
        if "layer_decay" in changed and start is None and self.start is None:
            raise InputError("layer_decay: is for a training that begins with the encoder of a run (--from)")
        settings = replace(self.settings, **changed)
        if epochs is not None:
            rows = split(self.source, self.validation, self.test, settings.seed).train
            settings = settings.with_steps(max(1, round(epochs * len(rows) / settings.batch)))
        return replace(self, settings=settings, scale=scale or self.scale, start=start or self.start)

    def evaluate(self, model: TrainedModel) -> dict[str, float]:
        rows = self.parts.validation
        with measure_flops(self.model) as spent:
            out = self._outputs(model, rows)
        return self.task.metrics(out, self.task.encode(self._labels[rows])) | spent

    def describe(self, folder: Path) -> dict[str, Any]:
        write_task(folder, self.task, self.scaling, self.source)
        start = self.provenance.start or ("" if self.start is None else self.start.name)
        return {"from": start, "augment": self.augment.to_dict(), **self._loss(), **self.describe_data()}

    def finish(self, folder: Path) -> dict[str, Any]:
        """Scores of the saved weights on validation and test; intervals are calibrated on validation."""
        model, main = load_model(folder).to(self.accelerator.device).eval(), self.accelerator.is_main_process
        result: dict[str, Any] = {"parameters": sum(p.numel() for p in model.parameters())}
        if len(rows := self.parts.validation):
            with measure_flops(model) as spent:
                out = self._outputs(model, rows)
            y = self.task.encode(self._labels[rows])
            result["validation"] = self.task.metrics(out, y) | spent
            self.task = self.task.calibrated(out, y)
            if main:
                write_task(folder, self.task, self.scaling, self.source)
        familiarity = self._write_familiarity(folder, model)
        if len(rows := self.parts.test):
            x, labels, batch = self.source.x, self._labels, self.settings.batch
            with measure_flops(model) as spent:
                out, answers = collect(
                    model, self.task, self.scaling, x, labels, rows, self.accelerator, batch, familiarity=familiarity
                )
            if main:
                write_answers(folder, answers)
            result["test"] = self.task.metrics(out, self.task.encode(labels[rows])) | spent
        return result

    def _write_familiarity(self, folder: Path, model: Model) -> Familiarity | None:
        """Describe the training part, so that predictions say how familiar their samples are."""
        x, config = self.source.x, model.config
        rows = [part[evenly(len(part), MOST_SAMPLES)] for part in (self.parts.train, self.parts.validation)]
        used = np.concatenate(rows)  # there may be no validation part
        embeddings = self._outputs(with_features(model), used)[:, self.task.outputs :].numpy()
        if not self.accelerator.is_main_process:
            return None
        ordered = not isinstance(config, ViTConfig) or config.tokens == "patch"
        raw = [np.asarray(x[part]) if ordered else None for part in rows]
        labels = self._labels[rows[0]] if self.task.classes else None
        train, validation = zip(raw, np.split(embeddings, [len(rows[0])]), strict=True)
        if (familiarity := Familiarity.fit(train, validation, labels)) is not None:
            write_atomically(folder / FAMILIARITY, familiarity.to_bytes())
        return familiarity

    def _outputs(self, model: Callable[[Tensor], Tensor], rows: NDArray[np.intp]) -> Tensor:
        return outputs(model, self.source.x, rows, self.scaling, self.accelerator, self.settings.batch)

    @property
    def _labels(self) -> NDArray[Any]:
        assert self.source.y is not None  # `task_for` has checked it
        return self.source.y


def apply_settings(model: Model, settings: TrainConfig) -> None:
    """Let a model compute as its training settings say."""
    model.set_execution(
        checkpointing=settings.checkpointing,
        stream=torch.bfloat16 if settings.stream == "bfloat16" else None,
        float8=settings.precision == "float8" and model.tokenizer is not None,  # the blocks of a ViT
    )
