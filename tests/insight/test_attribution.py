"""What an answer rests on: maps that add up, units that are taken away, and a test that tells truth from chance."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

from tests.insight.predictors import KINDS, VITS, predictor, sample
from vitreous.core.errors import InputError
from vitreous.data.scale import Scaling
from vitreous.data.source import Axis, Target
from vitreous.insight.attribution import (
    METHODS,
    ExplainedSample,
    attention_gradient,
    compute_maps,
    integrated_gradients,
    missing_methods,
)
from vitreous.insight.explanation import (
    RANDOM_ORDER,
    Faithfulness,
    average_tests,
    deletion_curves,
    deletion_test,
    faithfulness_figure,
    verdict,
)
from vitreous.nn import CNNConfig, ViTConfig, build
from vitreous.nn.execution import Network
from vitreous.run.predictor import Predictor
from vitreous.run.task import Classification, Regression


@pytest.mark.parametrize("kind", ["spectrum", "overlapping", "colours", "cnn spectrum", "cnn picture"])
def test_integrated_gradients_add_up_to_the_difference_from_the_baseline(kind: str) -> None:
    question = ExplainedSample(predictor(kind), sample(kind))
    with torch.no_grad():
        difference = question.value(question.model(question.x)) - question.value(question.model(question.baseline))
    found = integrated_gradients(question, steps=256)
    assert found.shape == KINDS[kind][0].grid
    np.testing.assert_allclose(found.sum(), difference.item(), rtol=0.02, atol=2e-3)


def test_a_model_that_sums_is_explained_by_what_it_sums() -> None:
    found = linear()
    x = np.random.default_rng(0).normal(size=(1, 40)).astype(np.float32)
    values = integrated_gradients(ExplainedSample(found, x))
    x = x[0] - np.sort(x[0])[19]  # the median that is a sample
    expected = np.where((np.arange(40) >= 10) & (np.arange(40) < 20), x, 0)
    np.testing.assert_allclose(values, expected, atol=1e-5)


class Window(Network):
    """Sums ten of forty samples."""

    config = CNNConfig(input=(1, 40), out=1)

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * x[:, :, 10:20].sum(-1)


def linear() -> Predictor:
    return Predictor(Window(), Regression((Target("sum"),), (0.0,), (1.0,)), Scaling(), (Axis(),), ("x",))


def test_the_test_finds_the_map_that_tells_the_truth() -> None:
    rng = np.random.default_rng(0)
    question = ExplainedSample(linear(), (rng.normal(size=40) + np.linspace(0, 3, 40)).astype(np.float32))
    truth = integrated_gradients(question)
    maps = {"truth": truth, "lie": np.where(truth == 0, 1.0, 0.0), "noise": rng.normal(size=40)}
    trials = {trial.name: trial for trial in deletion_test(question, maps)}
    assert trials["truth"].score > max(trials[name].score for name in ("lie", "noise", RANDOM_ORDER))
    assert trials["truth"].significant
    assert not trials["lie"].significant
    assert trials[RANDOM_ORDER].score == pytest.approx(0)
    assert verdict(list(trials.values())).startswith("truth tells most of the truth")
    liars = [trial for trial in trials.values() if trial.name != "truth"]
    assert verdict(liars).startswith("no map is better than chance")


@pytest.mark.parametrize("maps", [1, 4])
def test_maps_of_noise_are_rarely_said_to_tell_the_truth(maps: int) -> None:
    rng, told = np.random.default_rng(0), 0
    for seed in range(150):
        question = ExplainedSample(linear(), rng.normal(size=40))
        noise = {str(i): rng.normal(size=40) for i in range(maps)}
        told += "tells most of the truth" in verdict(deletion_test(question, noise, seed))
    assert told / 150 < 0.1  # once in 20 times; 17 % of the time, one of four maps is better than 19 random orders


@pytest.mark.parametrize("samples", [1, 2, 8, 32])
@pytest.mark.parametrize("maps", [1, 4])
def test_over_several_samples_too(maps: int, samples: int) -> None:
    beaten = np.random.default_rng(0).uniform(size=(3000, maps, samples)).mean(-1).max(-1)
    better = [Faithfulness("", *np.zeros((3, 2)), share, samples, maps).significant for share in beaten.tolist()]
    assert np.mean(better) < 0.06


@pytest.mark.parametrize("kind", KINDS)
def test_the_reverse_of_an_order_is_known_without_trying_it(kind: str) -> None:
    question = ExplainedSample(predictor(kind), sample(kind))
    order = np.random.default_rng(0).permutation(np.flatnonzero(question.present))
    there, back = (deletion_curves(question, each) for each in (order, order[::-1]))
    np.testing.assert_allclose(there.reversed.deletion, back.deletion, rtol=1e-5)
    np.testing.assert_allclose(there.reversed.insertion, back.insertion, rtol=1e-5)


def test_the_best_map_is_one_that_beats_chance() -> None:
    shares = np.linspace(0, 1, 10)
    loud = Faithfulness("loud", shares, 1 - shares, np.full(10, 0.9), beaten=0.6, samples=8, maps=2)
    sure = Faithfulness("sure", shares, 1 - shares, np.full(10, 0.8), beaten=0.9, samples=8, maps=2)
    assert loud.score > sure.score
    assert verdict([loud, sure]).startswith("sure tells most of the truth")


@pytest.mark.parametrize("kind", ["spectrum", "overlapping", "picture", "volume", "cnn picture"])
def test_a_share_of_the_units_is_that_share_of_the_input(kind: str) -> None:
    question = ExplainedSample(predictor(kind), sample(kind))
    units, seen = len(question.present), list[torch.Tensor]()
    question.model.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    question.outputs(np.arange(units)[None] >= np.arange(units + 1)[:, None])
    gone = [(each == question.baseline[0]).float().mean().item() for each in torch.cat(seen)]
    np.testing.assert_allclose(gone, np.linspace(0, 1, units + 1), atol=0.06)


def test_an_answer_that_does_not_depend_on_the_input_has_nothing_to_explain() -> None:
    found = linear()
    torch.nn.init.zeros_(found.model.scale)
    question = ExplainedSample(found, np.arange(40.0))
    assert verdict(deletion_test(question, {"any": np.ones(40)})).startswith("there is nothing to explain")


@pytest.mark.parametrize("kind", KINDS)
def test_deletion_begins_and_insertion_ends_with_the_answer(kind: str) -> None:
    question = ExplainedSample(predictor(kind), sample(kind))
    for trial in deletion_test(question, compute_maps(question)):
        whole = question.agreement(question.out).item()
        np.testing.assert_allclose([trial.deletion[0], trial.insertion[-1]], whole, rtol=1e-4)
        np.testing.assert_allclose(trial.deletion[-1], trial.insertion[0], rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_gets_the_maps_that_it_allows(kind: str) -> None:
    question = ExplainedSample(predictor(kind), sample(kind))
    maps = compute_maps(question)
    assert list(maps) == (list(METHODS) if kind in VITS else ["integrated gradients"])
    for values in maps.values():
        assert np.isfinite(values).all()
        tokens = (question.model.tokenizer.most,) if kind in VITS else ()
        assert values.shape in (tokens, question.model.config.grid)
        assert set(question.rank(values)) == set(np.flatnonzero(question.present))


def test_without_captum_there_are_the_other_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    maps = compute_maps(ExplainedSample(predictor("picture"), sample("picture")))
    assert list(maps) == [name for name in METHODS if name != "integrated gradients"]
    assert missing_methods().startswith("integrated gradients are left out: this needs captum")


def test_what_is_not_there_gets_nothing() -> None:
    question = ExplainedSample(predictor("peaks"), sample("peaks"))
    assert 3 <= question.present.sum() <= 8
    for name, values in compute_maps(question).items():
        assert np.abs(values[~question.present]).max() < 1e-6, name


def test_a_masked_token_changes_nothing_whatever_it_holds() -> None:
    found, x = predictor("set"), sample("set")
    kept = np.array([[True, True, False, True, True, True]])
    changed = x.copy()
    changed[:, 2] = 100
    one, other = (ExplainedSample(found, each, "cat").outputs(kept) for each in (x, changed))
    torch.testing.assert_close(one, other)
    assert not found.model.tokenizer._forward_hooks


def test_a_unit_taken_away_is_the_median_of_its_channel() -> None:
    found, x = predictor("colours"), sample("colours")
    kept = np.array([[False, True, True, True]])
    by_hand = x.copy()
    by_hand[:, :4, :4] = torch.from_numpy(x).flatten(1).median(-1).values[:, None, None]
    torch.testing.assert_close(ExplainedSample(found, x, "dog").outputs(kept), found.outputs(by_hand[None]))


@torch.no_grad()
def test_attention_times_gradient_of_one_layer_by_hand() -> None:
    model = build(ViTConfig(input=(1, 20), patch=(5,), dim=8, depth=1, heads=2, out=2))
    for parameter in model.parameters():
        parameter.add_(0.2 * torch.randn_like(parameter))
    found = Predictor(model, Classification(("a", "b")), Scaling(), (Axis(),), ("x",))
    question = ExplainedSample(found, torch.randn(1, 20).numpy(), "b")
    block, z = model.blocks[0], model._embed(model.tokenizer(question.x))
    seen = dict[str, torch.Tensor]()
    block.attention(block.attention_norm(z), sink=seen)
    value = block.attention._split(block.attention_norm(z), None)[2]

    def logit(weights: torch.Tensor) -> torch.Tensor:
        mixed = z + block.attention.project((weights @ value).transpose(1, 2).flatten(2))
        mixed = mixed + block.mlp(block.mlp_norm(mixed))
        return model.head(model.norm(mixed)[:, 0])[0, 1]

    expected = np.zeros(4)
    for token, head in np.ndindex(4, 2):  # what a small change of a class token's weight does to the logit
        step = torch.zeros_like(seen["weights"])
        step[0, head, 0, token + 1] = 1e-2
        slope = (logit(seen["weights"] + step) - logit(seen["weights"] - step)) / 2e-2
        expected[token] += (slope * seen["weights"][0, head, 0, token + 1]).clamp(min=0).item() / 2
    assert expected.max() > 1e-2
    np.testing.assert_allclose(attention_gradient(question), expected, atol=2e-4)


def test_several_samples_make_one_verdict() -> None:
    found = predictor("picture")
    questions = [ExplainedSample(found, sample("picture", seed)) for seed in range(3)]
    trials = average_tests([deletion_test(each, compute_maps(each), seed) for seed, each in enumerate(questions)])
    assert [trial.name for trial in trials] == [*METHODS, RANDOM_ORDER]
    assert all(trial.samples == 3 for trial in trials)
    faithfulness_figure(trials).draw_without_rendering()


def test_mistakes_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"target: found 'cow', expected one of cat, dog, eel$"):
        ExplainedSample(predictor("picture"), sample("picture"), "cow")
    with pytest.raises(InputError, match=r"found samples of shape \(1, 12, 9\), expected \(1, 12, 8\)"):
        ExplainedSample(predictor("picture"), np.zeros((1, 12, 9)))
    with pytest.raises(InputError, match="attention: a CNN has none"):
        attention_gradient(ExplainedSample(predictor("cnn picture"), sample("cnn picture")))
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(InputError, match=r"needs captum, which is not installed: pip install 'vitreous\[insight\]'"):
        integrated_gradients(ExplainedSample(predictor("picture"), sample("picture")))
