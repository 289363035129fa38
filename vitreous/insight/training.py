"""Figures of trainings: learning curves of runs, the effects of a sweep, and samples of a pre-training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitreous.insight.evaluation import confusion_matrix, draw_confusion, draw_parity, validation_curve
from vitreous.insight.style import Figure, figure, save
from vitreous.run.folder import read_log
from vitreous.run.prediction import Prediction

if TYPE_CHECKING:
    from torch import Tensor

    from vitreous.nn.pretraining import Panels

_PRETRAINING_TITLES = {
    "masked": ("sample", "visible", "reconstructed"),
    "denoise": ("sample", "damaged", "restored"),
    "contrast": ("sample", "a view", "another view"),
}


def training_figure(runs: Sequence[Path], prediction: Prediction, truth: NDArray[Any], path: Path) -> None:
    """Write a figure of the validation scores of several runs, and the test predictions of the first.

    Args:
        runs: run folders.
        prediction: of the first run on its test part.
        truth: class numbers `(n,)` or quantities `(n, targets)` of that part.
    """
    with figure(9, 4) as drawing:
        left, right = drawing.subplots(1, 2, width_ratios=(1.2, 1))
        score = "accuracy" if prediction.probabilities is not None else "rmse"
        for run in runs:
            steps, scores = validation_curve(read_log(run), score)
            left.plot(np.asarray(steps) / steps[-1], scores, marker=".", label=f"{run.name}: {scores[-1]:.4g}")
        left.set(xlabel="share of the training", ylabel=f"validation {score}")
        left.legend(frameon=False)
        if prediction.probabilities is not None:
            predicted = prediction.probabilities.argmax(1)
            draw_confusion(right, confusion_matrix(predicted, truth, len(prediction.classes)), prediction.classes)
            right.set_title(f"{(predicted != truth).sum()} of {len(truth)} test samples wrong")
        else:
            assert prediction.values is not None
            target = prediction.targets[0]
            draw_parity(right, prediction.values[:, 0], truth[:, 0], target.label, target.log)
    save(drawing, path)


def effects_figure(records: Sequence[Mapping[str, Any]], factors: Sequence[str], label: str, path: Path) -> None:
    """Write a figure of a sweep: the score of every run and the mean at each value, one panel per factor.

    `records` has the value of each factor and `score` of every run; `label` names the score.
    """
    with figure(3 * len(factors), 3) as drawing:
        panels = drawing.subplots(1, len(factors), sharey=True, squeeze=False)[0]
        for axes, factor in zip(panels, factors, strict=True):
            values = sorted({record[factor] for record in records})
            for x, value in enumerate(values):
                scores = [record["score"] for record in records if record[factor] == value]
                axes.plot(np.full(len(scores), x), scores, ".", color="0.6")
                axes.plot(x, np.mean(scores), "o", color="C0")
            axes.set_xticks(range(len(values)), [str(value) for value in values])
            axes.set_xlabel(factor)
        panels[0].set_ylabel(label)
    save(drawing, path)


def pretraining_figure(panels: "Panels", method: str) -> Figure:
    """Samples of a pre-training, one per row: the sample, the input of the encoder, and the output.

    Shows the first channel of spectra and images, the middle slice of volumes, or a table of tokens.
    """
    count = len(panels[0])
    with figure(7.5, 1.6 * count + 0.4) as drawing:
        for row, row_axes in enumerate(drawing.subplots(count, 3, squeeze=False)):
            arrays = [_line_or_image(panel[row]) for panel in panels]
            low, high = float(arrays[0].min()), float(arrays[0].max())
            margin = 0.1 * (high - low) + 1e-6
            for axes, values, title in zip(row_axes, arrays, _PRETRAINING_TITLES[method], strict=True):
                if values.ndim == 1:
                    axes.plot(values, lw=0.8)
                    axes.set_ylim(low - margin, high + margin)
                else:
                    axes.set_facecolor("lightsteelblue")  # shows through where the input is hidden
                    axes.imshow(values, cmap="Greys", vmin=low, vmax=high, interpolation="nearest", aspect="auto")
                    axes.set(xticks=[], yticks=[])
                axes.set_title(title if row == 0 else "", loc="left", fontsize=8)
    return drawing


def _line_or_image(sample: "Tensor") -> Any:
    """`(C, *grid)` or `(N, features)` -> `(points,)` or `(rows, columns)`."""
    grid = sample if sample.dim() == 2 and sample.shape[0] > 1 else sample[0]
    return (grid[grid.shape[0] // 2] if grid.dim() == 3 else grid).float().cpu().numpy()
