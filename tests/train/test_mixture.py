"""Hypotheses: the loss is a mixture's likelihood, two answers are learned as two; fresh samples depend on the step."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Independent, Laplace, MixtureSameFamily

from vitreous.core.errors import InputError
from vitreous.data import Axis, Source, Target
from vitreous.data.scale import Scaling, fit_scaling
from vitreous.run.task import Mixture, Regression, task_for, task_from_dict
from vitreous.train.batches import SimulatedBatches

TARGETS = (Target("a", "Å", log=True), Target("angle", "°"))
CPU = torch.device("cpu")


def mixture(hypotheses: int = 3) -> Mixture:
    """A length by its logarithm, about 7.4 Å, and an angle."""
    return Mixture(TARGETS, mean=(2.0, 90.0), scale=(0.5, 10.0), hypotheses=hypotheses)


def raw(middles: Tensor, widths: Tensor, weights: Tensor) -> Tensor:
    """Raw outputs from `(n, H, K)`, `(n, H, K)` and `(n, H)`."""
    return torch.cat([middles.flatten(1), widths.log().flatten(1), weights.log()], dim=1)


def test_loss_equals_the_likelihood_of_torchs_mixture() -> None:
    task = mixture()
    middles, widths, weights = torch.randn(8, 3, 2), torch.rand(8, 3, 2) + 0.1, torch.rand(8, 3) + 0.1
    y = torch.randn(8, 2)
    peer = MixtureSameFamily(Categorical(weights), Independent(Laplace(middles, widths), 1))
    wanted = -peer.log_prob(y).mean() / 2 - math.log(2)  # Laplace's 1/2 is the same everywhere, and left out
    torch.testing.assert_close(task.loss(raw(middles, widths, weights), y), wanted)


def test_loss_equals_its_formula() -> None:
    task = mixture(2)
    out, y = torch.randn(1, task.outputs), torch.randn(1, 2)
    numbers, (u, v) = out[0].tolist(), y[0].tolist()
    total = sum(math.exp(weight) for weight in numbers[8:])
    likelihood = 0.0
    for h in range(2):
        (m, n), (p, q) = numbers[2 * h : 2 * h + 2], numbers[4 + 2 * h : 6 + 2 * h]
        density = math.exp(-abs(u - m) / math.exp(p) - p - abs(v - n) / math.exp(q) - q)
        likelihood += math.exp(numbers[8 + h]) / total * density
    assert task.loss(out, y).item() == pytest.approx(-math.log(likelihood) / 2, rel=1e-5)


def test_the_loss_is_finite_far_away_and_in_half_precision() -> None:
    task = mixture()
    out = 1e3 * torch.randn(4, task.outputs)
    out.requires_grad_()
    task.loss(out, 1e3 * torch.randn(4, 2)).backward()
    assert out.grad is not None
    assert out.grad.isfinite().all()
    assert task.loss(torch.randn(4, task.outputs).bfloat16(), torch.randn(4, 2)).isfinite()


def test_the_order_of_hypotheses_does_not_matter() -> None:
    task = mixture()
    middles, widths, weights = torch.randn(8, 3, 2), torch.rand(8, 3, 2) + 0.1, torch.rand(8, 3)
    y, order = torch.randn(8, 2), torch.tensor([2, 0, 1])
    out, other = raw(middles, widths, weights), raw(middles[:, order], widths[:, order], weights[:, order])
    torch.testing.assert_close(task.loss(out, y), task.loss(other, y))
    torch.testing.assert_close(task.physical(out), task.physical(other))
    torch.testing.assert_close(task.uncertainty(out), task.uncertainty(other))


def test_the_answer_is_the_likeliest_hypothesis_in_units() -> None:
    task = mixture(2)
    middles = torch.tensor([[[0.0, 0.0], [1.0, -2.0]]])
    widths = torch.tensor([[[0.5, 0.5], [0.1, 0.2]]])
    out = raw(middles, widths, torch.tensor([[0.3, 0.7]]))
    torch.testing.assert_close(task.physical(out), torch.tensor([[math.exp(2.5), 70.0]]))
    # Laplace's deviation is √2 of its width; that of a logarithm is so much of the value
    wanted = torch.tensor([[math.sqrt(2) * 0.1 * 0.5 * math.exp(2.5), math.sqrt(2) * 0.2 * 10]])
    torch.testing.assert_close(task.uncertainty(out), wanted)


def test_uncertainty_is_the_deviation_of_what_the_hypothesis_allows() -> None:
    task = mixture(1)
    middle, width = torch.tensor([[[0.4, -0.3]]]), torch.tensor([[[0.05, 0.4]]])
    out = raw(middle, width, torch.ones(1, 1))
    drawn = task.decode(Laplace(middle[0, 0], width[0, 0]).sample((200_000,)))
    torch.testing.assert_close(drawn.std(0), task.uncertainty(out)[0], rtol=0.03, atol=0)


@pytest.mark.parametrize("task", [mixture(), Regression(TARGETS, (2.0, 90.0), (0.5, 10.0))])
def test_targets_come_back_in_their_own_units(task: Regression) -> None:
    y = np.array([[0.9, 60.0], [7.4, 90.0], [200.0, 119.5]])
    torch.testing.assert_close(task.decode(task.encode(y)).double(), torch.as_tensor(y), rtol=1e-5, atol=0)


def test_a_logarithm_is_what_is_standardised() -> None:
    encoded = mixture().encode(np.array([[math.exp(2.5), 100.0], [math.exp(1.0), 90.0]]))
    torch.testing.assert_close(encoded, torch.tensor([[1.0, 1.0], [-2.0, 0.0]]))


def test_an_answer_by_its_logarithm_is_positive_and_finite_whatever_the_output() -> None:
    task = mixture(1)
    values = task.decode(torch.tensor([[-150.0, 0.0], [0.0, 0.0], [1e4, 0.0]]))[:, 0]
    assert (values > 0).all()
    assert values.isfinite().all()


@pytest.mark.parametrize("coverage", [0.5, 0.9])
@pytest.mark.parametrize("hypotheses", [0, 2])
def test_intervals_of_a_logarithm_cover_what_they_promise(coverage: float, hypotheses: int) -> None:
    count = 12_000
    truth, noise = torch.randn(count, 2), 0.1 + 0.4 * torch.rand(count, 2)  # each sample its own
    guess = truth + noise * Laplace(0.0, 1.0).sample((count, 2))
    task: Regression = Regression(TARGETS, (2.0, 90.0), (0.5, 10.0), "gaussian")
    out = torch.cat([guess, 2 * noise.log()], dim=1)
    if hypotheses:
        task = mixture(2)
        far = torch.stack([guess, guess + 5], dim=1)
        out = raw(far, noise[:, None].expand(-1, 2, -1), torch.tensor([[0.8, 0.2]]).expand(count, -1))
    calibrated = task.calibrated(out[:4000], truth[:4000])
    assert type(calibrated) is type(task)
    half = calibrated.half_width(out, coverage)
    inside = (task.physical(out) - task.decode(truth)).abs() <= half
    assert (half > 0).all()
    for column in inside[4000:].float().mean(0).tolist():
        assert column == pytest.approx(coverage, abs=0.025)


def test_a_mixture_survives_json() -> None:
    task = mixture(5)
    for one in (task, task.calibrated(torch.randn(9, task.outputs), torch.randn(9, 2))):
        again = task_from_dict(json.loads(json.dumps(one.to_dict())))
        assert again == one
        assert isinstance(again, Mixture)


def test_metrics_are_those_of_a_regression_with_the_likeliest_answer() -> None:
    task, plain = mixture(), Regression(TARGETS, (2.0, 90.0), (0.5, 10.0), "l1")
    out, y = torch.randn(40, task.outputs), torch.randn(40, 2)
    found, wanted = task.metrics(out, y), plain.metrics(task.point(out), y)
    assert found["loss"] == pytest.approx(task.loss(out, y).item())
    assert {k: v for k, v in found.items() if k != "loss"} == pytest.approx(
        {k: v for k, v in wanted.items() if k != "loss"}
    )


def test_hypotheses_begin_apart_and_among_the_targets() -> None:
    task = mixture(4)
    rng = np.random.default_rng(0)
    y = np.column_stack([np.exp(rng.normal(2, 0.5, 300)), rng.normal(90, 10, 300)])
    start = task.initial_outputs(y)
    assert start.shape == (task.outputs,)
    middles, widths, weights = task.parts(start[None])
    assert nn.functional.pdist(middles[0]).min() > 1  # deviations
    assert middles.abs().max() <= 1.5
    assert (widths == 0).all()
    torch.testing.assert_close(weights.exp(), torch.full((1, 4), 0.25))


def test_outliers_do_not_make_hypotheses_begin_as_one() -> None:
    task = Mixture((Target("y"),), (0.0,), (1.0,), hypotheses=4)
    y = np.concatenate([np.linspace(-2, 2, 50), [-5.0, -8.0, 6.0, 9.0]])[:, None]
    places = task.parts(task.initial_outputs(y)[None])[0].flatten().sort().values
    assert places.diff().min() > 0.3


def learn(task: Regression, outputs: int, start: Tensor | None) -> nn.Module:
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, outputs))
    if start is not None:
        with torch.no_grad():
            model[2].bias.copy_(start)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(400):
        x = 0.5 + 1.5 * torch.rand(128, 1)
        y = x * (2 * torch.randint(2, (128, 1)) - 1)  # ± x, and nothing tells which
        optimiser.zero_grad()
        task.loss(model(x), y).backward()
        optimiser.step()
    return model


def test_two_hypotheses_learn_two_answers_where_one_settles_between_them() -> None:
    x = torch.linspace(0.6, 1.9, 50)[:, None]
    plain = Regression((Target("y"),), (0.0,), (1.0,), "mse")
    assert plain.physical(learn(plain, 1, None)(x)).abs().max() < 0.4  # the mean of both, which is neither
    task = Mixture((Target("y"),), (0.0,), (1.0,), hypotheses=2)
    both = learn(task, task.outputs, task.initial_outputs(np.linspace(-2, 2, 50)[:, None]))
    out = both(x)
    middles = task.parts(out)[0][..., 0].sort(dim=1).values
    assert (middles[:, 1:] - x).abs().max() < 0.2
    assert (middles[:, :1] + x).abs().max() < 0.2
    assert (task.physical(out).abs() - x).abs().max() < 0.2


def labelled(targets: tuple[Target, ...] = TARGETS) -> Source:
    rng = np.random.default_rng(0)
    y = np.column_stack([np.exp(rng.normal(2, 0.5, 50)), rng.normal(90, 10, 50)])
    return Source("s", np.zeros((50, 1, 8), np.float32), y, (Axis(),), ("i",), targets=targets)


def test_hypotheses_make_the_task_a_mixture_scaled_by_logarithms() -> None:
    source = labelled()
    assert source.y is not None
    task = task_for(source, np.arange(50), hypotheses=4)
    assert isinstance(task, Mixture)
    assert (task.hypotheses, task.outputs) == (4, 4 * 5)
    assert task.mean == pytest.approx([np.log(source.y[:, 0]).mean(), source.y[:, 1].mean()])
    assert task.scale == pytest.approx([np.log(source.y[:, 0]).std(), source.y[:, 1].std()])
    encoded = task.encode(source.y)
    torch.testing.assert_close(encoded.std(0, correction=0), torch.ones(2), atol=1e-4, rtol=0)
    assert not isinstance(task_for(source, np.arange(50)), Mixture)


def test_a_loss_is_refused_beside_hypotheses_which_would_ignore_it() -> None:
    with pytest.raises(InputError, match="loss: found 'l1', but a task with several hypotheses has its own loss"):
        task_for(labelled(), np.arange(50), "l1", hypotheses=4)


def test_a_mixture_of_an_earlier_version_that_names_a_loss_is_read() -> None:
    task = mixture()
    assert task_from_dict(task.to_dict() | {"loss": "l1"}) == task


def test_what_has_no_hypotheses_or_no_logarithm_is_refused() -> None:
    source = labelled()
    classes = Source("c", source.x[:4], np.array([0, 1, 0, 1]), (Axis(),), ("i",), classes=("u", "v"))
    with pytest.raises(InputError, match="is for regression, but c has classes"):
        task_for(classes, np.arange(4), hypotheses=2)
    y = np.array([[1.0, -5.0], [2.0, 3.0]])
    with pytest.raises(InputError, match="'angle' is learned as a logarithm, but has values of 0 or below"):
        Source("s", source.x[:2], y, (Axis(),), ("i",), targets=(TARGETS[0], Target("angle", "°", log=True)))


def test_the_root_is_of_each_sample_over_its_maximum() -> None:
    x = torch.tensor([[[0.0, 1.0, 4.0, 16.0]], [[-1.0, 0.0, 9.0, 36.0]], [[0.0, 0.0, 0.0, 0.0]]])
    wanted = torch.tensor([[[0.0, 0.25, 0.5, 1.0]], [[0.0, 0.0, 0.5, 1.0]], [[0.0, 0.0, 0.0, 0.0]]])
    scaling = fit_scaling("root", x.numpy(), np.arange(3))
    torch.testing.assert_close(scaling(x), wanted)
    torch.testing.assert_close(scaling(1000 * x), wanted)  # the overall height means nothing
    assert Scaling.from_dict(scaling.to_dict()) == scaling


def test_the_root_makes_the_noise_of_counts_the_same_everywhere() -> None:
    counts = torch.poisson(torch.tensor([50.0, 500.0, 5000.0]).expand(4000, 1, 3))
    top = torch.full((4000, 1, 1), 1e4)
    deviation = Scaling("root")(torch.cat([counts, top], dim=2))[:, 0, :3].std(0)
    torch.testing.assert_close(deviation, torch.full((3,), 0.5 / 100), rtol=0.06, atol=0)


def drawing(count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    x = torch.rand(count, 1, 8, device=device)
    return x, torch.stack([x.sum((1, 2)) + 1, 90 + x[:, 0, 0]], dim=1)


def stream(seed: int = 0, rank: int = 0, world: int = 1, batch: int = 12) -> SimulatedBatches:
    return SimulatedBatches(replace(labelled(), fresh=drawing), mixture(), batch, seed, CPU, rank, world)


@pytest.mark.parametrize("ahead", [1, 4])
def test_a_step_does_not_depend_on_the_steps_before(ahead: int) -> None:
    walked, jumped = stream(), stream()
    walked.ahead = jumped.ahead = ahead  # steps simulated at once, as on a GPU
    seen = [walked(step) for step in range(10)]
    for step in (9, 2, 5, 2):
        assert all(torch.equal(a, b) for a, b in zip(jumped(step), seen[step], strict=True))
    assert len({x.sum().item() for x, _ in seen}) == 10  # and each is new


def test_targets_are_encoded_and_stay_with_their_samples() -> None:
    x, y = stream()(3)
    assert x.shape == (12, 1, 8)
    physical = mixture().decode(y)
    torch.testing.assert_close(physical[:, 0], x.sum((1, 2)) + 1, rtol=1e-4, atol=0)
    torch.testing.assert_close(physical[:, 1], 90 + x[:, 0, 0], rtol=1e-4, atol=0)


def test_processes_share_a_batch_of_different_samples() -> None:
    shares = [stream(rank=rank, world=3)(5)[0] for rank in range(3)]
    assert [len(share) for share in shares] == [4, 4, 4]
    samples = torch.cat(shares).flatten(1)
    assert len(samples.unique(dim=0)) == 12


def test_seeds_differ_and_the_loops_random_numbers_stay() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = stream(seed=1)(0)[0]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(4)
    assert torch.equal(stream(seed=1)(0)[0], first)
    assert not torch.equal(stream(seed=2)(0)[0], first)
