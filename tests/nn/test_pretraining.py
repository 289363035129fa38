"""Pre-training: what the encoder does not see it does not know, and only that is asked of it."""

from typing import Any

import pytest
import torch
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.nn import ViT, ViTConfig
from vitreous.nn.masking import draw
from vitreous.nn.pretraining import BUILD, Contrast, Denoising, Masked, PretrainConfig
from vitreous.nn.tokens import PatchTokenizer

SMALL: dict[str, Any] = {"dim": 16, "depth": 2, "heads": 2}
GRIDS = {
    "spectrum": ViTConfig(input=(1, 30), patch=(4,), **SMALL),
    "channels": ViTConfig(input=(2, 30), patch=(5,), pool="mean", bias="relative", **SMALL),
    "image": ViTConfig(input=(1, 12, 8), patch=(4, 2), bias="relative", **SMALL),
    "overlap": ViTConfig(input=(1, 28), patch=(6,), stride=(2,), **SMALL),
    "overlapping image": ViTConfig(input=(1, 13, 13), patch=(4,), stride=(2,), position="sinusoidal", **SMALL),
    "stem": ViTConfig(input=(1, 16, 16), patch=(4,), stem=(8,), registers=1, **SMALL),
    "volume": ViTConfig(input=(1, 6, 6, 6), patch=(2,), norm="post", **SMALL),
}
LISTS = {
    "set": ViTConfig(input=(3, 9), tokens="set", axes=2, pool="mean", **SMALL),
    "packed": ViTConfig(input=(5, 9), tokens="packed", axes=2, **SMALL),
    "lines": ViTConfig(input=(2, 9), tokens="lines", position="none", **SMALL),
    "peaks": ViTConfig(input=(1, 400), tokens="peaks", peaks=12, position="none", **SMALL),
}


