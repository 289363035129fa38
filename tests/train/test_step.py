"""What a step of training asks of the processor: nothing, or no GPU could record it and replay it."""

from pathlib import Path

import pytest
import torch

from tests.asking import Asked
from tests.recipes import choices, narrow, two_steps
from vitreous.nn.pretraining import PretrainConfig
from vitreous.train import RECIPES, pretrain, train
from vitreous.train.pretrain import pretraining


def test_asking_is_noticed() -> None:
    with Asked() as mode:
        torch.tensor([1.0, 2.0])
        float(torch.ones(1).sum())
        torch.ones(3)[torch.ones(3) > 0]
    assert len(mode.found) == 3


@pytest.mark.parametrize("name", RECIPES)
def test_a_step_of_a_recipe_can_be_recorded(
    name: str, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = narrow(two_steps(name, choices(name)[0], monkeypatch))
    train(made, tmp_path, device="cpu", bar=False)
    assert asked == []


@pytest.mark.parametrize("method", ["masked", "denoise", "contrast"])
def test_a_step_of_pretraining_can_be_recorded(
    method: str, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = narrow(two_steps("digits", {"model": "vit"}, monkeypatch))
    pretrain(pretraining(made, PretrainConfig(method)), tmp_path, device="cpu", bar=False)
    assert asked == []
