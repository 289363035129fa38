"""What is compiled for one training serves the next of its make, and is out of the way of others."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from vitreous.train import Experiment, train
from vitreous.train.recipes.digits import digits

MANY = 10  # trainings: torch itself keeps what is compiled for eight


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the batches that programs were made for; None is a size that may be any."""
    found: list[tuple[Any, ...]] = []

    def note(graph: torch.fx.GraphModule, given: list[Any]) -> Callable[..., Any]:
        batches = [x for x in given if isinstance(x, torch.Tensor) and x.dim() == 4 and not x.requires_grad]
        found.extend(tuple(n if isinstance(n, int) else None for n in x.shape) for x in batches)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=note))
    torch.compiler.reset()
    return found


def short(seed: int, precision: str, batch: int = 8) -> Experiment:
    """Two steps."""
    made = digits()
    settings = replace(
        made.train, steps=2, batch=batch, seed=seed, compile="on", precision=precision, evaluate_every=2
    )  # fmt: skip
    return replace(made, model=replace(made.model, depth=1), train=settings)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_one_program_serves_all_trainings_of_a_make(
    precision: str, programs: list[tuple[int, ...]], tmp_path: Path
) -> None:
    for seed in range(MANY):
        train(short(seed, precision), tmp_path / str(seed), device="cpu", bar=False)
    assert programs == [(8, 1, 8, 8)]


def test_each_other_make_has_a_program_of_its_own(programs: list[tuple[int, ...]], tmp_path: Path) -> None:
    sizes = range(4, 4 + MANY)
    for batch in sizes:
        train(short(0, "bfloat16", batch), tmp_path / str(batch), device="cpu", bar=False)
    assert programs == [(batch, 1, 8, 8) for batch in sizes]