def batch(c: ViTConfig, count: int = 3) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Samples, mask and coordinates for a model."""
    if c.tokens == "set":
        there = torch.arange(9) < torch.tensor([[9], [5], [2]])[:count]
        return torch.randn(count, *c.input), there, torch.randn(count, 9, 2)
    if c.tokens == "packed":
        there = torch.arange(9) < torch.tensor([[[9]], [[5]], [[2]]])[:count]
        return torch.randn(count, *c.input) * there, None, None
    if c.tokens == "lines":
        return torch.rand(count, *c.input) * (torch.arange(9) < 7), None, None
    if c.tokens == "peaks":
        axis, places = torch.arange(400.0), torch.arange(20, 380, 30.0)
        return torch.exp(-0.5 * ((axis - places[:, None]) / 3) ** 2).sum(0).expand(count, 1, -1), None, None
    return torch.randn(count, *c.input), None, None


@pytest.fixture(params=[*GRIDS, *LISTS])
def config(request: pytest.FixtureRequest) -> ViTConfig:
    return (GRIDS | LISTS)[request.param]


@pytest.mark.parametrize("name", GRIDS)
def test_samples_that_are_hidden_change_nothing_before_the_decoder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = Masked(ViT(GRIDS[name]), PretrainConfig(ratio=0.6)).eval()
    tokenizer = model.encoder.tokenizer
    assert isinstance(tokenizer, PatchTokenizer)
    kept: list[Tensor] = []
    monkeypatch.setattr(model.decoder, "forward", lambda z, *_: kept.append(z) or torch.zeros(3, tokenizer.most, 1))
    x, _, _ = batch(GRIDS[name])
    torch.manual_seed(7)
    visible = model.reconstruct(x).visible
    assert visible is not None
    seen = tokenizer.covered(~visible.hidden)
    assert 0 < seen.float().mean() < 1
    wild = 100 * torch.randn_like(x)
    for other in (torch.where(seen, x, wild), torch.where(seen, wild, x)):
        torch.manual_seed(7)
        model.reconstruct(other)
    assert torch.equal(kept[0], kept[1])
    assert not torch.allclose(kept[0], kept[2])


@pytest.mark.parametrize("name", ["set", "packed", "lines"])
def test_elements_that_are_hidden_change_nothing_before_the_decoder(name: str) -> None:
    torch.manual_seed(0)
    encoder = ViT(LISTS[name]).eval()
    x, mask, coords = batch(LISTS[name])
    there = encoder.tokenizer.contents(x, mask).mask
    visible = draw(3, torch.arange(9), there, 0.6)
    other = torch.where(visible.hidden.unsqueeze(1), x + 0.37, x)
    before, after = (encoder.encode(each, mask, coords, visible) for each in (x, other))
    assert visible.mask is not None
    known = torch.cat([torch.ones(3, 1, dtype=torch.bool), visible.mask], dim=1)
    assert torch.equal(before[known], after[known])


def test_the_loss_counts_hidden_tokens_alone(config: ViTConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = Masked(ViT(config), PretrainConfig(ratio=0.6)).eval()
    x, mask, coords = batch(config)
    torch.manual_seed(3)
    told = model.reconstruct(x, mask, coords)
    assert told.visible is not None
    assert told.counted.any()
    assert not (told.counted & ~told.visible.hidden.unsqueeze(-1)).any()
    losses = []
    for counts in (False, True):
        wrong = told.values + 10.0 * (told.counted if counts else ~told.counted)
        found = told._replace(values=wrong)
        monkeypatch.setattr(model, "reconstruct", lambda *_, found=found: found)
        losses.append(model(x)[:, 0])
    monkeypatch.undo()
    torch.manual_seed(3)
    assert torch.equal(losses[0], model(x, mask, coords)[:, 0])
    assert (losses[1][told.counted.flatten(1).any(1)] > losses[0][told.counted.flatten(1).any(1)]).all()


def test_samples_beyond_the_grid_do_not_count() -> None:
    model = Masked(ViT(GRIDS["spectrum"]), PretrainConfig(ratio=0.9))  # 30 samples in patches of 4
    told = model.reconstruct(torch.randn(50, 1, 30))
    assert not told.counted[:, -1, 2:].any()
    assert told.counted[:, -1, :2].any()


@pytest.mark.parametrize("name", ["overlap", "overlapping image"])
def test_where_patches_overlap_no_visible_sample_counts(name: str) -> None:
    model = Masked(ViT(GRIDS[name]), PretrainConfig(ratio=0.6))
    tokenizer = model.encoder.tokenizer
    assert isinstance(tokenizer, PatchTokenizer)
    told = model.reconstruct(torch.randn(20, *GRIDS[name].input))
    assert told.visible is not None
    counted = tokenizer.assemble(told.counted.float()) > 0
    assert not (counted & tokenizer.covered(~told.visible.hidden)).any()
    assert counted.flatten(1).any(1).all()


def test_all_tokens_visible_is_the_plain_encoder(config: ViTConfig) -> None:
    torch.manual_seed(0)
    encoder = ViT(config).eval()
    x, mask, coords = batch(config)
    count = encoder.tokenizer.contents(x, mask).values.shape[1]
    there = encoder.tokenizer.contents(x, mask).mask
    visible = draw(3, torch.arange(count), there, 0.0)
    plain, order = encoder.encode(x, mask, coords), visible.with_prefix(config.prefix)
    found = encoder.encode(x, mask, coords, visible)
    back = torch.zeros_like(found).scatter(1, order.unsqueeze(-1).expand_as(found), found)
    known = torch.ones(3, config.prefix + count, dtype=torch.bool)
    if there is not None:
        known[:, config.prefix :] = there
    assert torch.allclose(back[known], plain[known], atol=1e-5)
    assert not visible.hidden.any()


@pytest.mark.parametrize("name", GRIDS)
def test_the_encoder_before_pooling_is_the_one_that_forward_pools(name: str) -> None:
    encoder = ViT(GRIDS[name]).eval()
    x, _, _ = batch(GRIDS[name])
    assert torch.allclose(encoder(x), encoder.pool(encoder.encode(x), None), atol=1e-5)


@pytest.mark.parametrize("name", GRIDS)
def test_patches_assemble_to_the_grid_they_were_cut_from(name: str) -> None:
    tokenizer = ViT(GRIDS[name]).tokenizer
    assert isinstance(tokenizer, PatchTokenizer)
    x, _, _ = batch(GRIDS[name])
    assert torch.allclose(tokenizer.assemble(tokenizer.contents(x).values), x, atol=1e-6)


@pytest.mark.parametrize("ratio", [0.25, 0.5, 0.75])
def test_the_share_that_is_asked_for_is_hidden_of_the_tokens_that_there_are(ratio: float) -> None:
    there = torch.arange(40) < torch.tensor([[40], [20], [4]])
    hidden = draw(3, torch.arange(40), there, ratio).hidden
    assert not (hidden & ~there).any()
    assert torch.equal(hidden.sum(1), (ratio * there.sum(1)).long())


def test_a_sample_without_tokens_costs_nothing() -> None:
    model = Masked(ViT(LISTS["lines"]), PretrainConfig())
    loss = model(torch.zeros(2, 2, 9))
    assert torch.equal(loss[:, 0], torch.zeros(2))
    loss.sum().backward()


@pytest.mark.parametrize("method", ["denoise", "contrast"])
def test_a_pair_that_is_equal_has_equal_targets(method: str) -> None:
    torch.manual_seed(0)
    model = BUILD[method](ViT(GRIDS["spectrum"]), PretrainConfig(method)).eval()
    x = torch.randn(6, 1, 30)
    same = torch.stack([x, x], dim=1)
    if isinstance(model, Denoising):
        assert torch.equal(model(same)[:, 1], torch.zeros(6))
    else:
        assert torch.equal(model(same)[:, 1], torch.ones(6))


def test_the_contrast_of_two_views_does_not_depend_on_their_order() -> None:
    torch.manual_seed(0)
    model = Contrast(ViT(GRIDS["image"]), PretrainConfig("contrast")).eval()
    views = torch.randn(6, 2, 1, 12, 8)
    assert torch.allclose(model(views), model(views.flip(1)), atol=1e-5)


def test_the_contrast_is_the_mean_of_two_cross_entropies() -> None:
    torch.manual_seed(0)
    model = Contrast(ViT(GRIDS["image"]), PretrainConfig("contrast", temperature=0.5)).eval()
    views = torch.randn(4, 2, 1, 12, 8)
    z = torch.nn.functional.normalize(model.project(model.encoder(views.flatten(0, 1))), dim=1).detach()
    for i in range(4):
        expected = 0.0
        for own, pair in ((2 * i, 2 * i + 1), (2 * i + 1, 2 * i)):
            others = [k for k in range(8) if k != own]
            expected -= float((z[own] @ z[pair] / 0.5) - torch.logsumexp(z[others] @ z[own] / 0.5, 0)) / 2
        assert float(model(views)[i, 0].detach()) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("method", "config", "message"),
    [
        ("denoise", LISTS["peaks"], "tokens = patch, set, packed, found 'peaks'"),
        ("contrast", LISTS["lines"], "found 'lines'"),
        ("masked", ViTConfig(input=(2, 9), tokens="set", position="none", pool="mean", **SMALL), "coordinates"),
        ("masked", ViTConfig(input=(1, 64), patch=(2,), attention="window", window=(4,), **SMALL), "full attention"),
        ("masked", ViTConfig(input=(1, 64), patch=(4,), thresholds=True, **SMALL), "cannot have thresholds"),
    ],
)
def test_what_a_method_is_not_made_for_is_said_in_one_line(method: str, config: ViTConfig, message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        BUILD[method](ViT(config), PretrainConfig(method))
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("wrong", [{"ratio": 0.0}, {"ratio": 1.0}, {"temperature": 0.0}, {"method": "guess"}])
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        PretrainConfig(**wrong)


@pytest.mark.parametrize("name", [*GRIDS, "packed", "lines", "peaks"])
def test_every_weight_learns(name: str) -> None:
    config = (GRIDS | LISTS)[name]
    model = Masked(ViT(config), PretrainConfig(ratio=0.6))
    model(batch(config)[0])[:, 0].mean().backward()
    assert [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None] == []
