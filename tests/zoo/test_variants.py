"""Named models have the published sizes; each one trains, records, saves and exports."""

from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import vitreous as vt
from vitreous.core.errors import InputError
from vitreous.nn import ATTENTIONS, ViTConfig
from vitreous.zoo import VARIANTS, model_config, model_cost, model_parts

PARAMETERS = {  # S2.5, S4.6, and timm's figures
    "vit_base_patch16_224": 86_567_656,
    "vit_large_patch16_224": 304_326_632,
    "vit_huge_patch14_224": 632_045_800,
}
TINY = {"dim": 24, "depth": 2, "heads": 2}


@pytest.mark.parametrize(("name", "count"), PARAMETERS.items())
def test_number_of_parameters(name: str, count: int) -> None:
    with torch.device("meta"):
        model = vt.create_model(name)
    assert sum(p.numel() for p in model.parameters()) == count
    assert model_cost(VARIANTS[name]).parameters == count


@pytest.mark.parametrize("name", VARIANTS)
def test_summary_accounts_for_every_parameter(name: str) -> None:
    assert sum(count for _, _, count in model_parts(VARIANTS[name])) == model_cost(VARIANTS[name]).parameters


def test_flops_are_those_of_a_real_forward() -> None:
    config = model_config("vit_micro_patch2_8", bias="relative")
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):  # in the open, where all products show
        vt.ViT(config).eval()(torch.randn(1, 1, 8, 8))
    assert model_cost(config).flops == counter.get_total_flops()
    n, d = 17, 64
    last = 2 * n * d * d + 10 * d * d + 2 * n * d  # where the class token alone asks, and goes on
    products = 2 * (16 * 4 * d + 3 * (12 * n * d * d + 2 * n * n * d) + last + 10 * d)
    assert model_cost(config).flops == products


@pytest.mark.parametrize("name", VARIANTS)
def test_every_model_trains_records_saves_and_exports(name: str, tmp_path: Path) -> None:
    model = vt.create_model(name, **TINY)
    x = torch.randn(2, *model.config.input)

    out = model(x)
    assert out.shape == (2, model.config.out)
    out.square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())

    model.eval()
    with torch.no_grad():
        out = model(x)
        with vt.record(model, layers=[0]) as seen:
            torch.testing.assert_close(model(x), out, atol=1e-5, rtol=1e-5)
        assert seen.attention[0].shape[-1] == model_cost(model.config).tokens

        vt.save_model(model, tmp_path / name)
        loaded = vt.load_model(tmp_path / name).eval()
        assert loaded.config == model.config
        assert torch.equal(loaded(x), out)

        batch = torch.export.Dim("batch", min=1)
        exported = torch.export.export(model, (x,), dynamic_shapes={"x": {0: batch}}).module()
        torch.testing.assert_close(exported(x), out, atol=1e-5, rtol=1e-5)
        three = torch.randn(3, *model.config.input)
        torch.testing.assert_close(exported(three), model(three), atol=1e-5, rtol=1e-5)


def test_overrides_reach_the_config() -> None:
    model = vt.create_model("vit_tiny_patch16_224", out=10, input=(1, 28, 28), patch=4, norm="post", depth=1)
    assert model(torch.randn(2, 1, 28, 28)).shape == (2, 10)
    assert model.config.stride == (4, 4)


def test_the_spectrum_model_is_that_of_source_s0() -> None:
    config = VARIANTS["vit_spectrum_4500"]
    assert (config.input, config.patch, config.depth, config.head, config.out) == ((1, 4500), (10,), 4, (64,), 6)
    assert (config.pool, config.position) == ("cls", "learned")


def test_an_unknown_name_suggests_near_ones() -> None:
    with pytest.raises(InputError, match="'vit_base_patch16_22'; did you mean vit_base_patch16_224"):
        vt.create_model("vit_base_patch16_22")
    with pytest.raises(InputError, match="'x'; expected one of: vit_tiny_patch16_224, "):
        vt.create_model("x")


def test_an_unknown_override_lists_the_fields() -> None:
    with pytest.raises(InputError, match="'num_classes' is not a field; expected: input, patch, "):
        vt.create_model("vit_tiny_patch16_224", num_classes=10)


def test_list_models_takes_a_pattern() -> None:
    assert vt.list_models("vit_huge*") == ["vit_huge_patch14_224"]
    assert len(vt.list_models()) == len(VARIANTS)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_the_parts_of_every_kind_of_attention_add_up(attention: str) -> None:
    window = {"window": 3} if attention == "window" else {}
    shape = {"input": (1, 64), "patch": (4,), "dim": 32, "depth": 2, "heads": 2}
    config = ViTConfig(**shape, out=2, pool="mean", cls=False, attention=attention, **window)
    cost = model_cost(config)
    assert sum(count for _, _, count in model_parts(config)) == cost.parameters
    assert cost.flops > 2 * cost.tokens * 32**2
