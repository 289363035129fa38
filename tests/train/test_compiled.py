"""What is compiled for one training serves the next of its make, and is out of the way of others."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from vitreous.nn.kernels.linear import Linear
from vitreous.recipes import load_recipe
from vitreous.train import Classification, SupervisedJob, train

MANY = 10  # trainings: torch itself keeps what is compiled for eight


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the batches that programs were job for."""
    found: list[tuple[int, ...]] = []

    def note(graph: torch.fx.GraphModule, given: list[Any]) -> Callable[..., Any]:
        batches = [x for x in given if isinstance(x, torch.Tensor) and x.dim() == 4 and not x.requires_grad]
        found.extend(tuple(x.shape) for x in batches)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=note))
    torch.compiler.reset()
    return found


def short(seed: int, precision: str, batch: int = 8) -> SupervisedJob:
    """Two steps."""
    job = load_recipe("digits").create()
    settings = replace(
        job.settings, steps=2, batch=batch, seed=seed, compile="on", precision=precision, evaluate_every=2
    )  # fmt: skip
    return replace(job, config=replace(job.config, depth=1), settings=settings)


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


def test_makes_that_look_alike_are_told_apart(programs: list[tuple[int, ...]], tmp_path: Path) -> None:
    job = short(0, "float32")
    for number in range(MANY):
        other = replace(job, config=replace(job.config, attention_dropout=number / 20))
        train(other, tmp_path / str(number), device="cpu", bar=False)
    assert len(programs) == MANY
    for parts in (2, 4):
        other = replace(job, settings=replace(job.settings, accumulate=parts))
        train(other, tmp_path / f"parts{parts}", device="cpu", bar=False)
    assert programs[MANY:] == [(4, 1, 8, 8), (2, 1, 8, 8)]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_products_have_the_precision_of_the_training_and_answers_are_in_float32(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = short(0, precision)
    job = replace(job, settings=replace(job.settings, compile="off", evaluate_every=1))
    products: dict[bool, set[torch.dtype]] = {True: set(), False: set()}
    losses: set[torch.dtype] = set()
    multiply, cost = Linear.forward, Classification.loss

    def noted(layer: Linear, x: torch.Tensor, learns: bool = True) -> torch.Tensor:
        out = multiply(layer, x, learns)
        products[torch.is_grad_enabled()].add(out.dtype)
        return out

    def counted(task: Classification, out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        losses.add(out.dtype)
        return cost(task, out, y)

    monkeypatch.setattr(Linear, "forward", noted)
    monkeypatch.setattr(Classification, "loss", counted)
    train(job, tmp_path / "run", device="cpu", bar=False)
    expected = getattr(torch, precision)
    assert products[True] == {expected}
    assert products[False] == {expected, torch.float32}  # the last evaluation is of the weights that were kept
    assert losses == {torch.float32}
