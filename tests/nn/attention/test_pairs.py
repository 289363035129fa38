"""Biases learned from pairs: the features are those of four-vectors, and keep what nature keeps."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import vitreous as vt
from vitreous.core.errors import InputError
from vitreous.nn.attention.bias import PAIRS, PairBias, lorentz, offset
from vitreous.nn.pretraining import Masked, PretrainConfig
from vitreous.zoo.cost import model_cost, model_parts

JET: dict[str, Any] = {"input": (6, 10), "tokens": "packed", "axes": 4, "bias": "lorentz"}
HITS: dict[str, Any] = {"input": (6, 10), "tokens": "packed", "axes": 2, "bias": "offset", "spacing": (2.0, 0.5)}
SMALL: dict[str, Any] = {"out": 3, "dim": 24, "depth": 2, "heads": 2}


def make(**choices: Any) -> vt.ViT:
    model = vt.ViT(vt.ViTConfig(**{**SMALL, **choices})).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.2)
    return model


def sets(*counts: int) -> Tensor:
    return torch.randn(len(counts), 6, 10) * (torch.arange(10) < torch.tensor(counts)[:, None, None])


def particles(count: int = 12, mass: float = 0.14) -> Tensor:
    """Coordinates `(2, count, 4)`, in double precision: as in jets, within an angle of 1; momenta in GeV."""
    y, phi = (0.5 * torch.randn(2, count, dtype=torch.float64) + shift for shift in (1.0, 3.0))
    log_pt = torch.empty(2, count, dtype=torch.float64).uniform_(-0.5, 5)
    energy = (log_pt.exp().square() + mass**2).sqrt() * y.cosh()
    return torch.stack([y, phi, log_pt, energy.log()], dim=-1)


def boosted(coords: Tensor, along: float, around: float) -> Tensor:
    """The same particles seen from a frame that moves along the beam and is turned about it."""
    y, phi, log_pt, log_energy = coords.unbind(-1)
    moved = log_energy + (y + along).cosh().log() - y.cosh().log()
    return torch.stack([y + along, phi + around, log_pt, moved], dim=-1)


def four_vectors(coords: Tensor) -> Tensor:
    """E, px, py and pz."""
    y, phi, log_pt, log_energy = coords.unbind(-1)
    energy, pt = log_energy.exp(), log_pt.exp()
    return torch.stack([energy, pt * phi.cos(), pt * phi.sin(), energy * y.tanh()], dim=-1)


def test_the_features_of_particles_are_those_of_their_four_vectors() -> None:
    """Qu, Li and Qian 2022, eq. 3, in double precision; the features themselves are computed in single precision."""
    torch.manual_seed(0)
    coords = particles()
    p, pt = four_vectors(coords), coords[..., 2].exp()
    total = p.unsqueeze(2) + p.unsqueeze(1)
    mass2 = total[..., 0].square() - total[..., 1:].square().sum(-1)
    around = torch.remainder(coords[:, :, None, 1] - coords[:, None, :, 1] + math.pi, 2 * math.pi) - math.pi
    r = torch.hypot(coords[:, :, None, 0] - coords[:, None, :, 0], around)
    low = torch.minimum(pt.unsqueeze(2), pt.unsqueeze(1))
    wanted = torch.stack([r, low * r, low / (pt.unsqueeze(2) + pt.unsqueeze(1)), mass2], dim=-1).log()
    other = ~torch.eye(12, dtype=torch.bool)
    torch.testing.assert_close(lorentz(coords)[:, other], wanted[:, other], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(lorentz(coords.float())[:, other].double(), wanted[:, other], atol=2e-3, rtol=1e-5)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**31), along=st.floats(-2, 2), around=st.floats(-7, 7), mass=st.sampled_from([0.0, 0.14]))
def test_the_beam_has_no_preferred_frame(seed: int, along: float, around: float, mass: float) -> None:
    torch.manual_seed(seed)
    coords = particles(mass=mass)
    torch.testing.assert_close(lorentz(boosted(coords, along, around)), lorentz(coords), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mass", [0.0, 0.14])
def test_single_precision_will_do_far_forward(mass: float) -> None:
    """Where a sum of energies and momenta in single precision is off by e to the 20."""
    torch.manual_seed(0)
    coords = boosted(particles(60, mass), 3.0, 0.0)
    other = ~torch.eye(60, dtype=torch.bool)
    torch.testing.assert_close(lorentz(coords.float())[:, other].double(), lorentz(coords)[:, other], atol=0.1, rtol=0)


def test_two_particles_have_one_feature_whichever_comes_first() -> None:
    features = lorentz(particles().float())
    assert torch.equal(features, features.transpose(1, 2))


def test_a_particle_and_itself_are_finite() -> None:
    coords = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [2.0, 9.0, 500.0, -500.0], [50.0, 0, 0, 0]])
    coords.requires_grad_()
    for function in (lorentz, offset):
        features = function(coords[None])
        assert features.isfinite().all()
        (gradient,) = torch.autograd.grad(features.sum(), coords)
        assert gradient.isfinite().all()


def test_offsets_are_differences_and_their_length() -> None:
    coords = torch.tensor([[[0.0, 0.0], [3.0, 4.0]]])
    features = offset(coords)
    assert features[0, 0, 1].tolist() == [-3, -4, 5]
    assert features[0, 1, 0].tolist() == [3, 4, 5]


def test_offsets_do_not_know_where_the_origin_is() -> None:
    bias = PairBias("offset", 2, 4, spacing=(100.0, 1.0))
    coords = torch.randn(2, 5, 2)
    torch.testing.assert_close(bias(coords + torch.tensor([64.0, -32.0])), bias(coords), atol=1e-4, rtol=1e-4)
    steps = PairBias("offset", 2, 4)
    steps.load_state_dict(bias.state_dict())
    torch.testing.assert_close(bias(coords), steps(coords / torch.tensor([100.0, 1.0])))


@pytest.mark.parametrize("choices", [JET, HITS], ids=["lorentz", "offset"])
def test_the_bias_is_the_one_that_forward_could_be_given(choices: dict[str, Any]) -> None:
    model = make(**choices)
    x, axes = sets(10, 6), model.config.axes
    plain = vt.ViT(vt.ViTConfig(**{**model.config.to_dict(), "bias": "none"})).eval()
    plain.load_state_dict(model.state_dict(), strict=False)
    assert model.pair_bias is not None
    bias = model.pair_bias(x[:, 6 - axes :].mT)
    assert bias.shape == (2, 2, 10, 10)
    torch.testing.assert_close(plain(x, pairwise=bias), model(x), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model(x, pairwise=-bias), plain(x), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(model(x), plain(x), atol=1e-3)


@pytest.mark.parametrize("choices", [JET, HITS, {**JET, "pool": "mean", "cls": False}, {**HITS, "pool": "attention"}])
def test_recording_order_absence_and_emptiness(choices: dict[str, Any]) -> None:
    model, x = make(**choices), sets(10, 6, 0)
    out = model(x)
    assert out.isfinite().all()
    torch.testing.assert_close(model(x[:, :, torch.randperm(10)]), out, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(model(x[1:2, :, :6]), out[1:2], atol=1e-4, rtol=1e-4)
    with vt.record(model) as seen:
        torch.testing.assert_close(model(x), out, atol=1e-5, rtol=1e-5)
    prefix = model.config.prefix
    assert seen["pairwise"].shape == (3, 2, 10 + prefix, 10 + prefix)
    assert (seen["pairwise"][1, :, :, 6 + prefix :] == 0).all()
    assert (seen["pairwise"][2] == 0).all()
    model.train()(x).square().sum().backward()
    bad = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert not bad
    assert all(p.grad.abs().sum() > 0 for p in model.pair_bias.parameters())  # type: ignore[union-attr]


def test_a_set_that_is_told_its_coordinates_has_it_too() -> None:
    packed = make(**JET)
    apart = vt.ViT(vt.ViTConfig(**{**packed.config.to_dict(), "tokens": "set", "input": (2, 10)})).eval()
    apart.load_state_dict(packed.state_dict())
    x = sets(10, 6)
    torch.testing.assert_close(apart(x[:, :2], (x != 0).any(1), x[:, 2:].mT), packed(x))


def test_autocast_leaves_the_features_exact() -> None:
    seen: list[Tensor] = []
    bias = PairBias("lorentz", 4, 2)
    bias.first.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    coords = particles().float()
    with torch.autocast("cpu", torch.bfloat16):
        bias(coords)
    assert torch.equal(seen[0], lorentz(coords))


def test_merging_and_checkpointing_keep_it() -> None:
    model, x = make(**JET), sets(10, 7)
    out = model(x)
    with vt.merged(model, 1):
        assert model(x).isfinite().all()
    model.set_execution(checkpointing=True)
    torch.testing.assert_close(model.train()(x), out, atol=1e-5, rtol=1e-5)


def test_what_the_encoder_sees_of_pairs_is_that_of_visible_ones() -> None:
    """All tokens visible is the plain encoder, and hidden elements leave no trace before the decoder."""
    encoder = make(**{**HITS, "out": 0})
    model = Masked(encoder, PretrainConfig(ratio=0.5, dim=16))
    x = sets(10, 7)
    torch.manual_seed(1)
    visible = model.reconstruct(x).visible
    assert visible is not None
    before = encoder.encode(x, visible=visible)
    after = encoder.encode(torch.where(visible.hidden.unsqueeze(1), x + 0.5, x), visible=visible)
    present = torch.cat([torch.ones(2, 1, dtype=torch.bool), visible.mask], dim=1)  # type: ignore[list-item]
    torch.testing.assert_close(before[present], after[present])
    model(x)[:, 0].sum().backward()
    assert all(p.grad is not None for p in encoder.pair_bias.parameters())  # type: ignore[union-attr]


def test_exports_and_is_counted() -> None:
    model = make(**JET)
    shapes = {"x": {0: torch.export.Dim("batch"), 2: torch.export.Dim("count", max=10)}}
    exported = torch.export.export(model, (sets(10, 4),), dynamic_shapes=shapes).module()
    x = sets(3, 7, 1)[:, :, :8]
    torch.testing.assert_close(exported(x), model(x), atol=1e-5, rtol=1e-5)
    counted = {name: count for name, _, count in model_parts(model.config)}
    assert counted["bias, lorentz"] == 4 * 32 + 32 + 32 * 32 + 32 + 32 * 2 + 2
    assert sum(counted.values()) == model_cost(model.config).parameters


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({**JET, "axes": 3}, "axes: found 3, but bias = 'lorentz' needs rapidity, azimuth, ln pT, ln E"),
        ({**HITS, "axes": 0, "spacing": (), "position": "none"}, "axes: bias 'offset' needs the number of coordinates"),
        ({**JET, "attention": "lsh"}, "bias: 'lorentz' needs attention = 'full'"),
        ({"input": (1, 40), "patch": (4,), "bias": "offset"}, "bias: 'offset' needs the elements of a set"),
        (
            {"input": (2, 9), "tokens": "lines", "position": "none", "bias": "offset"},
            "bias: 'offset' needs the elements of a set; found tokens = 'lines'",
        ),
        ({**JET, "bias": "euclid"}, "bias: unknown choice 'euclid'; expected one of: none, relative, offset, lorentz"),
    ],
)
def test_a_mistake_is_told_in_one_line(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        make(**choices)
    assert "\n" not in str(fault.value)


def test_every_table_entry_says_how_many_features_it_has() -> None:
    for pairs in PAIRS.values():
        axes = len(pairs.coordinates) or 3
        assert pairs.features(torch.randn(1, 5, axes)).shape == (1, 5, 5, pairs.number(axes))
