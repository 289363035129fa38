"""Figures that compare predictions with the truth: learning curves, confusion, parity, calibration, errors, features.

All take plain arrays and are five inches wide, so that labels stay legible on a phone.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.extras import load_extra
from vitreous.data.source import Axis
from vitreous.insight.style import figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[Any]

_WIDTH = 5.0  # inches
_NUMBERED = 15  # maximum number of classes for numbers in a confusion matrix
_NAMED = 30  # maximum number of classes for labels
_INTERVALS = 150  # maximum number in a parity plot
_BINS = 8  # of errors against a quantity
EMBEDDINGS = ("PCA", "t-SNE")


def learning_figure(log: Sequence[Mapping[str, Any]], score: str) -> "Figure":
    """Losses above, the score on the validation part below, against steps; `log` as in `metrics.jsonl`."""
    trained = [(line["step"], line["loss"]) for line in log if "loss" in line]
    evaluated = [(line["step"], line["validation"]) for line in log if "validation" in line]
    with figure(_WIDTH, 5) as drawing:
        above, below = drawing.subplots(2, 1, sharex=True)
        above.plot(*_columns(trained), lw=0.8, color="0.6", label="training")
        above.plot(
            *_columns([(step, scores["loss"]) for step, scores in evaluated]), ".-", color="C0", label="validation"
        )
        above.set_ylabel("loss")
        above.legend(frameon=False)
        below.plot(*_columns([(step, scores[score]) for step, scores in evaluated]), ".-", color="C0")
        below.set(xlabel="step", ylabel=f"validation {score}")
        return drawing


def _columns(points: Sequence[tuple[float, float]]) -> Array:
    return np.array(points, dtype=np.float64).reshape(-1, 2).T


def confusion_matrix(predicted: Array, truth: Array, count: int) -> NDArray[np.intp]:
    """Confusion matrix `(count, count)`: rows are true classes, columns predicted ones."""
    matrix = np.zeros((count, count), dtype=np.intp)
    np.add.at(matrix, (truth, predicted), 1)
    return matrix


def confusion_figure(matrix: Array, classes: Sequence[str]) -> "Figure":
    """The confusion matrix, with mistakes in red."""
    with figure(_WIDTH, 4.6) as drawing:
        draw_confusion(drawing.subplots(), matrix, classes)
        return drawing


def draw_confusion(axes: Any, matrix: Array, classes: Sequence[str]) -> None:
    """Draw a confusion matrix in given axes, with logarithmic shades so that single mistakes are visible."""
    count = len(classes)
    shades, numbered = np.log1p(matrix), count <= _NUMBERED
    # With numbers only the lighter half of the colours is used, so that they are legible.
    axes.imshow(shades, cmap="Blues", vmin=0, vmax=(2 if numbered else 1) * shades.max())
    for i, j in zip(*np.nonzero(matrix), strict=True) if numbered else ():
        axes.text(j, i, str(matrix[i, j]), ha="center", va="center", color="k" if i == j else "darkred", fontsize=7)
    if count <= _NAMED:
        turned = 0 if max(map(len, classes)) <= 3 else 90
        axes.set_xticks(range(count), classes, rotation=turned)
        axes.set_yticks(range(count), classes)
    axes.set(xlabel="predicted", ylabel="true")


def samples_figure(samples: Array, captions: Sequence[str], grid: Sequence[Axis]) -> "Figure":
    """Samples `(n, channels, *grid)` with captions: curves along their axis, or images."""
    across = 2 if samples.ndim == 3 else 4
    down = -(-len(samples) // across)
    with figure(_WIDTH, (1.5 if samples.ndim == 3 else 1.6) * down) as drawing:
        panels = drawing.subplots(down, across, squeeze=False, sharex=samples.ndim == 3).ravel()
        for axes, sample, caption in zip(panels, samples, captions, strict=False):
            draw_sample(axes, sample, grid)
            axes.set_title(caption, fontsize=7)
        for axes in panels[len(samples) :]:
            axes.set_axis_off()
        if samples.ndim == 3:
            drawing.supxlabel(grid[0].label, fontsize=8)
        return drawing


def draw_sample(axes: Any, sample: Array, grid: Sequence[Axis]) -> None:
    """Draw one sample `(channels, *grid)`; of a volume, the middle slice."""
    if sample.ndim == 2:
        (axis,) = grid
        axes.plot(axis.origin + axis.spacing * np.arange(sample.shape[1]), sample.T, lw=0.7)
        axes.tick_params(labelsize=7)
        axes.set_yticks([])
        return
    if sample.ndim == 4:
        sample = sample[:, sample.shape[1] // 2]
    low, high = float(sample.min()), float(sample.max())
    values = (sample.astype(np.float64) - low) / (high - low or 1.0)
    axes.imshow(np.moveaxis(values, 0, -1) if len(values) == 3 else values.mean(0), cmap="gray")
    axes.set_axis_off()


def parity_figure(
    values: Array, truth: Array, label: str, lower: Array | None = None, upper: Array | None = None, log: bool = False
) -> "Figure":
    """Predicted values `(n,)` against the truth, with some of the intervals, and the residuals below.

    Args:
        values, truth: of one quantity.
        label: its name and unit.
        lower, upper: ends of the intervals; intervals that miss the truth are red.
        log: use logarithmic axes.
    """
    with figure(_WIDTH, 5.6) as drawing:
        above, below = drawing.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        draw_parity(above, values, truth, label, log)
        lowest, highest = above.get_ylim()
        above.set(xlabel="", ylim=(lowest, highest))  # long intervals must not change the range
        below.plot(truth, values - truth, ".", ms=3, alpha=0.6)
        below.axhline(0, color="k", lw=0.8)
        if lower is not None and upper is not None:
            some = np.unique(np.linspace(0, len(truth) - 1, min(_INTERVALS, len(truth))).astype(int))
            missed = (truth[some] < lower[some]) | (truth[some] > upper[some])
            lower = np.maximum(lower, lowest) if log else lower  # 0 is not on a logarithmic axis
            for part, colour in ((some[~missed], "C0"), (some[missed], "C3")):
                above.vlines(truth[part], lower[part], upper[part], color=colour, lw=0.8, alpha=0.4, zorder=1)
        below.set(xlabel=f"true {label}", ylabel="predicted − true")
        return drawing


def draw_parity(axes: Any, values: Array, truth: Array, label: str, log: bool = False) -> None:
    """Draw values `(n,)` against the truth, with the diagonal; `log` for logarithmic axes."""
    axes.plot(truth, values, ".", ms=3, alpha=0.6)
    ends = [truth.min(), truth.max()]
    axes.plot(ends, ends, "k-", lw=0.8)
    axes.set(xlabel=f"true {label}", ylabel=f"predicted {label}")
    if log:
        axes.set(xscale="log", yscale="log")
        _plain_numbers(axes.xaxis)
        _plain_numbers(axes.yaxis)


def _plain_numbers(axis: Any) -> None:
    """Label a logarithmic axis with plain numbers, also between powers of ten if its range is short."""
    from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator

    low, high = axis.get_view_interval()
    if high < 30 * low:
        axis.set_major_locator(MaxNLocator(6))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def reliability(probabilities: Array, truth: Array, bins: int = 10) -> tuple[Array, Array, Array]:
    """Mean confidence, share of correct predictions and number of samples in each non-empty bin of confidence."""
    return _binned(probabilities.max(1), probabilities.argmax(1) == truth, bins)


def _binned(confidence: Array, right: Array, bins: int) -> tuple[Array, Array, Array]:
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    counts = np.bincount(place, minlength=bins)
    used = counts > 0
    mean = [np.bincount(place, weights, bins)[used] / counts[used] for weights in (confidence, right)]
    return mean[0], mean[1], counts[used]


def calibration_error(probabilities: Array, truth: Array, bins: int = 10) -> float:
    """Expected calibration error of predicted classes."""
    return confidence_error(probabilities.max(1), probabilities.argmax(1) == truth, bins)


def confidence_error(confidence: Array, right: Array, bins: int = 10) -> float:
    """Expected calibration error: the mean of |confidence − share right| over all samples."""
    mean, share, counts = _binned(confidence, right, bins)
    return float(np.average(np.abs(mean - share), weights=counts))


def reliability_figure(probabilities: Array, truth: Array) -> "Figure":
    """Reliability diagram: share of correct predictions against confidence, with the number of samples below."""
    confidence, right, counts = reliability(probabilities, truth)
    with figure(_WIDTH, 5) as drawing:
        above, below = drawing.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        above.plot([0, 1], [0, 1], "k-", lw=0.8)
        error = np.sqrt(right * (1 - right) / counts)
        above.errorbar(confidence, right, error, fmt="o-", ms=4, color="C0", capsize=2)
        above.set(ylabel="share that is right", xlim=(0, 1.02), ylim=(0, 1.05))
        below.bar(confidence, counts, 0.05, color="0.6")
        below.set(xlabel="probability of the predicted class", ylabel="samples", yscale="log")
        _plain_numbers(below.yaxis)
        return drawing


def coverage_figure(nominal: Array, measured: Array, names: Sequence[str]) -> "Figure":
    """Measured coverage of intervals `(levels, targets)` against nominal coverage `(levels,)`."""
    with figure(_WIDTH, 4.2) as drawing:
        axes = drawing.subplots()
        axes.plot([0, 1], [0, 1], "k-", lw=0.8)
        for column, name in zip(measured.T, names, strict=True):
            axes.plot(nominal, column, ".-", lw=1, label=name)
        axes.set(xlabel="coverage asked for", ylabel="coverage found", xlim=(0, 1), ylim=(0, 1.02))
        axes.legend(frameon=False, fontsize=8)
        return drawing


def error_figure(error: Array, column: Array, label: str, ylabel: str) -> "Figure":
    """Errors `(n,)` against another column of the data.

    Args:
        error: of each sample; a boolean array for wrong classes.
        column: numbers or strings.
        label: of the column.
        ylabel: of the error.
    """
    words = column.dtype.kind not in "fiub"
    groups = [np.flatnonzero(column == word) for word in np.unique(column)] if words else _by_size(column)
    places = np.arange(len(groups)) if words else np.array([np.median(column[rows]) for rows in groups])
    with figure(_WIDTH, 4) as drawing:
        axes = drawing.subplots()
        if error.dtype.kind == "b":
            share = np.array([error[rows].mean() for rows in groups])
            spread = [np.sqrt(p * (1 - p) / len(rows)) for p, rows in zip(share, groups, strict=True)]
            axes.errorbar(places, share, spread, fmt="o" if words else "o-", ms=4, capsize=2)
        else:
            x = np.searchsorted(np.unique(column), column) if words else column
            axes.plot(x, error, ".", ms=3, color="0.7")
            middle = [np.quantile(error[rows], [0.5, 0.05, 0.95]) for rows in groups]
            half, low, high = np.array(middle).T
            ends = [half - low, high - half]
            axes.errorbar(places, half, ends, fmt="o" if words else "o-", ms=4, capsize=2, label="median, 5 to 95 %")
            axes.legend(frameon=False, fontsize=8)
        if words:
            axes.set_xticks(places, np.unique(column), rotation=0 if len(groups) < 6 else 90)
        axes.set(xlabel=label, ylabel=ylabel)
        return drawing


def _by_size(column: Array) -> list[Array]:
    """Row indices in bins of equal counts; equal values stay together."""
    edges = np.unique(np.quantile(column, np.linspace(0, 1, _BINS + 1)[1:-1]))
    place = np.searchsorted(edges, column, side="right")
    return [np.flatnonzero(place == bin) for bin in np.unique(place)]


def embed(features: Array, method: str, seed: int = 0) -> NDArray[np.float64]:
    """Project features `(n, D)` to `(n, 2)` by PCA or t-SNE."""
    assert method in EMBEDDINGS
    most = min(30, *features.shape) if method == "t-SNE" else 2
    places = load_extra("sklearn.decomposition").PCA(most, random_state=seed).fit_transform(features)
    if method == "t-SNE":
        perplexity = min(30.0, (len(features) - 1) / 3)
        tsne = load_extra("sklearn.manifold").TSNE(perplexity=perplexity, init="pca", random_state=seed)
        places = tsne.fit_transform(places)
    return np.asarray(places, dtype=np.float64)


def embedding_figure(features: Array, colour: Array, label: str, method: str, classes: Sequence[str] = ()) -> "Figure":
    """Features of samples, projected to two dimensions.

    Args:
        features: `(n, D)`.
        colour: `(n,)` class numbers or a quantity.
        label: of the colour.
        method: PCA | t-SNE.
        classes: names of the classes.
    """
    places = embed(features, method)
    with figure(_WIDTH, 4.4) as drawing:
        axes = drawing.subplots()
        discrete = 0 < len(classes) <= 10
        scale: dict[str, Any] = {"cmap": "tab10", "vmin": -0.5, "vmax": 9.5} if discrete else {"cmap": "viridis"}
        dots = axes.scatter(places[:, 0], places[:, 1], c=colour, s=8, **scale)
        if discrete:
            present = np.unique(colour).tolist()
            handles, names = dots.legend_elements(num=present)[0], [classes[i] for i in present]
            drawing.legend(handles, names, title=label, loc="outside right center", frameon=False, fontsize=8)
        else:
            drawing.colorbar(dots, label=label)
        axes.set(xticks=[], yticks=[], title=method)
        return drawing
