"""Execution options change how a model runs, and context managers restore them."""

import pytest
import torch

import vitreous as vt
from vitreous.nn import CNN, CNNConfig, executing


def small() -> vt.ViT:
    return vt.ViT(vt.ViTConfig(input=(1, 40), patch=(4,), dim=24, depth=2, heads=2, out=3)).eval()


def test_options_are_restored_after_an_error() -> None:
    model = small()
    with pytest.raises(RuntimeError), vt.record(model), vt.merged(model, 2):
        raise RuntimeError
    assert model.execution == vt.ViT.execution


def test_a_block_restores_only_the_options_that_it_changed() -> None:
    model = small()
    with executing(model, stream=torch.bfloat16):
        model.set_execution(checkpointing=True)
    assert model.execution.checkpointing
    assert model.execution.stream is None


def test_checkpointing_gives_the_same_gradients() -> None:
    model, x = small().train(), torch.randn(2, 1, 40)
    model(x).sum().backward()
    plain = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    model.set_execution(checkpointing=True)
    model(x).sum().backward()
    for before, parameter in zip(plain, model.parameters(), strict=True):
        assert torch.equal(before, parameter.grad)  # type: ignore[arg-type]


def test_models_state_their_capabilities() -> None:
    cnn = CNN(CNNConfig(input=(1, 40)))
    assert (cnn.attends, cnn.records, cnn.reduces) == (False, False, False)
    assert (small().attends, small().records, small().reduces) == (True, True, True)
    alone = vt.ViT(vt.ViTConfig(input=(1, 40), patch=(4,), attention="none", pool="mean", cls=False))
    assert (alone.attends, alone.records, alone.reduces) == (False, True, False)
