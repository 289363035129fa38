"""Packed sets: one array holds features, places and absence, and means what a set means that is told them apart."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import vitreous as vt
from vitreous.core.errors import InputError
from vitreous.nn.pretraining import BUILD, PretrainConfig
from vitreous.nn.tokens.sets import PackedTokenizer
from vitreous.zoo.cost import model_cost, model_parts

PACKED: dict[str, Any] = {"input": (5, 9), "tokens": "packed", "axes": 2}
SMALL: dict[str, Any] = {"out": 3, "dim": 24, "depth": 2, "heads": 2}


def make(**choices: Any) -> vt.ViT:
    model = vt.ViT(vt.ViTConfig(**{**PACKED, **SMALL, **choices})).eval()
    for parameter in model.parameters():  # away from zeros and ones, so that every part shows in the output
        torch.nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.2)
    return model


def sets(*counts: int, rows: int = 5, most: int = 9) -> Tensor:
    """Packed sets of so many elements each, at random places among the most that there can be."""
    x = torch.randn(len(counts), rows, most)
    for sample, count in zip(x, counts, strict=True):
        sample[:, torch.randperm(most)[count:]] = 0
    return x


@pytest.mark.parametrize("pool", ["cls", "mean", "attention"])
@pytest.mark.parametrize("position", ["learned", "sinusoidal", "none"])
def test_a_packed_set_is_the_set_that_is_told_its_parts(pool: str, position: str) -> None:
    packed = make(pool=pool, position=position, spacing=(0.5, 2.0))
    apart = vt.ViT(vt.ViTConfig(**{**packed.config.to_dict(), "tokens": "set", "input": (3, 9)})).eval()
    apart.load_state_dict(packed.state_dict())
    x = sets(9, 4, 1)
    wanted = apart(x[:, :3], mask=(x != 0).any(1), coords=x[:, 3:].mT)
    torch.testing.assert_close(packed(x), wanted, atol=0, rtol=0)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31), pool=st.sampled_from(["cls", "mean", "attention"]))
def test_order_and_missing_elements_leave_no_trace(seed: int, pool: str) -> None:
    torch.manual_seed(seed)
    model, x = make(pool=pool, cls=pool == "cls"), sets(6, 3, 6)
    out = model(x)
    torch.testing.assert_close(model(x[:, :, torch.randperm(9)]), out, atol=1e-4, rtol=1e-4)
    alone = [sample[:, (sample != 0).any(0)][None] for sample in x]  # fewer elements than there can be
    torch.testing.assert_close(torch.cat([model(each) for each in alone]), out, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("pool", ["cls", "mean", "attention"])
@pytest.mark.parametrize("cls", [True, False])
@pytest.mark.parametrize("amp", [False, True])
def test_samples_without_an_element_are_finite_and_so_are_their_gradients(pool: str, cls: bool, amp: bool) -> None:
    if pool == "cls" and not cls:
        return
    model = make(pool=pool, cls=cls).train()
    with torch.autocast("cpu", torch.bfloat16, enabled=amp):
        out = model(sets(0, 7, 0))
    assert out.isfinite().all()
    torch.testing.assert_close(out[0], out[2])
    out.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    with vt.record(model.eval()):
        assert model(sets(0, 7)).isfinite().all()
    assert model(sets(0, 0)).isfinite().all()
    assert model(torch.zeros(2, 5, 0)).isfinite().all()


def test_an_element_is_there_if_any_of_its_numbers_is() -> None:
    x = torch.zeros(1, 5, 9)
    x[0, 0, 1] = x[0, 4, 3] = 1e-20
    tokens = PackedTokenizer(make().config)(x)
    assert tokens.mask is not None
    assert tokens.mask[0].nonzero().flatten().tolist() == [1, 3]


@pytest.mark.parametrize("method", ["masked", "denoise", "contrast"])
def test_every_pretraining_learns_from_packed_sets(method: str) -> None:
    torch.manual_seed(0)
    model = BUILD[method](make(out=0, pool="mean"), PretrainConfig(method, dim=16))
    x = sets(9, 5, 0, 1)
    given = x if method == "masked" else torch.stack([x * 1.1, x], dim=1)
    losses = model(given)
    assert losses.shape == (4, 2)
    assert losses.isfinite().all()
    losses[:, 0].mean().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert all(panel.shape[0] == 4 for panel in model.panels(x, given))
    if method != "contrast":  # there is nothing to tell of a set without elements
        assert losses[2].tolist() == [0, 0]


def test_denoising_counts_the_elements_that_there_are() -> None:
    model = BUILD["denoise"](make(out=0, pool="mean"), PretrainConfig("denoise", dim=16)).eval()
    whole = sets(9, 4)
    present = (whole != 0).any(1, keepdim=True)
    damaged = torch.cat([whole[:, :3] + 2.0 * present, whole[:, 3:]], dim=1)
    losses = model(torch.stack([damaged, whole], dim=1))
    torch.testing.assert_close(losses[:, 1], torch.full((2,), 4.0))  # (2.0)² for every feature of every element


def test_a_set_without_coordinates_can_be_denoised_but_not_masked() -> None:
    encoder = make(out=0, axes=0, position="none", pool="mean")
    x = sets(9, 4)
    model = BUILD["denoise"](encoder, PretrainConfig("denoise", dim=16))
    assert model(torch.stack([x, x], dim=1)).isfinite().all()
    with pytest.raises(InputError, match="axes: hidden elements without coordinates cannot be distinguished"):
        BUILD["masked"](encoder, PretrainConfig("masked", dim=16))


def test_exports_with_any_number_of_samples_and_elements() -> None:
    model = make()
    shapes = {"x": {0: torch.export.Dim("batch"), 2: torch.export.Dim("count", max=9)}}
    exported = torch.export.export(model, (sets(9, 4),), dynamic_shapes=shapes).module()
    for x in (sets(9, 2, 1), sets(3, 2, most=5)):
        torch.testing.assert_close(exported(x), model(x), atol=1e-5, rtol=1e-5)


def test_its_cost_is_counted_without_running_it() -> None:
    packed = vt.ViTConfig(**PACKED, **SMALL)
    told = vt.ViTConfig(**{**PACKED, **SMALL, "tokens": "set", "input": (3, 9)})
    assert model_cost(packed) == model_cost(told)
    assert sum(count for _, _, count in model_parts(packed)) == model_cost(packed).parameters


STATIONS: dict[str, Any] = {"input": (36, 9), "stem": (4, 6), "samples": 32}


@pytest.mark.parametrize("choices", [STATIONS, {**STATIONS, "samples": 0}, {**STATIONS, "samples": 34}], ids=str)
def test_elements_may_have_recorded_traces(choices: dict[str, Any]) -> None:
    model = make(**choices).train()
    x = sets(9, 4, 0, rows=36)
    out = model(x)
    torch.testing.assert_close(model(x[1:2, :, :].flip(2)), out[1:2], atol=1e-4, rtol=1e-4)
    out.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert all(p.grad.abs().sum() > 0 for p in model.tokenizer.parameters())  # type: ignore[union-attr]
    assert model_cost(model.config).parameters == sum(p.numel() for p in model.parameters())


def test_traces_and_other_features_are_projected_together() -> None:
    """Side by side, then projected, is the sum of two projections."""
    tokenizer = PackedTokenizer(make(input=(36, 9), stem=(4, 6), samples=32).config)
    x = sets(9, 9, rows=36)
    traces, others = tokenizer.project.traces, tokenizer.project.others
    kept = traces.convolutions(x[:, :32].mT.reshape(18, 1, 32)).reshape(2, 9, -1)  # type: ignore[operator, union-attr]
    beside = torch.cat([kept, x[:, 32:34].mT], dim=-1)
    weight = torch.cat([traces.project.weight, others.weight], dim=1)  # type: ignore[list-item, union-attr]
    wanted = beside @ weight.T + traces.project.bias  # type: ignore[operator, union-attr]
    torch.testing.assert_close(tokenizer(x).values, wanted, atol=1e-5, rtol=1e-5)


def test_a_model_of_before_is_read_as_it_was() -> None:
    known = vt.ViTConfig(**PACKED, **SMALL).to_dict()
    del known["samples"]
    assert vt.ViTConfig.from_dict(known) == vt.ViTConfig(**PACKED, **SMALL)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"input": (5, 3, 3)}, r"input: found \(5, 3, 3\), a set expects"),
        ({"axes": 5}, r"axes: 5 coordinates leave no features in the rows of input \(5, 9\)"),
        ({"axes": 0}, "axes: position 'learned' needs the number of coordinates"),
        ({"patch": (2,)}, "patch: found .*, but tokens = 'packed' does not have this setting"),
        ({"samples": 3}, "samples: found 3, but without a stem no trace is read"),
        ({"samples": 4, "stem": (4,)}, "samples: found 4, but an element has 3 features"),
        ({"stem": (4, 0)}, "stem: found 0, expected at least 1"),
        (
            {"stem": (4,), "tokens": "set", "input": (3, 9)},
            "stem: found .*, but tokens = 'set' does not have this setting",
        ),
        ({"bias": "relative"}, "bias: 'relative' needs a grid"),
        ({"pool": "flatten"}, "pool: 'flatten' needs a fixed order of tokens"),
        ({"attention": "window", "window": (2,)}, "attention: 'window' needs a grid; for packed use full"),
    ],
)
def test_a_mistake_is_told_in_one_line(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        make(**choices)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": torch.zeros(2, 4, 9)}, r"found a batch of shape \(2, 4, 9\), expected \(batch, 5, at most 9\)"),
        ({"x": torch.zeros(2, 5, 10)}, r"expected \(batch, 5, at most 9\)"),
        ({"x": torch.zeros(2, 5, 9).double()}, "found torch.float64, expected torch.float32"),
        ({"x": torch.zeros(2, 5, 9), "mask": torch.ones(2, 9, dtype=torch.bool)}, "a packed set contains its own"),
        ({"x": torch.zeros(2, 5, 9), "coords": torch.ones(2, 9, 2)}, "a packed set contains its own"),
    ],
)
def test_a_wrong_batch_is_told_in_one_line(given: dict[str, Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        make()(**given)
    assert "\n" not in str(fault.value)
