"""How a training went: learning curves of several runs, and the confusion or parity of the first on its test part."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.insight.style import figure
from vitreous.train.predictor import Prediction
from vitreous.train.run import METRICS


def training_figure(runs: Sequence[Path], answer: Prediction, truth: NDArray[Any], path: Path) -> None:
    """Draw the runs' validation scores against steps, and the first one's answers against the truth, to a file."""
    with figure(9, 4) as drawing:
        left, right = drawing.subplots(1, 2, width_ratios=(1.2, 1))
        name = "accuracy" if answer.probabilities is not None else "rmse"
        for run in runs:
            steps, scores = _curve(run, name)
            left.plot(np.asarray(steps) / steps[-1], scores, marker=".", label=f"{run.name}: {scores[-1]:.4g}")
        left.set(xlabel="share of the training", ylabel=f"validation {name}")
        left.legend(frameon=False)
        if answer.probabilities is not None:
            _confusion(right, answer, truth)
        else:
            _parity(right, answer, truth)
        drawing.savefig(path)


def _curve(run: Path, name: str) -> tuple[list[int], list[float]]:
    lines = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
    points = [(line["step"], line["validation"][name]) for line in lines if "validation" in line]
    return [step for step, _ in points], [score for _, score in points]


def _confusion(axes: Any, answer: Prediction, truth: NDArray[Any]) -> None:
    assert answer.probabilities is not None
    count = len(answer.classes)
    matrix = np.zeros((count, count), dtype=int)
    np.add.at(matrix, (truth, answer.probabilities.argmax(1)), 1)
    axes.imshow(np.log1p(matrix), cmap="Blues")
    for i, j in zip(*np.nonzero(matrix), strict=True):
        axes.text(j, i, str(matrix[i, j]), ha="center", va="center", color="white" if i == j else "crimson", fontsize=7)
    axes.set_xticks(range(count), answer.classes)
    axes.set_yticks(range(count), answer.classes)
    wrong = matrix.sum() - np.trace(matrix)
    axes.set(xlabel="predicted", ylabel="true", title=f"{wrong} of {matrix.sum()} test samples wrong")


def _parity(axes: Any, answer: Prediction, truth: NDArray[Any]) -> None:
    assert answer.values is not None
    axes.plot(truth[:, 0], answer.values[:, 0], ".", alpha=0.6)
    ends = [truth[:, 0].min(), truth[:, 0].max()]
    axes.plot(ends, ends, "k-", lw=0.8)
    label = answer.targets[0].label
    axes.set(xlabel=f"true {label}", ylabel=f"predicted {label}")
