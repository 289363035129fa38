"""Stream, scaling, optimisers and settings of the loop."""

import itertools
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from torch import nn

import vitreous as vt
from vitreous.cli.options import Scale
from vitreous.core.errors import InputError
from vitreous.data import Axis, Source
from vitreous.data.scale import SCALINGS, Scaling, fit_scaling
from vitreous.train import Classification, TrainConfig
from vitreous.train import batches as streams
from vitreous.train.batches import StoredBatches
from vitreous.train.optimiser import Muon, create_optimisers, decays, learning_rate_factor

TASK = Classification(("even", "odd"))
CPU = torch.device("cpu")


def numbered(count: int) -> Source:
    """Sample i holds the number i, and its class is whether that is odd."""
    x = np.arange(count, dtype=np.float32)[:, None, None] * np.ones((1, 1, 3), np.float32)
    return Source("numbers", x, np.arange(count) % 2, (Axis(),), ("i",), classes=TASK.classes)


def test_every_row_comes_once_an_epoch() -> None:
    rows = np.arange(5, 42)
    stream = StoredBatches(numbered(50), rows, TASK, batch=8, seed=3, device=CPU)
    seen = torch.cat([stream(step)[0][:, 0, 0] for step in range(37)]).numpy()  # 8 epochs of 37 rows
    for epoch in range(8):
        assert sorted(seen[epoch * 37 : (epoch + 1) * 37]) == rows.tolist()
    assert list(seen[:37]) != list(seen[37:74])


def test_labels_stay_with_their_samples() -> None:
    x, y = StoredBatches(numbered(50), np.arange(50), TASK, batch=16, seed=0, device=CPU)(2)
    assert torch.equal(x[:, 0, 0] % 2, y[:, 1])


def test_a_step_does_not_depend_on_the_steps_before() -> None:
    walked = StoredBatches(numbered(50), np.arange(50), TASK, batch=16, seed=0, device=CPU)
    for step in range(9):
        walked(step)
    jumped = StoredBatches(numbered(50), np.arange(50), TASK, batch=16, seed=0, device=CPU)
    assert torch.equal(walked(9)[0], jumped(9)[0])


def test_processes_share_each_batch() -> None:
    whole = StoredBatches(numbered(50), np.arange(50), TASK, batch=16, seed=0, device=CPU)
    shares = [StoredBatches(numbered(50), np.arange(50), TASK, 16, 0, CPU, rank, 4) for rank in range(4)]
    for step in range(7):
        assert torch.equal(torch.cat([share(step)[0] for share in shares]), whole(step)[0])


def test_data_larger_than_memory_give_the_same_batches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = numbered(50)
    np.save(tmp_path / "x.npy", source.x)
    mapped = Source("m", np.load(tmp_path / "x.npy", mmap_mode="r"), source.y, (Axis(),), ("i",), classes=TASK.classes)
    resident = StoredBatches(source, np.arange(7, 50), TASK, batch=16, seed=0, device=CPU)
    monkeypatch.setattr(streams, "RESIDENT_BYTES", 0)
    read = StoredBatches(mapped, np.arange(7, 50), TASK, batch=16, seed=0, device=CPU)
    assert read.samples is None
    for step in (0, 1, 2, 7, 3):
        assert all(torch.equal(a, b) for a, b in zip(read(step), resident(step), strict=True))


@pytest.mark.parametrize("kind", [kind for kind in SCALINGS if kind != "root"])
def test_scaling_standardises_its_extent(kind: str) -> None:
    x = np.random.default_rng(0).normal(5, 3, (5000, 2, 4)) * np.array([1, 2, 3, 4])
    scaled = fit_scaling(kind, x, np.arange(5000))(torch.from_numpy(x)).double()
    extents = {"channel": (0, 2), "point": (0,), "sample": (1, 2), "slope": (0,), "curvature": (0,)}
    if kind == "none":
        torch.testing.assert_close(scaled, torch.from_numpy(x).float().double())
        return
    mean, deviation = scaled.mean(extents[kind]), scaled.std(extents[kind])
    torch.testing.assert_close(mean, torch.zeros_like(mean), atol=1e-3, rtol=0)
    torch.testing.assert_close(deviation, torch.ones_like(deviation), atol=1e-3, rtol=0)


