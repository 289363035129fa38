"""Pre-training: an encoder is trained without labels, and its folder is where `vitreous train … --from` begins.

Beside the files of every run, `pretraining.safetensors` holds the decoder or the other parts that the encoder leaves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import safetensors.torch
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor, nn

from vitreous.core.atomic import write_atomically
from vitreous.core.checksums import read_verified
from vitreous.core.errors import InputError
from vitreous.data import Source, split
from vitreous.data.augment import Augment
from vitreous.data.scale import fit_scaling
from vitreous.nn.config import ViTConfig
from vitreous.nn.pretraining import BUILD, Panels, PretrainConfig, Pretraining
from vitreous.nn.vit import ViT
from vitreous.run.answers import evenly, outputs
from vitreous.run.folder import PRETRAINING, check_finished, task_kind
from vitreous.run.provenance import Provenance
from vitreous.run.task_file import read_as, read_scaling, write_task
from vitreous.train.config import TrainConfig
from vitreous.train.fingerprint import flatten
from vitreous.train.job import TrainedModel
from vitreous.train.samples import SampleJob, augmentation_for
from vitreous.train.supervised import NO_DROPOUT, SupervisedJob, apply_settings
from vitreous.zoo.weights import load_model, save_model

REST = "pretraining.safetensors"

_VIEWS: dict[Any, Augment] = {  # default changes that leave a sample the same, by tokens or number of axes
    **dict.fromkeys(("peaks", "profile"), Augment(gain=0.1, baseline=0.05, noise=0.02)),
    "lines": Augment(),
    **dict.fromkeys(("set", "packed"), Augment(noise=0.1)),
    1: Augment(shift=2.0, gain=0.1, baseline=0.1, noise=0.05),
    2: Augment(shift=0.1, rotate=10, scale=0.15, noise=0.05),
    3: Augment(noise=0.05),
}
_DAMAGE: dict[Any, Augment] = {
    **dict.fromkeys(("set", "packed"), Augment(noise=0.3)),
    1: Augment(noise=0.5, baseline=0.1),
    2: Augment(noise=0.7),
    3: Augment(noise=0.5),
}


def _explained(out: Tensor) -> Tensor:
    return 1 - out[:, 0].sum() / out[:, 1].sum().clamp(min=1e-12)


_SCORES: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {  # beside the loss
    "masked": ("explained", _explained),  # share of the hidden variance
    "denoise": ("removed", _explained),  # share of the damage
    "contrast": ("nearest", lambda out: out[:, 1].mean()),  # how often a view is nearest to its pair
}


@dataclass(frozen=True)
class Pretext:
    """The task of a pre-training; the outputs of the model are numbers about each sample, its loss first."""

    kind: ClassVar[str] = PRETRAINING
    better: ClassVar[tuple[str, str]] = ("loss", "min")
    config: PretrainConfig

    def encode(self, y: NDArray[Any] | Tensor) -> Tensor:
        """Labels of zero numbers, `(n, 0)`."""
        return torch.zeros(len(y), 0, device=y.device if isinstance(y, Tensor) else None)

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        return out[:, 0].mean()

    def metrics(self, out: Tensor) -> dict[str, float]:
        """The loss and the score of the method."""
        name, score = _SCORES[self.config.method]
        return {"loss": float(out[:, 0].mean()), name: float(score(out))}

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.config.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Pretext":
        return cls(PretrainConfig.from_dict({name: value for name, value in values.items() if name != "kind"}))


@dataclass(eq=False)
class PretrainJob(SampleJob):
    """A training without labels; those of the source are not used.

    Args:
        config: the encoder; its `input` is set from the data.
        method: how it learns.
        augment: changes that leave a sample the same; for `contrast`, they make its views.
        damage: for `denoise`, the damage to undo.
        scale: how samples are scaled, one of `SCALINGS`.
        validation, test: shares of the data, if the source does not define the parts; `test` is not used.
    """

    source: Source
    config: ViTConfig
    method: PretrainConfig = field(default_factory=PretrainConfig)
    settings: TrainConfig = field(default_factory=TrainConfig)
    augment: Augment = field(default_factory=Augment)
    damage: Augment = field(default_factory=Augment)
    scale: str = "channel"
    validation: float = 0.1
    test: float = 0.1
    provenance: Provenance = field(default_factory=Provenance)

    model: Pretraining = field(init=False, repr=False)
    task: Pretext = field(init=False, repr=False)

    def fingerprint(self) -> dict[str, Any]:
        unused = () if self.source.classes else ("targets", "labels")  # classes are spread over the parts
        return {name: value for name, value in super().fingerprint().items() if name not in unused}

    def choices(self) -> dict[str, Any]:
        parts = {"method": self.method, "augment": self.augment, "damage": self.damage}
        return {name: value for part in parts for name, value in flatten(part, parts[part].to_dict()).items()}

    def setup(self, accelerator: Accelerator, folder: Path, resume: bool) -> None:
        self.split_source(accelerator, self.augment, self.damage)
        self.task, self.scaling = Pretext(self.method), fit_scaling(self.scale, self.source.x, self.parts.train)
        torch.manual_seed(self.settings.seed)
        encoder = ViT(replace(self.config, input=self.source.input, out=0))
        apply_settings(encoder, self.settings)
        self.model, view = BUILD[self.method.method](encoder, self.method), self.view()
        unlabelled = replace(self.source, y=np.zeros((len(self.source), 0), np.float32), classes=(), targets=())
        self.create_batches(unlabelled, lambda x, y: (view(x), y))

    def view(self) -> Callable[[Tensor], Tensor]:
        """From scaled samples `(B, C, *grid)` to the model's input: the samples, or pairs `(B, 2, C, *grid)`."""
        config = replace(self.config, input=self.source.input)

        def change(augment: Augment, x: Tensor) -> Tensor:
            return augmentation_for(augment, config)(x, x.new_zeros(len(x), 0))[0]

        def denoise(x: Tensor) -> Tensor:
            clean = change(self.augment, x)
            return torch.stack([change(self.damage, clean), clean], dim=1)

        views: dict[str, Callable[[Tensor], Tensor]] = {
            "masked": lambda x: change(self.augment, x),
            "denoise": denoise,
            "contrast": lambda x: torch.stack([change(self.augment, x), change(self.augment, x)], dim=1),
        }
        return views[self.method.method]

    @torch.random.fork_rng()
    def evaluate(self, model: TrainedModel) -> dict[str, float]:
        torch.manual_seed(self.settings.seed)  # the same hidden tokens and the same views at every evaluation
        x, rows, view = self.source.x, self.parts.validation, self.view()
        out = outputs(model, x, rows, lambda x: view(self.scaling(x)), self.accelerator, self.settings.batch)
        return self.task.metrics(out)

    def describe(self, folder: Path) -> dict[str, Any]:
        write_task(folder, self.task, self.scaling, self.source)
        return {"augment": self.augment.to_dict(), "damage": self.damage.to_dict(), **self.describe_data()}

    def save(self, model: nn.Module, folder: Path) -> None:
        """Write the encoder like any model, and the other parts beside it."""
        assert isinstance(model, Pretraining)
        save_model(model.encoder, folder)
        rest = {n: v.contiguous() for n, v in model.state_dict().items() if not n.startswith("encoder.")}
        write_atomically(folder / REST, safetensors.torch.save(rest))

    def finish(self, folder: Path) -> dict[str, Any]:
        model = load_pretraining(folder).to(self.accelerator.device).eval()
        size = {"parameters": sum(p.numel() for p in model.encoder.parameters())}
        return size | ({"validation": self.evaluate(model)} if self.validates else {})


