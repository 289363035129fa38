"""The same model in other libraries: timm, transformers and vit-pytorch, where they are installed."""

from importlib import import_module
from typing import Any

from torch import Tensor, nn

from vitreous.core.errors import first_line
from vitreous.nn import ViTConfig
from vitreous.nn.models import Config
from vitreous.nn.models import build as build_ours

OURS = "vitreous"
_FREE = ("input", "patch", "out", "dim", "depth", "heads", "mlp", "head", "position", "origin", "spacing", "eps")
_DROPPED = ("dropout", "attention_dropout", "drop_path")  # only used in training
_POOLED = ("cls", "mean")  # same cost


def build(library: str, config: Config) -> nn.Module:
    """Build a configuration in one of the libraries; all models take `(B, channels, *grid)`.

    Peers have a linear head. They are built by shape; for a name of timm this gives timm's model of that name.
    """
    if library == OURS:
        return build_ours(config)
    assert isinstance(config, ViTConfig)
    return PEERS[library](config)


def build_all(config: Config, train: bool) -> tuple[dict[str, nn.Module], dict[str, str]]:
    """Our model and those of the peers, and the reason for each peer that has none, e.g. not installed."""
    models, notes = {OURS: build(OURS, config)}, dict[str, str]()
    odd = _differences(config, train) if isinstance(config, ViTConfig) else ["CNN"]
    for library in PEERS:
        if odd:
            notes[library] = f"has no such model ({', '.join(odd)})"
            continue
        try:
            models[library] = build(library, config)
        except ModuleNotFoundError as fault:
            missing = (fault.name or "").partition(".")[0] == library.replace("-", "_")
            notes[library] = "not installed" if missing else f"does not work here ({fault})"
        except Exception as fault:  # other versions and broken installations can raise anything
            notes[library] = f"does not work here ({first_line(fault)})"
    return models, notes


def _differences(config: ViTConfig, train: bool) -> list[str]:
    """Fields in which a configuration differs from a plain Vision Transformer in one or two dimensions."""
    if config.tokens != "patch":
        return ["tokens"]
    free = [*_FREE, *(() if train else _DROPPED), *(["pool"] if config.pool in _POOLED else [])]
    plain = ViTConfig(**{name: getattr(config, name) for name in free})
    odd = [name for name, value in config.to_dict().items() if value != getattr(plain, name)]
    whole = all(g % p == 0 for g, p in zip(config.grid, config.patch, strict=True))
    odd += [] if whole and len(config.grid) < 3 else ["input"]
    return odd + [name for name, right in (("mlp", len(config.mlp) == 1), ("out", config.out > 0)) if not right]


class _AsImage(nn.Module):
    """Pass a spectrum as an image of height one to a library that only takes images."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        out = self.model(x.unsqueeze(2) if x.dim() == 3 else x)  # (B, C, L) -> (B, C, 1, L)
        logits: Tensor = out if isinstance(out, Tensor) else out.logits
        return logits


def _image_shape(c: ViTConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (c.grid, c.patch) if len(c.grid) == 2 else ((1, *c.grid), (1, *c.patch))


def _timm(c: ViTConfig) -> nn.Module:
    size, patch = _image_shape(c)
    make = import_module("timm.models.vision_transformer").VisionTransformer
    return _AsImage(make(
        img_size=size, patch_size=patch, in_chans=c.input[0], num_classes=c.out, embed_dim=c.dim, depth=c.depth,
        num_heads=c.heads, mlp_ratio=c.mlp[0],
    ))  # fmt: skip


def _transformers(c: ViTConfig) -> nn.Module:
    size, patch = _image_shape(c)
    library = import_module("transformers")
    return _AsImage(library.ViTForImageClassification(library.ViTConfig(
        image_size=size, patch_size=patch, num_channels=c.input[0], num_labels=c.out, hidden_size=c.dim,
        num_hidden_layers=c.depth, num_attention_heads=c.heads, intermediate_size=round(c.dim * c.mlp[0]),
    )))  # fmt: skip


def _vit_pytorch(c: ViTConfig) -> nn.Module:
    shape: dict[str, Any] = {
        "num_classes": c.out, "dim": c.dim, "depth": c.depth, "heads": c.heads, "mlp_dim": round(c.dim * c.mlp[0]),
        "channels": c.input[0], "dim_head": c.dim // c.heads,
    }  # fmt: skip
    if len(c.grid) == 1:
        line: nn.Module = import_module("vit_pytorch.vit_1d").ViT(seq_len=c.grid[0], patch_size=c.patch[0], **shape)
        return line
    image: nn.Module = import_module("vit_pytorch").ViT(image_size=c.grid, patch_size=c.patch, **shape)
    return image


PEERS = {"timm": _timm, "transformers": _transformers, "vit-pytorch": _vit_pytorch}
"""Builders by library."""
