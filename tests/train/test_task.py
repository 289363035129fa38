"""Tasks: losses and metrics equal their formulas and scikit-learn's, values come back in units, intervals cover."""

import json
from dataclasses import replace

import numpy as np
import pytest
import sklearn.metrics
import torch

from vitreous.core.errors import InputError
from vitreous.data import Axis, Source, Target
from vitreous.data.scale import Scaling
from vitreous.nn import ViT, ViTConfig
from vitreous.run.predictor import Predictor
from vitreous.run.task import LOSSES, Classification, Regression, task_for, task_from_dict

TARGETS = (Target("a", "Å"), Target("angle", "°"))


def regression(loss: str = "mse") -> Regression:
    return Regression(TARGETS, mean=(5.0, 90.0), scale=(2.0, 10.0), loss_name=loss)


def test_targets_come_back_in_their_own_units() -> None:
    task, y = regression(), np.array([[4.0, 88.5], [9.25, 120.0]])
    torch.testing.assert_close(task.decode(task.encode(y)).double(), torch.as_tensor(y), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", LOSSES)
def test_loss_equals_its_formula(name: str) -> None:
    task = regression(name)
    out, y = torch.randn(6, task.outputs), torch.randn(6, 2)
    error = out[:, :2] - y
    physical, truth = task.physical(out), task.decode(y)
    formulas = {
        "l1": error.abs().mean(),
        "mse": error.pow(2).mean(),
        "huber": torch.where(error.abs() < 1, 0.5 * error**2, error.abs() - 0.5).mean(),
        "mape": ((physical - truth) / truth).abs().mean(),
        "gaussian": (0.5 * (out[:, -2:] + error**2 / out[:, -2:].exp())).mean(),
    }
    torch.testing.assert_close(task.loss(out, y), formulas[name])


def test_metrics_equal_scikit_learns() -> None:
    task, out, y = regression(), torch.randn(50, 2), torch.randn(50, 2)
    value, truth = task.physical(out).numpy(), task.decode(y).numpy()
    found = task.metrics(out, y)
    for i, target in enumerate(TARGETS):
        pair = truth[:, i], value[:, i]
        assert found[f"mae/{target.name}"] == pytest.approx(sklearn.metrics.mean_absolute_error(*pair), rel=1e-5)
        assert found[f"rmse/{target.name}"] == pytest.approx(sklearn.metrics.root_mean_squared_error(*pair), rel=1e-5)
        assert found[f"r2/{target.name}"] == pytest.approx(sklearn.metrics.r2_score(*pair), rel=1e-4)
        mape = sklearn.metrics.mean_absolute_percentage_error(*pair)
        assert found[f"mape/{target.name}"] == pytest.approx(mape, rel=1e-5)
    assert found["mae"] == pytest.approx((found["mae/a"] + found["mae/angle"]) / 2)


def test_a_single_sample_has_every_score_but_r2() -> None:
    task = regression()
    one, two = (task.metrics(torch.randn(n, 2), torch.randn(n, 2)) for n in (1, 2))
    assert set(two) - set(one) == {"r2", "r2/a", "r2/angle"}


def test_a_target_that_may_be_zero_has_no_relative_error() -> None:
    """Which would say nothing: the logarithm of a nucleus' mass is 0 for protons."""
    task, out = replace(regression(), mean=(1.7, 90.0), scale=(1.3, 10.0)), torch.randn(3, 2)
    found = task.metrics(out, task.encode(np.array([[0.0, 90.0], [2.6, 88.0], [4.0, 91.0]])))
    assert "mape/a" not in found
    assert found["mape"] == found["mape/angle"] < 1
    assert "mape" not in task.metrics(out, task.encode(np.array([[-1.0, 90.0], [2.6, -88.0], [4.0, 91.0]])))


def test_a_calibrated_task_tells_how_many_truths_its_intervals_hold() -> None:
    task, out, y = regression(), torch.randn(2000, 2), torch.randn(2000, 2)
    assert "coverage90" not in task.metrics(out, y)
    found = task.calibrated(out[1000:], y[1000:]).metrics(out[:1000], y[:1000])
    assert found["coverage90"] == pytest.approx(0.9, abs=0.03)


def test_classification_metrics_equal_scikit_learns() -> None:
    task = Classification(tuple("abcdefg"))
    out, truth = torch.randn(200, 7), torch.randint(7, (200,))
    found = task.metrics(out, task.encode(truth.numpy()))
    assert found["accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(truth, out.argmax(1)))
    assert found["f1"] == pytest.approx(sklearn.metrics.f1_score(truth, out.argmax(1), average="macro"))
    assert found["top5"] == pytest.approx(sklearn.metrics.top_k_accuracy_score(truth, out.softmax(-1), k=5))


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("loss", ["mse", "gaussian"])
def test_intervals_cover_what_they_promise(coverage: float, loss: str) -> None:
    task = regression(loss)
    truth = torch.randn(20_000, 2)
    noise = torch.rand(20_000, 2) + 0.2  # each sample its own
    out = truth + noise * torch.randn(20_000, 2) * 0.5
    if loss == "gaussian":
        out = torch.cat([out, 2 * noise.log()], dim=1)
    calibrated = task.calibrated(out[:5000], truth[:5000])
    inside = (task.physical(out) - task.decode(truth)).abs() <= calibrated.half_width(out, coverage)
    assert inside[5000:].float().mean().item() == pytest.approx(coverage, abs=0.02)


@pytest.mark.parametrize("count", [19, 99, 179])
def test_an_interval_is_the_smallest_that_promises_its_coverage(count: int) -> None:
    errors = torch.arange(1.0, count + 1)[:, None].repeat(1, 2)  # the k-th smallest is k
    task = Regression((Target("a"), Target("b")), (0.0, 0.0), (1.0, 1.0)).calibrated(errors, torch.zeros(count, 2))
    for twentieths in range(1, 20):
        half = task.half_width(errors, 0.05 * twentieths)
        assert half[0, 0].item() == -(-(count + 1) * twentieths // 20)


def test_a_task_knows_on_how_many_samples_it_was_calibrated() -> None:
    task = regression().calibrated(torch.randn(7000, 2), torch.randn(7000, 2))
    assert len(task.scores[0]) == 5000
    again = task_from_dict(json.loads(json.dumps(task.to_dict())))
    assert isinstance(again, Regression)
    assert again.calibrated_on == 7000


def test_predicted_uncertainty_makes_intervals_follow_the_noise() -> None:
    task, noise = regression("gaussian"), torch.tensor([[0.1, 0.1], [1.0, 1.0]]).repeat(500, 1)
    truth = torch.zeros(1000, 2)
    out = torch.cat([noise * torch.randn(1000, 2), 2 * noise.log()], dim=1)
    half = task.calibrated(out, truth).half_width(out, 0.9)
    torch.testing.assert_close(half[1] / half[0], torch.tensor([10.0, 10.0]))


@pytest.mark.parametrize(
    "task", [Classification(("x", "y"), 0.1), regression().calibrated(torch.randn(9, 2), torch.randn(9, 2))]
)
def test_a_task_survives_json(task: Classification | Regression) -> None:
    assert task_from_dict(json.loads(json.dumps(task.to_dict()))) == task


@pytest.mark.parametrize(
    ("coverage", "calibrated", "message"),
    [
        (1.2, True, "coverage: found 1.2, expected a probability"),
        (0.999, True, "9 validation samples bound 0.9 at most, not 0.999"),
        (0.9, False, "intervals need a run that was calibrated"),
    ],
)
def test_an_interval_that_cannot_be_had_is_told_in_one_line(coverage: float, calibrated: bool, message: str) -> None:
    task, out = regression(), torch.randn(9, 2)
    task = task.calibrated(out, torch.randn(9, 2)) if calibrated else task
    with pytest.raises(InputError, match=message):
        task.half_width(out, coverage)


def test_labels_decide_the_task() -> None:
    x, rows = np.zeros((4, 1, 8), np.float32), np.arange(3)
    classes = Source("c", x, np.array([0, 1, 0, 1]), (Axis(),), ("i",), classes=("u", "v"))
    quantities = Source("q", x, np.array([[1.0], [2.0], [3.0], [99.0]]), (Axis(),), ("i",), targets=(Target("t"),))
    assert task_for(classes, rows) == Classification(("u", "v"))
    task = task_for(quantities, rows, "huber")
    assert isinstance(task, Regression)
    assert (task.mean, task.loss_name) == ((2.0,), "huber")  # the row that does not train is left out
    with pytest.raises(InputError, match="'huber' is for regression"):
        task_for(classes, rows, "huber")
    with pytest.raises(InputError, match="has no labels to train on"):
        task_for(Source("n", x, None, (Axis(),), ("i",)), rows)
    with pytest.raises(InputError, match="loss: unknown choice 'hinge'; expected one of: l1, mse"):
        task_for(quantities, rows, "hinge")


def test_a_constant_target_is_nothing_to_learn() -> None:
    """0.1 is not a sum of halves: the mean of many is not quite 0.1, and must not be taken for a spread."""
    y = np.column_stack([np.arange(999.0), np.full(999, 0.1)])
    source = Source(
        "two",
        np.zeros((999, 1, 4)),
        y,
        (Axis(),),
        ("i",),
        (),
        (Target("x"), Target("same", log=True)),
        allow_constant=True,
    )
    task = task_for(source, np.arange(999))
    encoded = task.encode(y)
    assert (encoded[:, 1] == 0).all()
    assert encoded.abs().max() < 2
    np.testing.assert_allclose(task.decode(encoded).numpy(), y, rtol=1e-5, atol=1e-4)


def test_the_interval_of_a_positive_quantity_is_positive() -> None:
    task = Regression((Target("length", "Å", log=True),), (0.0,), (1.5,), scores=(tuple(np.linspace(0.1, 3, 50)),))
    model = ViT(ViTConfig(input=(1, 8), patch=(4,), out=1, dim=8, depth=1, heads=1))
    answer = Predictor(model, task, Scaling(), (Axis(),), ("i",))(
        np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32), 0.9
    )
    assert answer.lower is not None
    assert answer.values is not None
    assert (answer.lower >= 0).all()
    assert (answer.lower < answer.values).all()