def pretrain_job(job: SupervisedJob, method: PretrainConfig) -> PretrainJob:
    """The pre-training for a supervised job: the same samples, encoder and settings, without labels or dropout."""
    if not isinstance(job.config, ViTConfig):
        raise InputError("model: a cnn has no tokens; pre-training is for a vit")
    config = replace(job.config, out=0, head=(), input=job.source.input, **NO_DROPOUT)
    method.check(config)
    if method.method == "contrast" and job.settings.batch < 2:
        raise InputError(f"batch: found {job.settings.batch}, expected at least 2 samples to contrast")
    kind = len(config.grid) if config.tokens == "patch" else config.tokens
    own = replace(job.augment, mixup=0.0, cutmix=0.0)  # a blend of two samples is neither of them
    views = own if own != Augment() or method.method == "masked" else _VIEWS[kind]
    damage = _DAMAGE[kind] if method.method == "denoise" else Augment()
    settings = replace(job.settings, keep="last")
    return PretrainJob(
        job.source, config, method, settings, views, damage, job.scale, job.validation, job.test, job.provenance
    )


def load_pretraining(folder: Path) -> Pretraining:
    """The encoder of a pre-training with its decoder or other parts."""
    if task_kind(folder) != PRETRAINING:
        raise InputError(f"{folder}: is no pre-training")
    task, encoder = read_as(folder, lambda values: Pretext.from_dict(values["task"])), load_model(folder)
    if not isinstance(encoder, ViT):
        raise InputError(f"{folder}: holds a {type(encoder).__name__}, expected a ViT")
    model = BUILD[task.config.method](encoder, task.config)
    try:
        rest = safetensors.torch.load(read_verified(folder / REST))
        model.load_state_dict({**{f"encoder.{n}": v for n, v in encoder.state_dict().items()}, **rest})
    except (SafetensorError, InputError, RuntimeError):
        raise InputError(f"{folder / REST}: is damaged or missing") from None
    return model


@torch.no_grad()
@torch.random.fork_rng()
def show_samples(job: PretrainJob, folder: Path, count: int = 4) -> Panels:
    """A few validation (or else training) samples, scaled; what the encoder receives of them; the model's output."""
    check_finished(folder)
    model, scaling = load_pretraining(folder).eval(), read_scaling(folder)
    parts = split(job.source, job.validation, job.test, job.settings.seed)
    rows = parts.validation if len(parts.validation) else parts.train
    x = scaling(torch.from_numpy(np.ascontiguousarray(job.source.x[rows[evenly(len(rows), count)]])))
    torch.manual_seed(job.settings.seed)
    return model.panels(x, job.view()(x))
