"""Augmentation of packed sets: noise on what elements measure, never on where they are or whether they are there."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vitreous.core.errors import InputError
from vitreous.data.augment import Augment
from vitreous.data.source import Axis, Source
from vitreous.insight.explanation import explain, explain_heads
from vitreous.insight.report import read_run, write_report
from vitreous.nn import CNNConfig, ViTConfig
from vitreous.nn.pretraining import PretrainConfig
from vitreous.train import SupervisedJob, load, pretrain_job, train
from vitreous.train.config import TrainConfig
from vitreous.train.pretrain import show_samples
from vitreous.train.samples import augmentation_for, element_noise

PACKED = ViTConfig(input=(5, 12), tokens="packed", axes=2, dim=16, depth=1, heads=2, pool="mean")


def source(count: int = 60) -> Source:
    """Sets of up to 12 elements; the class is the sign of the sum of the first feature."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 5, 12)).astype(np.float32)
    x *= np.arange(12) < rng.integers(1, 13, size=(count, 1, 1))
    names = ("signal", "width", "time", "east (m)", "north (m)")
    return Source("hits", x, (x[:, 0].sum(1) > 0).astype(np.int64), (Axis("element"),), names, ("below", "above"))


def experiment(**changes: Any) -> SupervisedJob:
    settings = TrainConfig(steps=2, batch=8, evaluate_every=2, lr=1e-3)
    return SupervisedJob(source(), PACKED, settings, **{"scale": "none", **changes})


def test_noise_keeps_places_and_absence() -> None:
    x = torch.from_numpy(source().x)
    noisy = element_noise(x, 3, 0.5)
    assert torch.equal(noisy[:, 3:], x[:, 3:])
    missing = ~(x != 0).any(1, keepdim=True).expand(-1, 3, -1)
    assert (noisy[:, :3][missing] == 0).all()
    assert (noisy[:, :3][~missing] != x[:, :3][~missing]).float().mean() > 0.9


def test_noise_is_measured_by_the_spread_over_the_elements_that_there_are() -> None:
    torch.manual_seed(0)
    x = torch.zeros(4000, 2, 40)
    x[:, 0, :10] = 5 + 3 * torch.tensor([-1.0, 1.0]).repeat(5)  # deviation 3
    x[:, 1, :10] = 1
    moved = (element_noise(x, 1, 0.2) - x)[:, 0, :10]
    rms = 3 * 0.2 / np.sqrt(3)  # of a level that is uniform from 0 to 0.2
    assert moved.square().mean().sqrt().item() == pytest.approx(rms, rel=0.03)


def test_other_models_are_augmented_as_ever() -> None:
    shift = Augment(shift=1.0)
    x, y = torch.rand(2, 3, 4), torch.rand(2, 1)
    assert augmentation_for(Augment(), PACKED)(x, y) == (x, y)
    assert augmentation_for(shift, CNNConfig(input=(1, 8))) is shift
    with pytest.raises(InputError, match="expected noise alone"):
        augmentation_for(shift, PACKED)


def test_scaling_that_would_move_the_zeros_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="scale: found 'channel', but zeros mark missing elements of packed samples"):
        train(experiment(scale="channel"), tmp_path, bar=False)


def test_a_training_answers_explains_and_reports(tmp_path: Path) -> None:
    train(experiment(augment=Augment(noise=0.1)), tmp_path / "run", bar=False)
    predictor = load(tmp_path / "run")
    x = source().x
    assert predictor(x[:5, :, :7]).probabilities is not None  # of fewer elements
    for told in (explain(predictor, x[0]), explain_heads(predictor, x[0])):
        assert told.figure.axes[0].get_xlabel() in ("", "east (m)")
    write_report(read_run(tmp_path / "run"), tmp_path / "report.html")
    assert "attention distance (east (m), north (m))" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("method", ["masked", "denoise", "contrast"])
def test_a_pretraining_is_begun_and_gone_on_from(method: str, tmp_path: Path) -> None:
    job = pretrain_job(experiment(), PretrainConfig(method, dim=16))
    result = train(job, tmp_path / "before", bar=False)
    assert np.isfinite(result["validation"]["loss"])
    assert len(show_samples(job, tmp_path / "before", 2)[0]) == 2
