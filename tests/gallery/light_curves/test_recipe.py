"""Light curves with and without labels, and the classical baseline."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.few_curves import labelled_source
from benchmarks.light_curves import features, trees
from tests.recipes import narrow, two_steps
from vitreous.gallery.light_curves.source import SYSTEMS, Survey, curves_source, pack_curve, simulate_curves
from vitreous.nn.pretraining import PretrainConfig
from vitreous.train import load, pretrain_job, read_start, train


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_denoising_encoder_is_fine_tuned(system: str, tmp_path: Path) -> None:
    experiment = narrow(two_steps("light-curves", {"system": system}))
    train(pretrain_job(experiment, PretrainConfig("denoise")), tmp_path / "before", device="cpu", bar=False)
    begun = replace(experiment, start=read_start(tmp_path / "before"))
    result = train(begun, tmp_path / "after", device="cpu", bar=False)
    assert result["steps"] == 2
    assert ("coverage90" in result["test"]) == (system == "redshift")


def test_two_observations_have_an_answer_and_order_does_not_matter(tmp_path: Path) -> None:
    train(narrow(two_steps("light-curves", {})), tmp_path, device="cpu", bar=False)
    predictor = load(tmp_path)
    short = predictor(pack_curve([1.0, 3.0], [5.0, 6.0], [0.2, 0.2], ["r", "r"])[None]).probabilities
    assert short is not None
    assert np.isfinite(short).all()
    x = simulate_curves(Survey(), 4).x
    answers = [predictor(each.numpy()).probabilities for each in (x, x[:, :, torch.randperm(x.shape[2])])]
    assert np.allclose(*answers, atol=1e-5)


def test_hand_made_features_do_not_depend_on_the_order_of_observations() -> None:
    torch.manual_seed(0)
    x = simulate_curves(Survey(), 40).x
    values = features(x.numpy())
    shuffled = features(x[:, :, torch.randperm(x.shape[2])].numpy())
    assert len(values) == 40
    assert np.isfinite(values).any(0).all()
    assert np.allclose(values, shuffled, equal_nan=True)


def test_trees_predict_kinds_and_redshifts_better_than_chance() -> None:
    small = {"train": 8, "validation": 200, "test": 200}
    assert trees(curves_source("class", **small), "class", 600, rounds=20)["accuracy"] > 0.6
    source = curves_source("redshift", **small)
    assert source.y is not None
    scores = trees(source, "redshift", 600, rounds=20)
    assert scores["rmse"] < 0.7 * source.y.std()
    assert 0.8 < scores["coverage90"] <= 1


def test_labelled_curves_depend_on_the_seed_and_scored_ones_do_not() -> None:
    source = curves_source("class", train=8, validation=30, test=40)
    assert source.y is not None
    sources = [labelled_source(source, 12, seed) for seed in (0, 0, 1)]
    assert np.array_equal(sources[0].x, sources[1].x)
    assert not np.array_equal(sources[0].x[:12], sources[2].x[:12])
    for part, few in (("test", sources[2]), ("validation", labelled_source(source, 12, 1, validate=True))):
        assert few.y is not None
        assert few.fresh is None
        assert len(few.parts["train"]) == 12
        assert np.array_equal(few.x[few.parts["test"]], source.x[source.parts[part]])
        assert np.array_equal(few.y[few.parts["test"]], source.y[source.parts[part]])
