"""Light curves are learned from with and without labels, and read in the classical way."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.few_curves import few
from benchmarks.light_curves import features, trees
from tests.recipes import narrow, two_steps
from vitreous.nn.pretraining import PretrainConfig
from vitreous.sim.curves import SYSTEMS, Survey, curve, curves_source, observed
from vitreous.train import load, pretrain, read_start, train
from vitreous.train.pretrain import pretraining


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_encoder_that_learned_to_denoise_is_trained_further(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = narrow(two_steps("light-curves", {"system": system}, monkeypatch))
    pretrain(pretraining(made, PretrainConfig("denoise")), tmp_path / "before", device="cpu", bar=False)
    begun = replace(made, start=read_start(tmp_path / "before"))
    result = train(begun, tmp_path / "after", device="cpu", bar=False)
    assert result["steps"] == 2
    assert ("coverage90" in result["test"]) == (system == "redshift")


def test_a_curve_of_two_points_has_an_answer_and_order_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(narrow(two_steps("light-curves", {}, monkeypatch)), tmp_path, device="cpu", bar=False)
    predictor = load(tmp_path)
    short = predictor(curve([1.0, 3.0], [5.0, 6.0], [0.2, 0.2], ["r", "r"])[None]).probabilities
    assert short is not None
    assert np.isfinite(short).all()
    x = observed(Survey(), 4).x
    answers = [predictor(each.numpy()).probabilities for each in (x, x[:, :, torch.randperm(x.shape[2])])]
    assert np.allclose(*answers, atol=1e-5)


def test_hand_made_features_do_not_depend_on_the_order_of_observations() -> None:
    torch.manual_seed(0)
    x = observed(Survey(), 40).x
    found = features(x.numpy())
    shuffled = features(x[:, :, torch.randperm(x.shape[2])].numpy())
    assert len(found) == 40
    assert np.isfinite(found).any(0).all()
    assert np.allclose(found, shuffled, equal_nan=True)


def test_trees_tell_kinds_and_redshifts_better_than_chance() -> None:
    small = {"train": 8, "validation": 200, "test": 200}
    assert trees(curves_source("class", **small), "class", 600, rounds=20)["accuracy"] > 0.6
    source = curves_source("redshift", **small)
    assert source.y is not None
    found = trees(source, "redshift", 600, rounds=20)
    assert found["rmse"] < 0.7 * source.y.std()
    assert 0.8 < found["coverage90"] <= 1


def test_labelled_curves_are_drawn_by_the_seed_and_scored_on_the_same() -> None:
    source = curves_source("class", train=8, validation=30, test=40)
    assert source.y is not None
    drawn = [few(source, 12, seed) for seed in (0, 0, 1)]
    assert np.array_equal(drawn[0].x, drawn[1].x)
    assert not np.array_equal(drawn[0].x[:12], drawn[2].x[:12])
    for part, made in (("test", drawn[2]), ("validation", few(source, 12, 1, validate=True))):
        assert made.y is not None
        assert made.fresh is None
        assert len(made.parts["train"]) == 12
        assert np.array_equal(made.x[made.parts["test"]], source.x[source.parts[part]])
        assert np.array_equal(made.y[made.parts["test"]], source.y[source.parts[part]])
