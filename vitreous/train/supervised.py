"""Supervised training: labelled samples, a model and a task, put together as a job."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.data import Source, split
from vitreous.data.augment import Augment
from vitreous.data.scale import fit_scaling
from vitreous.nn.models import Config, Model, build
from vitreous.nn.reduction.reducer import measure_flops
from vitreous.run.answers import collect, outputs, write_answers
from vitreous.run.provenance import Provenance
from vitreous.run.task import Task, task_for
from vitreous.run.task_file import write_task
from vitreous.train.augmentation import augmentation_for
from vitreous.train.config import TrainConfig
from vitreous.train.finetune import Start, begin_with, freeze
from vitreous.train.job import TrainedModel
from vitreous.train.samples import SampleJob
from vitreous.zoo.weights import load_model


@dataclass(eq=False)
class SupervisedJob(SampleJob):
    """A training on labelled samples.

    Args:
        source: labelled samples.
        config: the model; its `input` and `out` are set from the data.
        settings: how to train.
        augment: random changes of training batches.
        scale: how samples are scaled, one of `SCALINGS`.
        loss_name: loss of a regression; empty for the default.
        label_smoothing: of a classification.
        hypotheses: of a regression: number of answers that the model chooses from, if one sample may have several; 0
            for one answer.
        validation, test: shares of the data, if the source does not define the parts.
        provenance: where data and settings come from.
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
        if self.start is None or self.start.task is None:
            outputs_at_first = self.task.initial_outputs(_labels(self.source, self.parts.train))
            if outputs_at_first is not None:
                _set_last_bias(model, outputs_at_first)
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
        rows, batch = self.parts.validation, self.settings.batch
        with measure_flops(self.model) as spent:
            out = outputs(model, self.source.x, rows, self.scaling, self.accelerator, batch)
        return self.task.metrics(out, self.task.encode(_labels(self.source, rows))) | spent

    def describe(self, folder: Path) -> dict[str, Any]:
        write_task(folder, self.task, self.scaling, self.source)
        start = self.provenance.start or ("" if self.start is None else self.start.name)
        return {
            "from": start,
            "augment": self.augment.to_dict(),
            "loss": self.loss_name,
            "label_smoothing": self.label_smoothing,
            "hypotheses": self.hypotheses,
            **self.describe_data(),
        }

    def finish(self, folder: Path) -> dict[str, Any]:
        """Scores of the saved weights on validation and test; intervals are calibrated on validation."""
        model = load_model(folder).to(self.accelerator.device).eval()
        result: dict[str, Any] = {"parameters": sum(p.numel() for p in model.parameters())}
        for part, compute in (("validation", self._outputs), ("test", self._stored_outputs)):
            rows = getattr(self.parts, part)
            if not len(rows):
                continue
            with measure_flops(model) as spent:
                out = compute(model, rows, folder)
            y = self.task.encode(_labels(self.source, rows))
            result[part] = self.task.metrics(out, y) | spent
            if part == "validation":
                self.task = self.task.calibrated(out, y)
                if self.accelerator.is_main_process:
                    write_task(folder, self.task, self.scaling, self.source)
        return result

    def _outputs(self, model: nn.Module, rows: NDArray[np.intp], folder: Path) -> Tensor:
        return outputs(model, self.source.x, rows, self.scaling, self.accelerator, self.settings.batch)

    def _stored_outputs(self, model: nn.Module, rows: NDArray[np.intp], folder: Path) -> Tensor:
        """Outputs of the test part; they are also stored in the folder."""
        assert self.source.y is not None
        out, answers = collect(
            model, self.task, self.scaling, self.source.x, self.source.y, rows, self.accelerator, self.settings.batch
        )
        if self.accelerator.is_main_process:
            write_answers(folder, answers)
        return out


def apply_settings(model: Model, settings: TrainConfig) -> None:
    """Let a model compute as its training settings say."""
    model.set_execution(
        checkpointing=settings.checkpointing,
        stream=torch.bfloat16 if settings.stream == "bfloat16" else None,
        float8=settings.precision == "float8" and model.tokenizer is not None,  # the blocks of a ViT
    )


def _set_last_bias(model: nn.Module, outputs_at_first: Tensor) -> None:
    """Let the model's last layer begin with the given outputs."""
    *_, last = (module for module in model.modules() if isinstance(module, nn.Linear))
    with torch.no_grad():
        last.bias.copy_(outputs_at_first)


def _labels(source: Source, rows: NDArray[np.intp]) -> NDArray[Any]:
    assert source.y is not None
    labels: NDArray[Any] = source.y[rows]
    return labels
