"""Where the peers that want torchvision live: a folder of their own, so that the product never sees it.

torchvision has no CPU build that loads beside torch's; what timm and vit-pytorch import of it works once two of its
operators have a schema, which nothing here ever calls. A torchvision that is installed beside torch is used as it is.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import torch

PEERS = Path(__file__).parent.parent.parent / ".peers"
_SCHEMAS = [f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor" for name in ("nms", "qnms")]
_library: torch.library.Library | None = None


def add_peers() -> None:
    """Make timm and vit-pytorch importable where `make setup` has put them."""
    global _library
    if not PEERS.is_dir() or str(PEERS) in sys.path:
        return
    installed = find_spec("torchvision") is not None
    sys.path.append(str(PEERS))
    if installed:  # it defines its operators itself
        return
    _library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        _library.define(schema)
