"""Equal to transformers' ViT: logits and gradients, and both generations of its names."""

from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

import vitreous as vt

transformers = pytest.importorskip("transformers", reason="the peers are not installed: make setup")

SETTINGS = {"input": (3, 64, 48), "patch": 16, "out": 10, "dim": 48, "depth": 3, "heads": 4, "eps": 1e-12}
OLD_NAMES = {
    "attention.q_proj": "attention.attention.query",
    "attention.k_proj": "attention.attention.key",
    "attention.v_proj": "attention.attention.value",
    "attention.o_proj": "attention.output.dense",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
    "vit.layers.": "vit.encoder.layer.",
}


@pytest.fixture
def peer() -> nn.Module:
    config = transformers.ViTConfig(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=192, image_size=(64, 48),
        patch_size=16, num_labels=10,
    )  # fmt: skip
    model: nn.Module = transformers.ViTForImageClassification(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.1)
    return model


def load(state: dict[str, torch.Tensor], tmp_path: Path) -> vt.ViT:
    safetensors.torch.save_file(state, tmp_path / "model.safetensors")
    ours = vt.ViT(vt.ViTConfig(**SETTINGS)).eval()  # type: ignore[arg-type]
    assert vt.load_weights(ours, tmp_path / "model.safetensors", verbose=False) == []
    return ours


def test_logits_and_gradients_equal_transformers(peer: nn.Module, tmp_path: Path) -> None:
    ours = load(peer.state_dict(), tmp_path)
    x = torch.randn(2, 3, 64, 48)
    theirs_x, ours_x = x.clone().requires_grad_(), x.clone().requires_grad_()
    wanted, out = peer(theirs_x).logits, ours(ours_x)
    torch.testing.assert_close(out, wanted, atol=1e-5, rtol=1e-5)
    wanted.square().sum().backward()
    out.square().sum().backward()
    torch.testing.assert_close(ours_x.grad, theirs_x.grad, atol=1e-4, rtol=1e-4)
    table = ours.get_parameter("position.table").grad
    torch.testing.assert_close(table, peer.vit.embeddings.position_embeddings.grad, atol=1e-4, rtol=1e-4)
    queries = ours.get_parameter("blocks.0.attention.qkv.weight").grad
    assert queries is not None
    torch.testing.assert_close(queries[:48], peer.vit.layers[0].attention.q_proj.weight.grad, atol=1e-4, rtol=1e-4)


def test_a_full_size_model_equals_transformers(tmp_path: Path) -> None:
    peer = transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=7)).eval()
    safetensors.torch.save_file(peer.state_dict(), tmp_path / "model.safetensors")
    ours = vt.create_model("vit_base_patch16_224", weights=tmp_path / "model.safetensors", out=7, eps=1e-12).eval()
    x = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), peer(x).logits, atol=1e-5, rtol=1e-5)


def test_files_with_the_older_names_load_too(peer: nn.Module, tmp_path: Path) -> None:
    state = {}
    for key, value in peer.state_dict().items():
        for new, old in OLD_NAMES.items():
            key = key.replace(new, old)
        state[key] = value
    x = torch.randn(2, 3, 64, 48)
    torch.testing.assert_close(load(state, tmp_path)(x), peer(x).logits, atol=1e-5, rtol=1e-5)


def test_a_bare_encoder_with_a_pooler_loads_with_a_new_head(peer: nn.Module, tmp_path: Path) -> None:
    bare = transformers.ViTModel(peer.config)
    safetensors.torch.save_file(bare.state_dict(), tmp_path / "model.safetensors")
    ours = vt.ViT(vt.ViTConfig(**SETTINGS)).eval()  # type: ignore[arg-type]
    assert vt.load_weights(ours, tmp_path / "model.safetensors", verbose=False) == [
        "pooler omitted: the model has none",
        "head: none -> 48 → 10, newly initialised",
    ]


def test_another_eps_is_told(peer: nn.Module, tmp_path: Path) -> None:
    safetensors.torch.save_file(peer.state_dict(), tmp_path / "model.safetensors")
    ours = vt.ViT(vt.ViTConfig(**SETTINGS | {"eps": 1e-6}))  # type: ignore[arg-type]
    assert vt.load_weights(ours, tmp_path / "model.safetensors", verbose=False) == [
        "layer norms: trained with eps=1e-12, this model has 1e-06"
    ]
