"""The peers that `vitreous bench` races are the same models: as many outputs, parameters and operations as ours.

But for what nothing reads of the last block, which they compute where the class token is pooled, and we do not.
"""

from dataclasses import replace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import vitreous as vt
from vitreous.bench.peers import PEERS, build
from vitreous.zoo.cost import count_flops, example_inputs

timm = pytest.importorskip("timm", reason="the peers are not installed: make setup")
LINE = vt.ViTConfig(input=(2, 300), patch=(10,), out=6, dim=96, depth=2, heads=4)


@pytest.mark.parametrize("config", [LINE, vt.zoo.model_config("vit_mini_patch4_28", depth=2)], ids=["line", "image"])
@pytest.mark.parametrize("library", PEERS)
def test_a_peer_does_the_same_work(library: str, config: vt.ViTConfig) -> None:
    theirs, ours = build(library, config).eval(), vt.ViT(config)
    counter = FlopCounterMode(display=False)
    with counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        out = theirs(*example_inputs(config, 1))
    assert out.shape == (1, config.out)
    assert counter.get_total_flops() == pytest.approx(count_flops(replace(config, pool="mean")), rel=0.01)
    count = [sum(p.numel() for p in model.parameters()) for model in (theirs, ours)]
    assert count[0] == pytest.approx(count[1], rel=0.01)


def test_timm_is_built_as_by_its_own_name() -> None:
    with torch.device("meta"):
        ours = build("timm", vt.zoo.model_config("vit_small_patch16_224"))
        named = timm.create_model("vit_small_patch16_224")
    shapes = [{name: p.shape for name, p in model.named_parameters()} for model in (named, ours.model)]
    assert shapes[0] == shapes[1]
