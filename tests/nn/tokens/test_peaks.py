"""Peak tokens: known peaks are found between the samples, noise is not, and the transformer takes them as tokens."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import vitreous as vt
from vitreous.core.errors import InputError
from vitreous.nn import ViTConfig
from vitreous.nn.tokens.lines import PeakTokenizer
from vitreous.zoo.weights import load_model, save_model

LENGTH = 1000
PLACES = [61.3, 120.0, 203.5, 341.77, 520.1, 702.45, 705.0 + 40.9, 901.2]
UNIT = -2  # the feature that tells the logarithm of the unit


def peaks(places: list[float], heights: list[float] | None = None, width: float = 2.5) -> Tensor:
    """`(1, 1, LENGTH)` of Gaussian peaks."""
    x = torch.arange(LENGTH, dtype=torch.float64)
    tall = heights or [1.0] * len(places)
    y = sum((h * torch.exp(-0.5 * ((x - p) / width) ** 2) for p, h in zip(places, tall, strict=True)), 0 * x)
    return y.float()[None, None]


def slope() -> Tensor:
    return 0.5 + 0.3 * torch.linspace(1, 0, LENGTH)[None, None] ** 2


def tokenizer(most: int = 16, **settings: Any) -> PeakTokenizer:
    return PeakTokenizer(model(peaks=most, **settings).config)


def model(**settings: Any) -> vt.ViT:
    config: dict[str, Any] = {
        "input": (1, LENGTH), "tokens": "peaks", "peaks": 16, "position": "none", "dim": 16, "depth": 2, "heads": 2,
        "out": 3, **settings,
    }  # fmt: skip
    return vt.ViT(ViTConfig(**config))


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_places_are_found_to_a_tenth_of_a_sample_in_ascending_order(noise: float) -> None:
    heights = [1.0, 0.6, 0.8, 0.5, 1.0, 0.7, 0.6, 0.9]
    signal = peaks(PLACES, heights) + slope() + noise * torch.randn(1, 1, LENGTH)
    _, mask, coords = tokenizer()(signal)
    assert mask is not None
    assert mask.tolist() == [[True] * len(PLACES) + [False] * (16 - len(PLACES))]
    torch.testing.assert_close(coords[mask][:, 0], torch.tensor(PLACES), atol=0.1, rtol=0)


def test_places_are_in_the_units_of_the_axis() -> None:
    _, mask, coords = tokenizer(origin=5.0, spacing=0.02)(peaks(PLACES))
    torch.testing.assert_close(coords[mask][:, 0], 5 + 0.02 * torch.tensor(PLACES), atol=2e-3, rtol=0)


def test_the_first_peaks_are_kept_where_there_are_too_many() -> None:
    _, mask, coords = tokenizer(most=3)(peaks(PLACES))
    assert mask is not None
    assert mask.all()
    torch.testing.assert_close(coords[0, :, 0], torch.tensor(PLACES[:3]), atol=0.1, rtol=0)


@pytest.mark.parametrize("level", [1e-3, 1.0, 1e3])
def test_noise_makes_no_token(level: float) -> None:
    signals = level * (5 + torch.randn(64, 1, LENGTH) + slope())
    mask = tokenizer()(signals).mask
    assert mask is not None
    assert mask.sum() <= 3  # of 64 signals


def test_counts_under_the_root_make_no_token() -> None:
    mask = tokenizer()(torch.poisson(torch.full((64, 1, LENGTH), 20.0)).sqrt()).mask
    assert mask is not None
    assert mask.sum() <= 3


@pytest.mark.parametrize(
    "signal", [torch.zeros(1, 1, LENGTH), torch.full((1, 1, LENGTH), 3.7), torch.linspace(0, 1, LENGTH)[None, None]]
)
def test_a_signal_without_peaks_has_no_token_and_no_nan(signal: Tensor) -> None:
    values, mask, _ = tokenizer()(signal)
    assert mask is not None
    assert not mask.any()
    assert values.isfinite().all()


@pytest.mark.parametrize("sides", [[0.5], [0.25, 0.5, 0.75], [0.0, 1.0, 1.0, 1.0]])
def test_a_peak_with_several_equal_highest_samples_is_one_token(sides: list[float]) -> None:
    signal = torch.zeros(1, 1, LENGTH)
    flank = torch.tensor([*sides, 1.0])
    signal[0, 0, 300 : 300 + 2 * len(flank)] = torch.cat([flank, flank.flip(0)])
    mask = tokenizer()(signal).mask
    assert mask is not None
    assert mask.sum() == 1


@pytest.mark.parametrize("scale", [0.02, 7.0])
def test_features_but_one_do_not_depend_on_the_scale_of_the_axis(scale: float) -> None:
    signal = peaks(PLACES) + slope()
    plain, present, _ = tokenizer().detect(signal)
    scaled, same, _ = tokenizer(spacing=scale).detect(signal)
    assert torch.equal(present, same)
    rest = [i for i in range(plain.shape[-1]) if i != plain.shape[-1] + UNIT]
    torch.testing.assert_close(scaled[..., rest], plain[..., rest], atol=0.02, rtol=0)  # 256 waves of a place
    apart = (scaled - plain)[present][:, UNIT]
    torch.testing.assert_close(apart, torch.tensor(scale).log().expand_as(apart), atol=1e-4, rtol=0)


def test_the_height_of_the_signal_enters_by_its_logarithm_alone() -> None:
    signal = peaks(PLACES) + slope()
    plain, present, place = tokenizer().detect(signal)
    louder, same, again = tokenizer().detect(10 * signal)
    assert torch.equal(present, same)
    torch.testing.assert_close(again, place, atol=1e-3, rtol=0)
    height = plain.shape[-1] - 4
    rest = [i for i in range(plain.shape[-1]) if i != height]
    torch.testing.assert_close(louder[..., rest], plain[..., rest], atol=0.02, rtol=0)
    apart = (louder - plain)[present][:, height]
    torch.testing.assert_close(apart, torch.tensor(10.0).log().expand_as(apart), atol=1e-3, rtol=0)


def test_features_follow_the_places() -> None:
    one, _, _ = tokenizer().detect(peaks([100.0, 250.0, 600.0]))
    other, _, _ = tokenizer().detect(peaks([100.0, 250.5, 600.0]))
    assert (one - other)[0, 1].abs().max() > 0.3  # half a sample in 600
    torch.testing.assert_close(one[0, [0, 2]], other[0, [0, 2]], atol=1e-3, rtol=0)


def test_a_batch_equals_its_signals_one_at_a_time() -> None:
    signals = torch.cat([peaks(PLACES), peaks([300.3]), torch.zeros(1, 1, LENGTH)])
    vit = model().eval()
    together = vit(signals)
    for one, wanted in zip(signals, together, strict=True):
        torch.testing.assert_close(vit(one[None])[0], wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "settings", [{}, {"pool": "mean", "cls": False}, {"pool": "attention", "cls": False}, {"registers": 2}]
)
def test_the_transformer_has_finite_outputs_and_gradients_even_without_peaks(settings: dict[str, Any]) -> None:
    vit = model(**settings)
    out = vit(torch.cat([peaks(PLACES) + slope(), torch.zeros(1, 1, LENGTH)]))
    assert out.shape == (2, 3)
    assert out.isfinite().all()
    out.square().sum().backward()
    for name, parameter in vit.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    assert vit.tokenizer.project.weight.grad.abs().sum() > 0  # type: ignore[union-attr]


def test_attention_is_recorded_and_absent_peaks_are_not_looked_at() -> None:
    vit, signal = model().eval(), peaks(PLACES)
    with torch.no_grad(), vt.record(vit) as seen:
        out = vit(signal)
        assert sorted(seen.attention) == [0, 1]
        for weights in seen.attention.values():
            assert weights.shape == (1, 2, 17, 17)
            assert (weights[..., 1 + len(PLACES) :] == 0).all()
            torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 17))
        assert seen["coords"].shape == (1, 16, 1)
        torch.testing.assert_close(vit(signal), out, atol=1e-5, rtol=0)


def test_the_order_of_tokens_does_not_matter() -> None:
    vit, signal = model().eval(), peaks(PLACES)
    tokens = vit.tokenizer(signal)
    order = torch.randperm(16)
    shuffled = tokens._replace(
        values=tokens.values[:, order], mask=tokens.mask[:, order], coords=tokens.coords[:, order]
    )
    with torch.no_grad():
        wanted = vit(signal)
        vit.tokenizer.forward = lambda *_: shuffled  # type: ignore[method-assign]
        torch.testing.assert_close(vit(signal), wanted, atol=1e-5, rtol=0)


def test_a_saved_model_gives_the_same_outputs(tmp_path: Path) -> None:
    vit, signal = model(spacing=(0.02,), embed_norm=True).eval(), peaks(PLACES)
    save_model(vit, tmp_path)
    again = load_model(tmp_path).eval()
    assert again.config == vit.config
    assert torch.equal(again(signal), vit(signal))


def test_an_exported_model_gives_the_same_outputs() -> None:
    vit = model().eval()
    exported = torch.export.export(vit, (torch.zeros(2, 1, LENGTH),)).module()
    signals = torch.cat([peaks(PLACES), peaks([300.3])])
    torch.testing.assert_close(exported(signals), vit(signals), atol=1e-5, rtol=0)


def test_half_precision_keeps_the_places() -> None:
    signal = peaks(PLACES).bfloat16()  # 3 digits of height, but a place comes from several samples
    values, mask, coords = tokenizer().to(torch.bfloat16)(signal)
    assert values.dtype == torch.bfloat16
    torch.testing.assert_close(coords[mask][:, 0].float(), torch.tensor(PLACES), atol=0.1, rtol=0)


def test_autocast_keeps_the_places() -> None:
    plain = tokenizer()(peaks(PLACES)).coords
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(tokenizer()(peaks(PLACES)).coords, plain)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"input": (2, LENGTH)}, r"input: found \(2, 1000\), peaks need \(1, samples\)"),
        ({"input": (1, 30, 30)}, r"input: found \(1, 30, 30\), peaks need"),
        ({"input": (1, 100)}, "with at least 200 samples"),
        ({"peaks": 0}, "peaks: found 0, expected their largest number"),
        ({"peaks": 1001}, "peaks: found 1001"),
        ({"peaks": -1}, "peaks: found -1, expected at least 0"),
        ({"position": "learned"}, "position: found 'learned'; peaks contain their position, so it must be 'none'"),
        ({"patch": (10,)}, r"patch: found \(10,\), but tokens = 'peaks' does not have this setting"),
        ({"stem": (8,)}, r"stem: found \(8,\), but tokens = 'peaks' does not have this setting"),
        ({"axes": 1}, "axes: found 1, but tokens = 'peaks'"),
        ({"bias": "relative"}, "bias: 'relative' needs a grid"),
        ({"pool": "flatten"}, "pool: 'flatten' needs a fixed order of tokens"),
        ({"score": "location"}, "score: 'location' needs a fixed order of tokens"),
        ({"spacing": (0.0,)}, "spacing: found"),
        ({"spacing": (1.0, 2.0)}, "spacing: found"),
        ({"tokens": "patch", "patch": (10,)}, "peaks: found 16, but tokens = 'patch' does not have this setting"),
    ],
)
def test_settings_that_cannot_be_are_told_in_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        model(**settings)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": torch.zeros(1, 2, LENGTH)}, r"found a batch of shape \(1, 2, 1000\), expected \(batch, 1, 1000\)"),
        ({"x": torch.zeros(1, 1, LENGTH).double()}, "found torch.float64, expected torch.float32 like the model"),
        ({"x": torch.zeros(1, 1, LENGTH), "mask": torch.ones(1, LENGTH, dtype=torch.bool)}, "mask, coords: peaks are"),
        ({"x": torch.zeros(1, 1, LENGTH), "coords": torch.zeros(1, 16, 1)}, "mask, coords: peaks are detected"),
    ],
)
def test_a_wrong_batch_is_told_in_one_line(given: dict[str, Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        tokenizer()(**given)
    assert "\n" not in str(fault.value)
