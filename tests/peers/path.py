"""Where the peers that want torchvision live: a folder of their own, so that the product never sees it.

torchvision has no CPU build that loads beside torch's; what timm and vit-pytorch import of it works once two of its
operators have a schema, which nothing here ever calls.
"""

import sys
from pathlib import Path

import torch

PEERS = Path(__file__).parent.parent.parent / ".peers"
_SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
_library: torch.library.Library | None = None


def add_peers() -> None:
    """Make timm and vit-pytorch importable where `make setup` has put them."""
    global _library
    if not PEERS.is_dir() or str(PEERS) in sys.path:
        return
    sys.path.append(str(PEERS))
    _library = torch.library.Library("torchvision", "FRAGMENT")
    for name, schema in _SCHEMAS.items():
        if not hasattr(torch.ops.torchvision, name):
            _library.define(schema)
