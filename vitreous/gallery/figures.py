"""Parts that the figures of several entries share: a run with its test answers, and panels that show them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.insight.attention import attention_maps, attention_model
from vitreous.insight.evaluation import confusion_matrix, draw_confusion, draw_parity
from vitreous.insight.regions import model_input
from vitreous.insight.style import save
from vitreous.run.answers import ANSWERS, Answers, read_answers
from vitreous.run.prediction import Prediction
from vitreous.run.predictor import Predictor, load
from vitreous.run.task import Regression

if TYPE_CHECKING:
    import matplotlib.figure

Figure: TypeAlias = "matplotlib.figure.Figure"
COVERAGE = 0.9
_INTERVALS = 150  # drawn in a panel


def load_run(folder: Path) -> tuple[Predictor, Answers]:
    """A run's predictor and its answers on the test part."""
    predictor, answers = load(folder), read_answers(folder)
    if answers is None:
        raise InputError(f"{folder / ANSWERS}: not found, expected the answers of a finished training")
    return predictor, answers


def save_figures(run: Path, figures: Mapping[str, Figure]) -> list[Path]:
    """Write figures into a run folder, by file name; returns their paths."""
    for name, drawing in figures.items():
        save(drawing, run / name)
    return [run / name for name in figures]


def interval_coverage(predictor: Predictor) -> float | None:
    """The coverage of the run's prediction intervals; None if it has no intervals."""
    task = predictor.task
    return COVERAGE if isinstance(task, Regression) and task.bounds(COVERAGE) else None


def predict_test(predictor: Predictor, answers: Answers) -> tuple[Prediction, NDArray[Any]]:
    """Predictions for the test part, with intervals where the run has them, and their values `(n, targets)`."""
    prediction = predictor.answer(torch.from_numpy(answers.out), interval_coverage(predictor))
    assert prediction.values is not None
    return prediction, prediction.values


def attention_on_elements(
    predictor: Predictor, samples: NDArray[Any], layers: Sequence[int] | None = None
) -> NDArray[np.float64] | None:
    """Attention on each element of packed sets, `(n, elements)`, averaged over the layers and all heads.

    Values are relative: 1 where attention is even over all elements of a set. None for a model without attention.
    """
    if not predictor.model.attends:
        return None
    present = (samples != 0).any(1)
    maps = attention_maps(attention_model(predictor), model_input(predictor, samples), layers).mean((1, 2)) * present
    relative: NDArray[np.float64] = maps * present.sum(1, keepdims=True) / maps.sum(1, keepdims=True)
    return relative


def draw_classes(axes: Any, answers: Answers, classes: Sequence[str]) -> None:
    """Draw the confusion matrix of the test part."""
    draw_confusion(axes, confusion_matrix(answers.out.argmax(1), answers.y, len(classes)), classes)


def draw_target(axes: Any, prediction: Prediction, truth: NDArray[Any], target: int) -> None:
    """Draw predictions of one target against the truth `(n, targets)`, with intervals and their coverage if any."""
    assert prediction.values is not None
    label, true = prediction.targets[target].label, truth[:, target]
    draw_parity(axes, prediction.values[:, target], true, label)
    if prediction.lower is None or prediction.upper is None:
        return
    low, high = prediction.lower[:, target], prediction.upper[:, target]
    covered = (low <= true) & (true <= high)
    limits = axes.get_ylim()  # a few very long intervals must not hide the rest
    some = np.arange(0, len(true), max(1, len(true) // _INTERVALS))
    for part, colour in ((some[covered[some]], "C0"), (some[~covered[some]], "C3")):
        axes.vlines(true[part], low[part], high[part], color=colour, lw=0.8, alpha=0.4, zorder=1)
    axes.set_ylim(limits)
    axes.set_title(f"{covered.mean():.1%} in their {prediction.coverage:.0%} intervals", loc="left", fontsize=8)
