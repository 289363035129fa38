"""Equal to torchvision: ResNet-18 and ResNet-50 with the same weights give the same logits."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.peers.path import PEERS
from tests.users import python
from vitreous.nn import CNN, CNNConfig

models = pytest.importorskip("torchvision.models", reason="the peers are not installed: make setup")

SETTINGS: dict[str, dict[str, Any]] = {
    "resnet18": {"blocks": (2, 2, 2, 2)},
    "resnet50": {"blocks": (3, 4, 6, 3), "block": "bottleneck"},
}


@torch.no_grad()
@pytest.mark.parametrize("name", SETTINGS)
def test_logits_equal_torchvisions(name: str) -> None:
    torch.manual_seed(0)
    peer = getattr(models, name)(num_classes=10).eval()
    for part in peer.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(std=0.1)
            part.running_var.uniform_(0.5, 2.0)
    widths = (64, 128, 256, 512)
    ours = CNN(CNNConfig(input=(3, 64, 48), out=10, widths=widths, stem="large", **SETTINGS[name])).eval()
    ours.load_state_dict(dict(zip(ours.state_dict(), peer.state_dict().values(), strict=True)))  # in the same order
    x = torch.randn(2, 3, 64, 48)
    torch.testing.assert_close(ours(x), peer(x), atol=1e-4, rtol=1e-4)


@pytest.mark.skipif(not PEERS.is_dir(), reason="the peers are not installed: make setup")
def test_a_torchvision_that_is_installed_is_used_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "torchvision").mkdir()
    defines = "library.define('nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor')"
    (tmp_path / "torchvision/__init__.py").write_text(
        f"import torch\nlibrary = torch.library.Library('torchvision', 'DEF')\n{defines}\n"
    )
    code = "from tests.peers.path import add_peers; add_peers(); import torchvision; print(torchvision.__file__)"
    assert python(code, PYTHONPATH=os.pathsep.join([str(tmp_path), os.getcwd()])).strip().startswith(str(tmp_path))
