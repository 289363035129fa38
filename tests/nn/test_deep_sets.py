"""Blocks without mixing: every token sees itself alone, and a mean of them is Deep Sets (Zaheer et al. 2017)."""

from typing import Any

import pytest
import torch
from torch import Tensor

import vitreous as vt
from vitreous.core.errors import InputError
from vitreous.insight.attention import attention_maps, rollout_map
from vitreous.nn.pretraining import BUILD, PretrainConfig
from vitreous.zoo.cost import model_cost

DEEP: dict[str, Any] = {
    "input": (5, 9), "tokens": "packed", "axes": 2, "attention": "none", "pool": "mean", "cls": False,
    "out": 3, "dim": 24, "depth": 3, "heads": 2,
}  # fmt: skip


def make(**choices: Any) -> vt.ViT:
    model = vt.ViT(vt.ViTConfig(**{**DEEP, **choices})).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.2)
    return model


def sets(*counts: int) -> Tensor:
    return torch.randn(len(counts), 5, 9) * (torch.arange(9) < torch.tensor(counts)[:, None, None])


@pytest.mark.parametrize("norm", ["pre", "post", "branch"])
def test_a_mean_over_elements_each_by_itself_then_the_head(norm: str) -> None:
    """ρ(mean φ(x_i)): φ is the model's own answer to an element alone, before the head."""
    model = make(norm=norm, head=(8,))
    x = sets(9, 4, 1)
    features = vt.ViT(vt.ViTConfig(**{**model.config.to_dict(), "out": 0, "head": ()})).eval()
    features.load_state_dict({n: v for n, v in model.state_dict().items() if not n.startswith("head.")})
    for sample, out in zip(x, model(x), strict=True):
        elements = [sample[:, i : i + 1] for i in range(9) if sample[:, i].any()]
        mean = torch.stack([features(element[None])[0] for element in elements]).mean(0)
        torch.testing.assert_close(model.head(mean), out, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pool", ["mean", "attention"])
def test_order_absence_and_emptiness(pool: str) -> None:
    model, x = make(pool=pool).train(), sets(9, 4, 0)
    out = model(x)
    assert out.isfinite().all()
    torch.testing.assert_close(model(x[:, :, torch.randperm(9)]), out, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model(x[1:2, :, :4]), out[1:2], atol=1e-5, rtol=1e-5)
    out.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_there_are_no_weights_for_what_is_not_there() -> None:
    full, none = (vt.ViTConfig(**{**DEEP, "attention": kind}) for kind in ("full", "none"))
    attention = 3 * (4 * 24**2 + 4 * 24 + 2 * 24)  # three blocks: query, key, value, projection, and their norm
    assert model_cost(full).parameters - model_cost(none).parameters == attention
    assert not [name for name in make().state_dict() if "attention" in name]


def test_a_grid_may_go_without_mixing_too() -> None:
    model = make(input=(1, 12, 12), tokens="patch", axes=0, patch=(4,), pool="flatten")
    assert model(torch.randn(2, 1, 12, 12)).shape == (2, 3)


def test_recording_keeps_what_there_is() -> None:
    model, x = make(), sets(9, 4)
    with vt.record(model) as seen:
        torch.testing.assert_close(model(x), model(x))
    assert seen.attention == {}
    assert {"blocks.0.mlp", "blocks.0.out", "normed", "pooled"} <= set(seen)
    with pytest.raises(KeyError, match=r"'blocks.0.weights' was not recorded"):
        seen["blocks.0.weights"]
    for look in (attention_maps, rollout_map):
        with pytest.raises(InputError, match="attention: a ViT with attention = 'none' has none; attributions"):
            look(model, x)


def test_what_needs_attention_is_refused() -> None:
    model, x = make(), sets(9, 4)
    with pytest.raises(InputError, match="pairwise: needs attention = 'full'"):
        model(x, pairwise=torch.zeros(1, 1, 9, 9))
    with pytest.raises(InputError, match=r"merge: .* under full attention only"), vt.merged(model, 2):
        model(x)
    with pytest.raises(InputError, match=r"masked: .* under full attention only"):
        BUILD["masked"](model, PretrainConfig("masked", dim=16))


def test_denoising_and_contrast_do_without() -> None:
    x = sets(9, 4)
    for method in ("denoise", "contrast"):
        model = BUILD[method](make(out=0), PretrainConfig(method, dim=16))
        assert model(torch.stack([1.1 * x, x], dim=1)).isfinite().all()


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"pool": "cls", "cls": True}, "pool: with attention = 'none' the class token sees nothing"),
        ({"cls": True}, "cls: found True, but with attention = 'none' it has no use; expected False"),
        ({"registers": 2}, "registers: found 2, but with attention = 'none' it has no use"),
        ({"bias": "offset"}, "bias: found 'offset', but with attention = 'none' it has no use"),
        ({"score": "cosine"}, "score: found 'cosine', but"),
        ({"qk_norm": True}, "qk_norm: found True, but"),
        ({"attention_dropout": 0.1}, "attention_dropout: found 0.1, but"),
        ({"window": (2,)}, r"window: found \(2,\), but attention = 'none' does not have this setting"),
        ({"thresholds": True}, "thresholds: tokens are merged and dropped under full attention only"),
    ],
)
def test_a_mistake_is_told_in_one_line(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        make(**choices)
    assert "\n" not in str(fault.value)
