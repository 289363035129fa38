"""Equal to timm: logits, gradients, round trip, resampling and channel adaptation."""

from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import vitreous as vt
from vitreous.nn import resample
from vitreous.zoo.adapt import adapt_kernel
from vitreous.zoo.layouts import to_timm

timm = pytest.importorskip("timm", reason="the peers are not installed: make setup")


def pair(tmp_path: Path, name: str, size: int, **theirs: object) -> tuple[nn.Module, vt.ViT]:
    """timm's model with random weights, norms and biases included, and ours with the same."""
    peer = timm.create_model(name, img_size=size, num_classes=10, **theirs).eval()
    for parameter in peer.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.1)
    safetensors.torch.save_file(peer.state_dict(), tmp_path / "peer.safetensors")
    ours = vt.create_model(name, weights=tmp_path / "peer.safetensors", input=(3, size, size), out=10)
    return peer, ours.eval()


@pytest.mark.parametrize("size", [224, 160])
@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "vit_small_patch16_224", "vit_base_patch16_224"])
def test_logits_and_gradients_equal_timms(name: str, size: int, tmp_path: Path) -> None:
    peer, ours = pair(tmp_path, name, size)
    x = torch.randn(2, 3, size, size)
    out, wanted = ours(x), peer(x)
    torch.testing.assert_close(out, wanted, atol=1e-5, rtol=1e-5)

    weight = torch.randn_like(out)
    (out * weight).sum().backward()
    (wanted * weight).sum().backward()
    gradients = {name: p.grad for name, p in ours.named_parameters()}
    ours.load_state_dict({name: g for name, g in gradients.items() if g is not None})  # gradients under timm's names
    for name, gradient in to_timm(ours).items():
        theirs = peer.get_parameter(name).grad
        assert theirs is not None
        scale = theirs.abs().max().clamp(min=1.0)
        torch.testing.assert_close(gradient / scale, theirs / scale, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "settings", [{}, {"reg_tokens": 4}, {"qk_norm": True}, {"init_values": 0.1}, {"qk_norm": True, "init_values": 0.1}]
)
def test_a_round_trip_is_exact(settings: dict[str, object], tmp_path: Path) -> None:
    peer = timm.create_model("vit_tiny_patch16_224", depth=2, **settings).eval()
    safetensors.torch.save_file(peer.state_dict(), tmp_path / "peer.safetensors")
    ours = vt.create_model(
        "vit_tiny_patch16_224",
        weights=tmp_path / "peer.safetensors",
        depth=2,
        registers=settings.get("reg_tokens", 0),
        qk_norm=settings.get("qk_norm", False),
        layer_scale=settings.get("init_values", 0.0),
    ).eval()
    vt.save_weights(ours, tmp_path / "back.safetensors", layout="timm")
    back = safetensors.torch.load_file(tmp_path / "back.safetensors")
    state = peer.state_dict()
    assert back.keys() == state.keys()
    assert all(torch.equal(back[key], state[key]) for key in state)
    x = torch.randn(1, 3, 224, 224)
    torch.testing.assert_close(ours(x), peer(x), atol=1e-5, rtol=1e-5)


def test_registers_without_positions_equal_timms(tmp_path: Path) -> None:
    """timm's register models give positions to the patches alone."""
    peer = timm.create_model("vit_tiny_patch16_224", depth=2, reg_tokens=4, no_embed_class=True).eval()
    safetensors.torch.save_file(peer.state_dict(), tmp_path / "peer.safetensors")
    ours = vt.create_model("vit_tiny_patch16_224", weights=tmp_path / "peer.safetensors", depth=2, registers=4).eval()
    x = torch.randn(1, 3, 224, 224)
    torch.testing.assert_close(ours(x), peer(x), atol=1e-5, rtol=1e-5)


def test_timm_loads_what_we_write(tmp_path: Path) -> None:
    ours = vt.create_model("vit_tiny_patch16_224", depth=2, out=10).eval()
    vt.save_weights(ours, tmp_path / "ours.safetensors", layout="timm")
    peer = timm.create_model(
        "vit_tiny_patch16_224", depth=2, num_classes=10, checkpoint_path=tmp_path / "ours.safetensors"
    ).eval()
    x = torch.randn(1, 3, 224, 224)
    torch.testing.assert_close(peer(x), ours(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("new", [(10, 10), (20, 7), (28, 28)])
def test_positions_are_resampled_as_timm_does(new: tuple[int, int]) -> None:
    from timm.layers import resample_abs_pos_embed

    table = torch.randn(1, 197, 32)
    wanted = resample_abs_pos_embed(table, list(new), num_prefix_tokens=1)
    torch.testing.assert_close(resample(table, (14, 14), new, prefix=1), wanted)


@pytest.mark.parametrize("patch", [(8, 8), (32, 32), (7, 12)])
def test_patch_kernels_are_resampled_as_timm_does(patch: tuple[int, int]) -> None:
    from timm.layers.patch_embed import resample_patch_embed

    kernel = torch.randn(5, 3, 16, 16)
    wanted: Tensor = resample_patch_embed(kernel, list(patch))
    torch.testing.assert_close(adapt_kernel(kernel, (5, 3, *patch), []), wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("channels", [1, 2, 4, 7])
def test_channels_are_adapted_as_timm_does(channels: int) -> None:
    from timm.models import adapt_input_conv

    kernel = torch.randn(5, 3, 4, 4)
    torch.testing.assert_close(adapt_kernel(kernel, (5, channels, 4, 4), []), adapt_input_conv(channels, kernel))


def test_the_exercise_of_the_course_project(tmp_path: Path) -> None:
    """S1.6: ViT-S, its ImageNet weights, on 28×28 grey images of 10 classes; equal to what timm makes of them."""
    source = timm.create_model("vit_small_patch16_224", depth=2)
    safetensors.torch.save_file(source.state_dict(), tmp_path / "imagenet.safetensors")
    peer = timm.create_model(
        "vit_small_patch16_224",
        depth=2,
        img_size=32,
        in_chans=1,
        pretrained=True,
        num_classes=0,
        pretrained_cfg_overlay={"file": str(tmp_path / "imagenet.safetensors"), "custom_load": False},
    ).eval()
    ours = vt.create_model(
        "vit_small_patch16_224", weights=tmp_path / "imagenet.safetensors", depth=2, input=(1, 28, 28), out=0
    ).eval()
    x = torch.randn(2, 1, 28, 28)
    padded = nn.functional.pad(x, (0, 4, 0, 4))  # timm takes whole patches only
    torch.testing.assert_close(ours(x), peer(padded), atol=1e-5, rtol=1e-5)
