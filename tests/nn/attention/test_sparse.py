"""Attention between some pairs only, beside full attention with the others masked."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import vitreous as vt
from vitreous.nn.attention import Attention
from vitreous.nn.attention.bias import Layout
from vitreous.nn.attention.latent import Latent
from vitreous.nn.attention.lsh import Lsh
from vitreous.nn.attention.sparse import choose_stride
from vitreous.nn.vit import ViT

GRIDS: dict[str, dict[str, Any]] = {
    "line": {"input": (1, 300), "patch": 2, "window": 5},
    "picture": {"input": (2, 24, 20), "patch": 2, "window": (2, 3)},
    "volume": {"input": (1, 8, 8, 8), "patch": 2, "window": (1, 2, 1)},
}
KINDS = ("window", "strided", "lsh", "latent")


def model(kind: str, grid: str = "line", **choices: Any) -> ViT:
    """With weights large enough for attention to matter."""
    settings = {name: value for name, value in GRIDS[grid].items() if kind == "window" or name != "window"}
    torch.manual_seed(0)
    vit = ViT(vt.ViTConfig(**settings, dim=32, heads=4, depth=2, out=3, attention=kind, **choices))
    for parameter in vit.blocks.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    if vit.bias is not None:
        torch.nn.init.normal_(vit.bias.table)
    return vit


def as_kind(vit: ViT, **changes: Any) -> ViT:
    """The same weights under another kind of attention."""
    other = ViT(replace(vit.config, **changes))
    missing = other.load_state_dict(vit.state_dict(), strict=False).missing_keys
    assert all("frames" in name for name in missing)
    return other


def batch(vit: ViT, count: int = 3) -> tuple[Tensor, Tensor]:
    """Samples, and which of them are there: all of the first."""
    x = torch.randn(count, *vit.config.input)
    mask = torch.rand(count, *vit.config.grid) > 0.6
    mask[0] = True
    return x, mask


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "choices", [{}, {"bias": "relative"}, {"bias": "relative", "registers": 2}, {"cls": False, "pool": "mean"}]
)
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_fast_path_is_the_recorded_one(kind: str, grid: str, choices: dict[str, Any], masked: bool) -> None:
    vit = model(kind, grid, **choices)
    x, mask = batch(vit)
    chosen = mask if masked else None
    fast = vit(x, mask=chosen)
    with vt.record(vit) as seen:
        slow = vit(x, mask=chosen)
    torch.testing.assert_close(slow, fast, atol=1e-5, rtol=1e-4)
    parameters = list(vit.parameters())
    slopes = [torch.autograd.grad(out.square().sum(), parameters) for out in (slow, fast)]
    for one, other in zip(*slopes, strict=True):
        assert (one - other).norm() <= 1e-4 * one.norm() + 1e-6
    weights = seen.attention[1]
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    with vt.record(vit, reduce=lambda w: w.mean(1)) as means:
        vit(x, mask=chosen)
    torch.testing.assert_close(means.attention[1], weights.mean(1))


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("bias", ["none", "relative"])
def test_a_window_that_covers_all_is_full_attention(grid: str, bias: str) -> None:
    narrow = model("window", grid, bias=bias)
    shape = narrow.tokenizer.shape
    whole = as_kind(narrow, window=tuple(n - 1 for n in shape))
    full = as_kind(narrow, attention="full", window=())
    x, mask = batch(narrow)
    torch.testing.assert_close(whole(x, mask=mask), full(x, mask=mask), atol=1e-5, rtol=1e-4)
    assert not torch.allclose(narrow(x), full(x), atol=1e-3)


def test_a_token_sees_its_window_and_the_prefix() -> None:
    vit = model("window", registers=1)
    with vt.record(vit) as seen:
        vit(torch.randn(1, 1, 300))
    weights = seen.attention[0][0]  # (heads, 2 + 150, 2 + 150)
    apart = (torch.arange(150)[:, None] - torch.arange(150)).abs()
    assert (weights[:, 2:, 2:][:, apart > 5] == 0).all()
    assert (weights[:, 2:, 2:][:, apart <= 5] > 0).all()
    assert (weights[:, :2] > 0).all()
    assert (weights[:, :, :2] > 0).all()


def test_strides_join_any_two_tokens_in_two_layers() -> None:
    vit = model("strided", cls=False, pool="mean")
    with vt.record(vit) as seen:
        vit(torch.randn(1, 1, 300))
    first, second = (seen.attention[i][0].mean(0) for i in (0, 1))
    assert (first > 0).sum(-1).max() <= 2 * 13
    assert (second @ first > 0).all()


def test_a_row_is_about_the_root_of_all() -> None:
    assert choose_stride((150,)) == 13
    assert choose_stride((12, 10)) == 10
    assert choose_stride((4, 4, 4)) in (4, 16)


def test_more_hashes_come_nearer_to_full_attention() -> None:
    torch.manual_seed(1)
    x = torch.randn(2, 1, 2048)
    long = {"input": (1, 2048), "patch": 2}
    config = vt.ViTConfig(**long, dim=16, heads=2, depth=1, out=8, attention="lsh", hashes=1, pool="mean", cls=False)
    once = ViT(config)
    for name, parameter in once.blocks.named_parameters():
        torch.nn.init.normal_(parameter, std=1.0 if "qkv" in name else 0.3)
    full = as_kind(once, attention="full", hashes=0)(x)
    errors = []
    for hashes in (1, 4, 16):
        vit = ViT(replace(config, hashes=hashes))
        vit.load_state_dict({n: v for n, v in once.state_dict().items() if "frames" not in n}, strict=False)
        errors.append(((vit(x) - full).norm() / full.norm()).item())
    assert errors[0] > 1.5 * errors[1] > 2 * errors[2]


def test_hashes_see_all_where_all_fit_in_one_chunk() -> None:
    vit = model("lsh", "picture")  # 120 tokens
    x, mask = batch(vit)
    torch.testing.assert_close(
        vit(x, mask=mask), as_kind(vit, attention="full", hashes=0)(x, mask=mask), atol=1e-5, rtol=1e-4
    )


def test_more_latents_come_nearer_to_full_attention() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 40, 16)
    full = Attention(16, 2)
    torch.nn.init.normal_(full.qkv.weight, std=0.5)
    wanted = full(x).detach()
    errors = []
    for count in (1, 4, 32):
        latent = Latent(count, Layout(torch.arange(40)[:, None], (40,), 0), 16, 2)
        latent.load_state_dict(full.state_dict(), strict=False)
        optimiser = torch.optim.Adam([latent.latents], lr=0.1)
        for _ in range(100):
            loss = (latent(x) - wanted).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        errors.append(loss.item())
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize("bias", ["none", "relative"])
@pytest.mark.parametrize("kind", ["lsh", "latent"])
def test_what_is_computed_again_for_the_gradient_is_the_same(
    kind: str, bias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vit = model(kind, bias=bias)
    x, mask = batch(vit)

    def gradients() -> list[Tensor]:
        return list(torch.autograd.grad(vit(x, mask=mask).square().sum(), list(vit.parameters())))

    plain = gradients()
    monkeypatch.setattr(Lsh, "recompute_above", 1)
    monkeypatch.setattr(Latent, "chunk_above", 2**10)
    for again, before in zip(gradients(), plain, strict=True):
        torch.testing.assert_close(again, before, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_learns_and_a_lost_sample_does_no_harm(kind: str) -> None:
    vit = model(kind, bias="relative")
    x, mask = batch(vit)
    mask[1] = False
    vit(x, mask=mask).square().sum().backward()
    for name, parameter in vit.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("kind", ["lsh", "latent"])
def test_sets_have_them_too(kind: str) -> None:
    vit = ViT(
        vt.ViTConfig(input=(4, 200), tokens="set", position="none", dim=32, heads=4, depth=1, out=2, attention=kind)
    )
    x, mask = torch.randn(2, 4, 180), torch.rand(2, 180) > 0.3
    changed = x.masked_fill(~mask.unsqueeze(1), 9.0)
    torch.testing.assert_close(vit(x, mask=mask), vit(changed, mask=mask))
    order = torch.randperm(180)
    if kind == "latent":
        torch.testing.assert_close(vit(x[..., order], mask=mask[:, order]), vit(x, mask=mask), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("count", [40, 70, 150, 300])
@pytest.mark.parametrize("kind", ["lsh", "latent"])
def test_what_is_absent_changes_nothing(kind: str, count: int) -> None:
    """Neither before nor after what is there, nor among it."""
    torch.manual_seed(count)
    vit = ViT(vt.ViTConfig(input=(4, 400), tokens="set", position="none", dim=32, heads=4, depth=2, attention=kind))
    for parameter in vit.blocks.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    x = torch.randn(2, 4, count)
    alone = vit(x)
    for places in (torch.arange(count), torch.arange(400 - count, 400), torch.randperm(400)[:count].sort().values):
        padded, mask = torch.randn(2, 4, 400), torch.zeros(2, 400, dtype=torch.bool)
        padded[..., places], mask[:, places] = x, True
        torch.testing.assert_close(vit(padded, mask=mask), alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_other_kinds_of_numbers_and_no_elements_at_all(
    kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    vit, x = model(kind).to(dtype), torch.randn(2, 1, 300, dtype=dtype)
    assert vit(x).dtype == dtype
    with monkeypatch.context() as patch:  # in parts that are computed again
        patch.setattr(Lsh, "recompute_above", 1)
        patch.setattr(Latent, "chunk_above", 2**10)
        out = vit(x)
        assert out.dtype == dtype
        assert all(slope.isfinite().all() for slope in torch.autograd.grad(out.sum(), list(vit.parameters())))
    if kind in ("lsh", "latent"):
        some = vt.ViTConfig(input=(4, 200), tokens="set", position="none", dim=32, heads=4, depth=1, attention=kind)
        assert ViT(some).to(dtype)(torch.randn(2, 4, 0, dtype=dtype)).isfinite().all()


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"attention": "window", "window": 450}, "use attention = 'full'"),
        ({"attention": "window"}, "window"),
        ({"window": 3}, "attention = 'full' does not have this setting"),
        ({"attention": "latent", "hashes": 3}, "attention = 'latent' does not have this setting"),
        ({"attention": "lsh", "score": "additive"}, "takes dot products"),
        ({"attention": "sparse"}, "latent"),
        ({"attention": "window", "window": (3, 3)}, "one number for each axis"),
    ],
)
def test_what_does_not_fit_is_told_in_one_line(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(vt.InputError, match=message) as error:
        vt.ViTConfig(input=(1, 4500), patch=10, **choices)
    assert "\n" not in str(error.value)


def test_a_set_has_no_window_and_a_pairwise_bias_wants_all_pairs() -> None:
    with pytest.raises(vt.InputError, match="needs a grid"):
        vt.ViTConfig(input=(4, 20), tokens="set", position="none", attention="window", window=3)
    vit = ViT(vt.ViTConfig(input=(4, 20), tokens="set", position="none", dim=16, heads=2, depth=1, attention="lsh"))
    with pytest.raises(vt.InputError, match="pairwise"):
        vit(torch.randn(1, 4, 20), pairwise=torch.zeros(1, 1, 20, 20))
