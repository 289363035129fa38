"""Maps and measures of models that merge and drop tokens are still told for the tokens of the input."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import vitreous as vt
from tests.insight.predictors import KINDS, VITS, predictor, sample
from vitreous.insight.attention import attention_maps, head_measures, rollout_map
from vitreous.insight.attribution import ExplainedSample, compute_maps
from vitreous.insight.explanation import explain, explain_heads
from vitreous.insight.regions import model_input, patch_boxes
from vitreous.nn import ViT
from vitreous.nn.reduction.thresholds import Thresholds
from vitreous.run.predictor import Predictor


@contextmanager
def shortened(kind: str, how: str) -> Iterator[Predictor]:
    """A predictor that merges one token in each block, or one that merges and drops by thresholds."""
    trained = predictor(kind)
    assert isinstance(trained.model, ViT)
    if how == "thresholds":
        trained.model.thresholds = Thresholds(trained.model.config.depth).eval()
        for threshold, value in ((trained.model.thresholds.merge, 0.8), (trained.model.thresholds.prune, 0.9)):
            torch.nn.init.constant_(threshold.value, value)
            torch.nn.init.ones_(threshold.unit)
        yield trained
    else:
        with vt.merged(trained.model, 1):
            yield trained


@pytest.mark.parametrize("how", ["merging", "thresholds"])
@pytest.mark.parametrize("kind", VITS)
def test_every_map_is_one_of_the_input(kind: str, how: str) -> None:
    with shortened(kind, how) as trained:
        question = ExplainedSample(trained, sample(kind))
        maps = compute_maps(question)
        assert isinstance(trained.model, ViT)
        x = model_input(trained, sample(kind)[None])
        with torch.no_grad(), vt.record(trained.model) as seen:
            trained.model(x)
    grid, units = KINDS[kind][0].grid, patch_boxes(KINDS[kind][0])
    for name, values in maps.items():
        shapes = (grid, (trained.model.tokenizer.most,)) if units else ((trained.model.tokenizer.most,),)
        assert values.shape in shapes, name
        assert np.isfinite(values).all()
    assert seen["blocks.1.out"].shape[1] < seen["normed"].shape[1]


@pytest.mark.parametrize("how", ["merging", "thresholds"])
def test_members_of_a_token_are_given_the_same_attention(how: str) -> None:
    with shortened("spectrum", how) as trained:
        model = trained.model
        assert isinstance(model, ViT)
        x = model_input(trained, sample("spectrum")[None])
        with torch.no_grad(), vt.record(model) as seen:
            model(x)
        maps = attention_maps(model, x)[0, -1]  # of the last layer: (heads, N)
        rolled = rollout_map(model, x)
    source = seen["blocks.1.source"][0, 1:]
    assert len(source.unique()) < len(source)
    for token in source.unique():
        some = maps[:, source == token]
        np.testing.assert_allclose(some, some[:, :1] * np.ones_like(some), atol=1e-6)
    gone = source == seen["blocks.1.weights"].shape[-1]
    assert gone.any() == (how == "thresholds")
    assert not maps[:, gone].any()
    assert (rolled >= 0).all()
    np.testing.assert_allclose(maps.sum(1), 1 - seen.attention[1][0, :, 0, 0].numpy(), atol=1e-5)


@pytest.mark.parametrize("how", ["merging", "thresholds"])
@pytest.mark.parametrize("kind", ["spectrum", "peaks", "colours"])
def test_measures_and_figures_can_be_drawn(kind: str, how: str) -> None:
    with shortened(kind, how) as trained:
        samples = np.stack([sample(kind, seed) for seed in range(3)])
        for measure in head_measures(trained, samples):
            assert np.isfinite(measure.values).all()
            assert (measure.values >= 0).all()
        explain(trained, samples[0]).figure.canvas.draw()
        explain_heads(trained, samples[0]).figure.canvas.draw()


def test_a_merged_model_is_explained_like_the_plain_one_where_tokens_are_equal() -> None:
    """Merging equal tokens changes no answer, so it must not change what the answer is said to rest on."""
    trained = predictor("spectrum")
    config = vt.ViTConfig(input=(1, 40), patch=(5,), position="none", out=2, dim=16, depth=2, heads=2)
    torch.manual_seed(0)
    model = vt.ViT(config).eval()
    for parameter in model.parameters():
        parameter.data.add_(0.15 * torch.randn_like(parameter))
    trained = Predictor(model, trained.task, trained.scaling, trained.axes, ("counts",), "equal")
    x = np.random.default_rng(0).normal(size=(1, 4, 5)).repeat(2, axis=1).reshape(1, 40).astype(np.float32)
    plain = compute_maps(ExplainedSample(trained, x))
    with vt.merged(model, 2):
        merged = compute_maps(ExplainedSample(trained, x))
    for name, values in plain.items():
        np.testing.assert_allclose(merged[name], values, atol=1e-4 * np.abs(values).max(), err_msg=name)
