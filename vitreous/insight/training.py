"""How a training went: learning curves of several runs, and the confusion or parity of the first on its test part."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.insight.behaviour import confusion, draw_confusion, draw_parity
from vitreous.insight.style import figure, save
from vitreous.train.folder import read_log
from vitreous.train.predictor import Prediction


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
            predicted = answer.probabilities.argmax(1)
            draw_confusion(right, confusion(predicted, truth, len(answer.classes)), answer.classes)
            right.set_title(f"{(predicted != truth).sum()} of {len(truth)} test samples wrong")
        else:
            assert answer.values is not None
            draw_parity(right, answer.values[:, 0], truth[:, 0], answer.targets[0].label, answer.targets[0].log)
    save(drawing, path)


def _curve(run: Path, name: str) -> tuple[list[int], list[float]]:
    points = [(line["step"], line["validation"][name]) for line in read_log(run) if "validation" in line]
    return [step for step, _ in points], [score for _, score in points]
