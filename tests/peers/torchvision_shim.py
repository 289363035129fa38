"""Lets timm import torchvision beside a CPU torch, where torchvision's compiled operators cannot load.

torchvision only asks that two operators have a schema; nothing here calls them.
"""

import torch

_SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
_library: torch.library.Library | None = None


def install() -> None:
    """Define the operators unless torchvision's own library has."""
    global _library
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):
        _library = torch.library.Library("torchvision", "FRAGMENT")
        for name, schema in _SCHEMAS.items():
            if not hasattr(torch.ops.torchvision, name):
                _library.define(schema)