@pytest.mark.parametrize(("kind", "order"), [("slope", 1), ("curvature", 2)])
def test_derivatives_are_those_of_scipy(kind: str, order: int) -> None:
    signal = pytest.importorskip("scipy.signal")
    x = np.random.default_rng(0).normal(size=(6, 2, 40)).cumsum(-1)
    found = fit_scaling(kind, x, np.arange(5))(torch.from_numpy(x)).numpy()
    wanted = signal.savgol_filter(x, 11, 2, order, mode="nearest")
    wanted = (wanted - wanted.mean((1, 2), keepdims=True)) / wanted.std((1, 2), keepdims=True, ddof=1)
    wanted = (wanted - wanted[:5].mean(0)) / wanted[:5].std(0)
    np.testing.assert_allclose(found, wanted, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("kind", ["sample", "slope", "curvature"])
def test_height_and_gain_of_a_spectrum_mean_nothing(kind: str) -> None:
    x = np.random.default_rng(0).normal(size=(9, 1, 60)).cumsum(-1)
    scaling = fit_scaling(kind, x, np.arange(9))
    scaled, moved = (scaling(torch.from_numpy(each)) for each in (x, 2 * x + 3))
    torch.testing.assert_close(moved, scaled, atol=1e-3, rtol=1e-3)


def test_the_command_offers_every_scaling() -> None:
    assert get_args(Scale) == SCALINGS


def test_images_have_no_derivative() -> None:
    with pytest.raises(InputError, match="scale: 'slope' is for spectra"):
        fit_scaling("slope", np.zeros((4, 1, 5, 5)), np.arange(4))


def test_scaling_is_fitted_on_the_given_rows_alone_and_survives_json() -> None:
    x = np.concatenate([np.zeros((10, 1, 4)), np.full((10, 1, 4), 100.0)])
    x[:10] += np.random.default_rng(0).normal(size=(10, 1, 4))
    scaling = fit_scaling("point", x, np.arange(10))
    assert max(scaling.mean) < 10
    assert Scaling.from_dict(scaling.to_dict()) == scaling


def test_a_point_that_never_changes_is_not_blown_up() -> None:
    x = np.random.default_rng(0).normal(size=(50, 1, 4))
    x[:, 0, 2] = 7.0
    scaled = fit_scaling("point", x, np.arange(50))(torch.from_numpy(x) + 1e-6)
    assert scaled[:, 0, 2].abs().max() < 0.01


def test_norms_biases_and_positions_have_no_decay() -> None:
    model = vt.create_model("vit_micro_patch2_8", registers=2, bias="relative", layer_scale=0.1, pool="attention")
    decaying = {name for name, p in model.named_parameters() if decays(name, p)}
    assert decaying == {
        name
        for name, _ in model.named_parameters()
        if name.endswith(("project.weight", "qkv.weight", "layers.0.weight", "layers.1.weight"))
    }


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_every_parameter_has_one_optimiser(kind: str) -> None:
    model = vt.create_model("vit_micro_patch2_8")
    job = create_optimisers(model, kind, 1e-3, 0.05)
    held = [id(p) for optimiser in job for group in optimiser.param_groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for p in model.parameters())
    if kind == "muon":
        names = {id(p): name for name, p in model.named_parameters()}
        matrices = {names[id(p)] for p in job[0].param_groups[0]["params"]}
        assert len(matrices) == 4 * 4
        assert all(name.startswith("blocks.") and name.endswith("weight") for name in matrices)


def test_the_rate_rises_and_falls() -> None:
    factors = [learning_rate_factor(step, 1000, 0.1) for step in range(1000)]
    assert factors[0] == pytest.approx(0.01)
    assert max(factors) == factors[99] == factors[100] == pytest.approx(1.0)
    assert all(a <= b for a, b in itertools.pairwise(factors[:100]))
    assert all(a >= b for a, b in itertools.pairwise(factors[100:]))
    assert factors[-1] == pytest.approx(0.01, abs=1e-4)
    assert learning_rate_factor(550, 1000, 0.1) == pytest.approx((1 + 0.01) / 2, abs=1e-3)  # half way down the cosine


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"optimiser": "sgd"}, "optimiser: unknown choice 'sgd'; expected one of: adamw, muon"),
        ({"steps": 0}, "steps: found 0, expected at least 1"),
        ({"lr": -1.0}, "lr: found -1.0, expected at least 0"),
        ({"ema": 1.0}, "ema: found 1.0, expected a probability"),
        ({"precision": "int8"}, "precision: unknown choice"),
    ],
)
def test_a_wrong_setting_is_told_in_one_line(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TrainConfig(**given)  # type: ignore[arg-type]


def test_gradient_checkpointing_changes_no_gradient() -> None:
    model = vt.create_model("vit_micro_patch2_8", bias="relative")
    x = torch.randn(4, 1, 8, 8)

    def gradients() -> list[torch.Tensor]:
        model.zero_grad()
        model(x).square().sum().backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    plain = gradients()
    model.set_execution(checkpointing=True)
    assert all(torch.equal(a, b) for a, b in zip(plain, gradients(), strict=True))
    assert isinstance(model, nn.Module)


def test_matrices_taken_together_move_as_with_torchs_muon() -> None:
    """To the rounding of torch's iteration, which is in bfloat16."""
    torch.manual_seed(0)
    shapes = [(16, 16), (16, 48), (16, 16), (48, 16), (48, 16)]
    ours, theirs = ([nn.Parameter(torch.ones(shape)) for shape in shapes] for _ in range(2))
    settings = {"lr": 1e-2, "weight_decay": 0.05, "adjust_lr_fn": "match_rms_adamw"}
    one, other = Muon(ours, **settings), torch.optim.Muon(theirs, **settings)  # type: ignore[arg-type]
    for _ in range(5):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn(a.shape)
            b.grad = a.grad.clone()
        one.step()
        other.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-3, rtol=0)
        assert (a - 1).abs().max() > 1e-2
    for mine, yours in zip(one.state.values(), other.state.values(), strict=True):
        torch.testing.assert_close(mine["momentum_buffer"], yours["momentum_buffer"])
