"""Learned thresholds: training sees what inference does, the budget moves them, and every sample stands for itself."""

import pytest
import torch

import vitreous as vt
from tests.nn.test_vit import IMAGE, LINE, SET, VOLUME, batch, make
from vitreous.core.errors import InputError
from vitreous.nn import CNN, POOLS, Attention, CNNConfig
from vitreous.nn.reduction.groups import Groups
from vitreous.nn.reduction.reducer import Reduction, count_tokens, flops_share
from vitreous.nn.reduction.thresholds import Received, Thresholds

CHOICES = [
    LINE,
    VOLUME,
    SET,
    *({**IMAGE, "pool": pool, "cls": pool == "cls"} for pool in POOLS),
    {**SET, "pool": "mean", "cls": False},
    {**LINE, "bias": "relative", "registers": 2, "norm": "post", "score": "additive"},
]


def cutting(merge: float = 0.8, prune: float = 0.5, **choices: object) -> vt.ViT:
    """A model whose thresholds, an angle in radians and an importance, merge and drop some of its tokens."""
    model = make(**choices, thresholds=True, depth=3)
    assert model.thresholds is not None
    for threshold, value in ((model.thresholds.merge, merge), (model.thresholds.prune, prune)):
        torch.nn.init.constant_(threshold.value, value)
        torch.nn.init.ones_(threshold.unit)
    return model


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_training_computes_what_inference_does(choices: dict[str, object]) -> None:
    """Masked in training, really gone in inference: the answers are the same, and so is the recorded attention."""
    model = cutting(**choices)
    inputs = batch(model)
    with count_tokens(model) as tokens, vt.record(model) as seen:
        out = model(**inputs)
    with count_tokens(model) as soft, vt.record(model) as masked:
        trained = model.train()(**inputs)
    torch.testing.assert_close(trained, out, atol=1e-5, rtol=1e-5)
    for left, wanted in zip(soft[0], tokens[0], strict=True):
        torch.testing.assert_close(left, wanted)
    assert tokens[0][-1].sum() < tokens[0][0].sum()
    for layer, weights in seen.attention.items():
        torch.testing.assert_close(masked.attention[layer], weights, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert torch.equal(seen["mask"], masked["mask"])


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_tokens_really_go_and_recording_does_not_bring_them_back(choices: dict[str, object]) -> None:
    model = cutting(**choices)
    inputs = batch(model)
    with count_tokens(model) as tokens:
        out = model(**inputs)
    with vt.record(model) as seen:
        torch.testing.assert_close(model(**inputs), out, atol=1e-5, rtol=1e-5)
    for layer in range(3):  # as many places as the fullest sample needs
        assert seen[f"blocks.{layer}.out"].shape[1] == tokens[0][layer + 1].max()


def test_at_first_nothing_is_merged_or_dropped() -> None:
    for choices in (LINE, {**IMAGE, "pool": "mean"}, SET):
        plain, model = make(**choices), make(**choices, thresholds=True)
        model.load_state_dict(plain.state_dict(), strict=False)
        model.thresholds = Thresholds(2)
        inputs = batch(plain)
        torch.testing.assert_close(model.eval()(**inputs), plain(**inputs), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("choices", [LINE, SET, {**SET, "pool": "mean"}, {**IMAGE, "bias": "relative"}], ids=str)
def test_a_sample_does_not_depend_on_its_batch(choices: dict[str, object]) -> None:
    model = cutting(**choices)
    inputs = batch(model, 6)
    together = model(**inputs)
    with count_tokens(model) as tokens:
        alone = torch.cat([model(**{name: value[i : i + 1] for name, value in inputs.items()}) for i in range(6)])
    assert len({count[-1].item() for count in tokens}) > 1  # samples that keep different numbers
    torch.testing.assert_close(alone, together, atol=1e-5, rtol=1e-5)


def test_absent_elements_leave_no_trace() -> None:
    model = cutting(**SET)
    x, coords, mask = torch.randn(2, 4, 9), torch.randn(2, 9, 2), torch.arange(9).expand(2, 9) < 5
    short = model(x[..., :5], coords=coords[:, :5])
    x[..., 5:], coords[:, 5:] = float("nan"), float("nan")
    torch.testing.assert_close(model(x, mask, coords), short, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.train()(x, mask, coords), short, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pool", ["cls", "mean", "attention"])
def test_an_empty_set_gives_finite_numbers(pool: str) -> None:
    model = cutting(**SET, pool=pool, cls=pool == "cls")
    inputs = {"x": torch.randn(2, 4, 9), "coords": torch.randn(2, 9, 2), "mask": torch.zeros(2, 9).bool()}
    assert model(**inputs).isfinite().all()
    assert model(torch.randn(2, 4, 0), coords=torch.randn(2, 0, 2)).isfinite().all()
    model.train()(**inputs).sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_units_are_those_of_the_first_batch() -> None:
    """0 is below every score of it, 1 leaves half of the tokens; a second batch changes nothing, nor does inference."""
    model = make(**IMAGE, thresholds=True)
    assert model.thresholds is not None
    state = {name: value.clone() for name, value in model.thresholds.state_dict().items() if "value" not in name}
    torch.nn.init.zeros_(model.thresholds.merge.value)
    torch.nn.init.zeros_(model.thresholds.prune.value)
    x = torch.randn(8, 3, 13, 10)
    with count_tokens(model) as tokens:
        model(x)
        assert all(torch.equal(model.thresholds.state_dict()[name], value) for name, value in state.items())
        model.train()(x)
    assert all((left == 17).all() for left in tokens[0])
    assert all((left >= 16).all() for left in tokens[1])  # the least of a batch may go, and no other
    units = [model.thresholds.prune.unit.clone(), model.thresholds.merge.unit.clone()]
    assert all((unit > 0).all() for unit in units)
    model(torch.randn(8, 3, 13, 10))
    assert torch.equal(model.thresholds.prune.unit, units[0])
    torch.nn.init.ones_(model.thresholds.prune.value)
    with count_tokens(model) as tokens:
        model.eval()(x)
    stay = tokens[0][1].mean() - model.config.prefix
    assert abs(stay / model.tokenizer.most - 0.5) < 0.1


def test_the_most_important_token_always_stays() -> None:
    model = cutting(merge=4.0, prune=1e6, **LINE)
    with count_tokens(model) as tokens, vt.record(model) as seen:
        assert model(batch(model)["x"]).isfinite().all()
    assert (tokens[0][-1] == 2).all()  # with the class token
    assert seen["blocks.2.out"].shape[1] == 2


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_gradients_reach_the_thresholds(choices: dict[str, object]) -> None:
    """Both from the task and from the budget, in every layer that they can reach."""
    model = cutting(**choices).train()
    assert model.thresholds is not None
    inputs = batch(model)
    for loss in ("task", "budget"):
        model.zero_grad()
        with count_tokens(model) as tokens:
            out = model(**inputs)
        (out.square().sum() if loss == "task" else flops_share(model.config, tokens[0]).sum()).backward()
        for threshold in (model.thresholds.merge.value, model.thresholds.prune.value):
            assert threshold.grad is not None
            assert threshold.grad.isfinite().all()
            assert (threshold.grad[:2] != 0).all()


def test_the_budget_moves_the_operations_the_right_way() -> None:
    """Gradient steps on (budget - share)² alone bring the share to the budget, from above and from below."""
    for budget, start in ((0.5, {"merge": 0.0, "prune": 0.0}), (0.8, {"merge": 1.2, "prune": 1.0})):
        torch.manual_seed(0)
        model = cutting(**start, **{**LINE, "input": (2, 96), "patch": (3,)}).train()
        assert model.thresholds is not None
        x, distance = torch.randn(16, 2, 96), []
        optimiser = torch.optim.Adam(model.thresholds.parameters(), lr=0.05)
        for _ in range(60):
            with count_tokens(model) as tokens:
                model(x)
            spent = flops_share(model.config, tokens[0]).mean()
            distance.append(abs(spent.item() - budget))
            (budget - spent).square().backward()
            optimiser.step()
            optimiser.zero_grad()
        assert distance[0] > 0.15
        assert distance[-1] < 0.05


def test_importance_is_what_a_token_receives_in_even_shares() -> None:
    even = torch.full((2, 3, 5, 5), 0.2)
    torch.testing.assert_close(Received(None)(even), torch.ones(2, 5))
    size = torch.tensor([[1.0, 2.0, 1.0, 1.0, 0.0]])  # five tokens of the input, the last place empty
    weights = torch.tensor([0.2, 0.4, 0.2, 0.2, 0.0]).expand(1, 3, 5, 5)
    torch.testing.assert_close(Received(size)(weights), size)


def test_importance_is_found_a_few_samples_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the weights of a whole batch never lie in memory together."""
    model = cutting(**LINE)
    x = batch(model, 7)["x"]
    out = model(x)
    monkeypatch.setattr(Reduction, "recorded_weights", 0)
    monkeypatch.setattr(Attention, "weights_at_once", 300)
    torch.testing.assert_close(model(x), out)


def test_counting_tokens_and_places_agree() -> None:
    groups = Groups(torch.randn(2, 7, 3), torch.tensor([[1, 1, 0, 1, 0, 1], [1, 1, 1, 1, 1, 1]]).bool(), 1)
    x = groups.compact(torch.randn(2, 7, 3), 7)
    groups.merge(x, torch.tensor([[2], [4]]), torch.tensor([[1], [1]]))
    groups.drop(torch.tensor([[1.0, 1, 1, 0, 1, 1], [1, 1, 1, 1, 0, 1]]))
    assert groups.size is not None
    assert groups.left.tolist() == (groups.size > 0).sum(1).tolist() == [3, 5]


def test_thresholds_are_saved_with_the_model(tmp_path: pytest.TempPathFactory) -> None:
    model = cutting(**LINE)
    vt.save_model(model, str(tmp_path))
    x = batch(model)["x"]
    torch.testing.assert_close(vt.load_model(str(tmp_path)).eval()(x), model(x))


def test_what_cannot_have_thresholds_is_told_in_one_line() -> None:
    with pytest.raises(InputError, match="thresholds: the score 'location' needs every token at its place"):
        make(**LINE, score="location", thresholds=True)
    with pytest.raises(InputError, match="a CNN has no tokens to count"), count_tokens(CNN(CNNConfig(input=(1, 20)))):
        pass
