"""What a step of training asks of the processor: nothing, or no GPU could record it and replay it."""

from pathlib import Path

import pytest
import torch

from tests.cuda_graphs import SynchronizingOps
from tests.recipes import SUPERVISED, choices, narrow, two_steps
from vitreous.nn.pretraining import PretrainConfig
from vitreous.train import pretrain_job, train


def test_synchronizing_operations_are_detected() -> None:
    with SynchronizingOps() as mode:
        torch.tensor([1.0, 2.0])
        float(torch.ones(1).sum())
        torch.ones(3)[torch.ones(3) > 0]
    assert len(mode.names) == 3


@pytest.mark.parametrize("name", SUPERVISED)
def test_a_step_of_a_recipe_can_be_recorded(name: str, asked: list[str], tmp_path: Path) -> None:
    job = narrow(two_steps(name, choices(name)[0]))
    train(job, tmp_path, device="cpu", bar=False)
    assert asked == []


@pytest.mark.parametrize("method", ["masked", "denoise", "contrast"])
def test_a_step_of_pretraining_can_be_recorded(method: str, asked: list[str], tmp_path: Path) -> None:
    job = narrow(two_steps("digits", {"model": "vit"}))
    train(pretrain_job(job, PretrainConfig(method)), tmp_path, device="cpu", bar=False)
    assert asked == []
