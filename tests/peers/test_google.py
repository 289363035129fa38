"""Google's `.npz` checkpoints: we read what timm's own reader makes of them."""

from pathlib import Path

import numpy as np
import pytest
import torch

import vitreous as vt

timm = pytest.importorskip("timm", reason="the peers are not installed: make setup")

D, HEADS, DEPTH, PATCH, CLASSES = 192, 3, 2, 16, 10


def google_checkpoint(side: int) -> dict[str, np.ndarray]:
    """Random weights of a ViT-Ti in the layout of the original release."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.1, shape).astype(np.float32)

    d, n = D // HEADS, (side // PATCH) ** 2
    arrays = {
        "embedding/kernel": draw(PATCH, PATCH, 3, D),
        "embedding/bias": draw(D),
        "cls": draw(1, 1, D),
        "Transformer/posembed_input/pos_embedding": draw(1, 1 + n, D),
        "Transformer/encoder_norm/scale": 1 + draw(D),
        "Transformer/encoder_norm/bias": draw(D),
        "head/kernel": draw(D, CLASSES),
        "head/bias": draw(CLASSES),
    }
    for i in range(DEPTH):
        block = f"Transformer/encoderblock_{i}"
        for norm in ("LayerNorm_0", "LayerNorm_2"):
            arrays |= {f"{block}/{norm}/scale": 1 + draw(D), f"{block}/{norm}/bias": draw(D)}
        for part in ("query", "key", "value"):
            name = f"{block}/MultiHeadDotProductAttention_1/{part}"
            arrays |= {f"{name}/kernel": draw(D, HEADS, d), f"{name}/bias": draw(HEADS, d)}
        name = f"{block}/MultiHeadDotProductAttention_1/out"
        arrays |= {f"{name}/kernel": draw(HEADS, d, D), f"{name}/bias": draw(D)}
        name = f"{block}/MlpBlock_3"
        arrays |= {f"{name}/Dense_0/kernel": draw(D, 4 * D), f"{name}/Dense_0/bias": draw(4 * D)}
        arrays |= {f"{name}/Dense_1/kernel": draw(4 * D, D), f"{name}/Dense_1/bias": draw(D)}
    return arrays


@pytest.mark.parametrize("prefix", ["", "opt/target/"])
def test_npz_equals_timms_reading_of_it(prefix: str, tmp_path: Path) -> None:
    path = tmp_path / "vit.npz"
    np.savez(path, **{prefix + name: value for name, value in google_checkpoint(64).items()})
    settings = {"depth": DEPTH}
    peer = timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=CLASSES, **settings).eval()
    peer.load_pretrained(str(path))
    ours = vt.create_model("vit_tiny_patch16_224", weights=path, input=(3, 64, 64), out=CLASSES, **settings).eval()
    x = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(ours(x), peer(x), atol=1e-5, rtol=1e-5)


def test_npz_is_adapted_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "vit.npz"
    arrays = google_checkpoint(64) | {"pre_logits/kernel": np.zeros((D, D), np.float32)}
    np.savez(path, **arrays)
    model = vt.create_model("vit_tiny_patch16_224", depth=DEPTH, input=(1, 28, 28), patch=4, out=3)
    assert vt.load_weights(model, path, verbose=False) == [
        "pre_logits omitted: the model has none",
        "first layer: 3 channels -> 1",
        "first layer: patch 16×16 -> 4×4",
        "positions: grid 4×4 -> 7×7",
        "head: 192 → 10 -> 192 → 3, newly initialised",
    ]
