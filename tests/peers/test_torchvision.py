"""Equal to torchvision: ResNet-18 and ResNet-50 with the same weights give the same logits."""

from typing import Any

import pytest
import torch
from torch import nn

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
