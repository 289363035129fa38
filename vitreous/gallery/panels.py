"""What the figures of several entries need: a run's answers, and panels of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vitreous.insight.attention import attends, attention_maps, transformer
from vitreous.insight.behaviour import draw_parity
from vitreous.insight.units import model_input
from vitreous.prediction import Prediction
from vitreous.train.answers import Answers, read_answers
from vitreous.train.predictor import Predictor, load
from vitreous.train.task import Regression

COVERAGE = 0.9
_INTERVALS = 150  # that a panel draws


def opened(run: Path) -> tuple[Predictor, Answers]:
    """A run and what it said of its test part."""
    predictor, answers = load(run), read_answers(run)
    assert answers is not None
    return predictor, answers


def coverage(predictor: Predictor) -> float | None:
    """Of the intervals that a run gives, if it gives any."""
    task = predictor.task
    return COVERAGE if isinstance(task, Regression) and task.bounds(COVERAGE) else None


def answered(predictor: Predictor, answers: Answers) -> Prediction:
    """What a run said of its test part, with intervals where it has them."""
    return predictor.answer(torch.from_numpy(answers.out), coverage(predictor))


def looks_at(
    predictor: Predictor, samples: NDArray[Any], layers: Sequence[int] | None = None
) -> NDArray[np.float64] | None:
    """The attention on each element of packed sets, `(n, elements)`, mean of the layers and of all heads.

    It is 1 where it is even on all elements that there are; None for a model without attention.
    """
    if not attends(predictor.model):
        return None
    there = (samples != 0).any(1)
    maps = attention_maps(transformer(predictor), model_input(predictor, samples), layers).mean((1, 2)) * there
    relative: NDArray[np.float64] = maps * there.sum(1, keepdims=True) / maps.sum(1, keepdims=True)
    return relative


def parity(axes: Any, answer: Prediction, truth: NDArray[Any], target: int) -> None:
    """One target against its truth `(n, targets)`, with intervals, if there are, and how many hold the truth."""
    assert answer.values is not None
    label, true = answer.targets[target].label, truth[:, target]
    draw_parity(axes, answer.values[:, target], true, label)
    if answer.lower is None or answer.upper is None:
        return
    low, high = answer.lower[:, target], answer.upper[:, target]
    held = (low <= true) & (true <= high)
    limits = axes.get_ylim()  # a few very long intervals must not hide the rest
    some = np.arange(0, len(true), max(1, len(true) // _INTERVALS))
    for part, colour in ((some[held[some]], "C0"), (some[~held[some]], "C3")):
        axes.vlines(true[part], low[part], high[part], color=colour, lw=0.8, alpha=0.4, zorder=1)
    axes.set_ylim(limits)
    axes.set_title(f"{held.mean():.1%} in their {answer.coverage:.0%} intervals", loc="left", fontsize=8)
