"""Figures that compare predictions with the truth: learning curves, confusion, parity, calibration, errors, features.

All take plain arrays and are five inches wide, so that labels stay legible on a phone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.extras import load_extra
from vitreous.data.source import Axis
from vitreous.insight.style import Figure, figure, to_pixels

Array = NDArray[Any]

_WIDTH = 5.0  # inches
_NUMBERED = 15  # maximum number of classes for numbers in a confusion matrix
_NAMED = 30  # maximum number of classes for labels
_INTERVALS = 150  # maximum number in a parity plot
_BINS = 8  # of errors against a quantity
_FAMILIARITY_BINS = 20
EMBEDDINGS = ("PCA", "t-SNE")


def validation_curve(log: Sequence[Mapping[str, Any]], score: str) -> tuple[list[int], list[float]]:
    """Steps, and a score on the validation part at each; `log` as in `metrics.jsonl`."""
    lines = [line for line in log if "validation" in line]
    return [line["step"] for line in lines], [line["validation"][score] for line in lines]


def learning_figure(log: Sequence[Mapping[str, Any]], score: str) -> Figure:
    """Losses above, the score on the validation part below, against steps; `log` as in `metrics.jsonl`."""
    trained = [line for line in log if "loss" in line]
    steps, losses = ([line[name] for line in trained] for name in ("step", "loss"))
    with figure(_WIDTH, 5) as drawing:
        above, below = drawing.subplots(2, 1, sharex=True)
        above.plot(steps, losses, lw=0.8, color="0.6", label="training")
        above.plot(*validation_curve(log, "loss"), ".-", color="C0", label="validation")
        above.set_ylabel("loss")
        above.legend(frameon=False)
        below.plot(*validation_curve(log, score), ".-", color="C0")
        below.set(xlabel="step", ylabel=f"validation {score}")
        return drawing


def confusion_matrix(predicted: Array, truth: Array, count: int) -> NDArray[np.intp]:
    """Confusion matrix `(count, count)`: rows are true classes, columns predicted ones."""
    matrix = np.zeros((count, count), dtype=np.intp)
    np.add.at(matrix, (truth, predicted), 1)
    return matrix


def confusion_figure(matrix: Array, classes: Sequence[str]) -> Figure:
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


def samples_figure(samples: Array, captions: Sequence[str], grid: Sequence[Axis]) -> Figure:
    """Samples `(n, channels, *grid)` with captions: curves along their axis, or images; middle slices of volumes."""
    flat = samples.ndim == 3
    across, height = (2, 1.5) if flat else (4, 1.6)
    down = -(-len(samples) // across)
    with figure(_WIDTH, height * down) as drawing:
        panels = drawing.subplots(down, across, squeeze=False, sharex=flat).ravel()
        for axes, sample, caption in zip(panels, samples, captions, strict=False):
            _draw_sample(axes, sample, grid)
            axes.set_title(caption, fontsize=7)
        for axes in panels[len(samples) :]:
            axes.set_axis_off()
        if flat:
            drawing.supxlabel(grid[0].label, fontsize=8)
        return drawing


def _draw_sample(axes: Any, sample: Array, grid: Sequence[Axis]) -> None:
    if sample.ndim == 2:
        (axis,) = grid
        axes.plot(axis.origin + axis.spacing * np.arange(sample.shape[1]), sample.T, lw=0.7)
        axes.tick_params(labelsize=7)
        axes.set_yticks([])
        return
    axes.imshow(to_pixels(sample[:, sample.shape[1] // 2] if sample.ndim == 4 else sample), cmap="gray")
    axes.set_axis_off()


def parity_figure(
    values: Array, truth: Array, label: str, lower: Array | None = None, upper: Array | None = None, log: bool = False
) -> Figure:
    """Predicted values `(n,)` of one quantity against the truth, with some of the intervals, and the residuals below.

    Args:
        label: name and unit.
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


def reliability(confidence: Array, right: Array, bins: int = 10) -> tuple[Array, Array, Array]:
    """Mean confidence, share of correct predictions and number of samples in each non-empty bin of confidence.

    Args:
        confidence: probability of the predicted class, `(n,)`.
        right: whether the prediction is correct, `(n,)`.
    """
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    counts = np.bincount(place, minlength=bins)
    used = counts > 0
    mean, share = (np.bincount(place, weights, bins)[used] / counts[used] for weights in (confidence, right))
    return mean, share, counts[used]


def confidence_error(confidence: Array, right: Array, bins: int = 10) -> float:
    """Expected calibration error: the mean of |confidence − share right| over all samples."""
    mean, share, counts = reliability(confidence, right, bins)
    return float(np.average(np.abs(mean - share), weights=counts))


def reliability_figure(confidence: Array, right: Array) -> Figure:
    """Reliability diagram: share of correct predictions against confidence, with the number of samples below."""
    mean, share, counts = reliability(confidence, right)
    with figure(_WIDTH, 5) as drawing:
        above, below = drawing.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        above.plot([0, 1], [0, 1], "k-", lw=0.8)
        error = np.sqrt(share * (1 - share) / counts)
        above.errorbar(mean, share, error, fmt="o-", ms=4, color="C0", capsize=2)
        above.set(ylabel="share that is right", xlim=(0, 1.02), ylim=(0, 1.05))
        below.bar(mean, counts, 0.05, color="0.6")
        below.set(xlabel="probability of the predicted class", ylabel="samples", yscale="log")
        _plain_numbers(below.yaxis)
        return drawing


def coverage_figure(nominal: Array, measured: Array, names: Sequence[str]) -> Figure:
    """Measured coverage of intervals `(levels, targets)` against nominal coverage `(levels,)`."""
    with figure(_WIDTH, 4.2) as drawing:
        axes = drawing.subplots()
        axes.plot([0, 1], [0, 1], "k-", lw=0.8)
        for column, name in zip(measured.T, names, strict=True):
            axes.plot(nominal, column, ".-", lw=1, label=name)
        axes.set(xlabel="coverage asked for", ylabel="coverage found", xlim=(0, 1), ylim=(0, 1.02))
        axes.legend(frameon=False, fontsize=8)
        return drawing


def familiarity_figure(p: Array) -> Figure:
    """Distribution of the familiarity `(n,)`, which is uniform for samples like the training data."""
    with figure(_WIDTH, 3) as drawing:
        axes = drawing.subplots()
        axes.hist(p, _FAMILIARITY_BINS, range=(0, 1), color="C0")
        axes.axhline(len(p) / _FAMILIARITY_BINS, color="k", lw=0.8)
        axes.set(xlabel="familiarity", ylabel="samples", xlim=(0, 1))
        return drawing


def error_figure(error: Array, column: Array, label: str, ylabel: str) -> Figure:
    """Errors `(n,)`, a boolean array for wrong classes, against another column of the data, numbers or strings."""
    words = column.dtype.kind not in "fiub"
    groups = [np.flatnonzero(column == word) for word in np.unique(column)] if words else _by_size(column)
    places = np.arange(len(groups)) if words else np.array([np.median(column[rows]) for rows in groups])
    marks: dict[str, Any] = {"fmt": "o" if words else "o-", "ms": 4, "capsize": 2}
    with figure(_WIDTH, 4) as drawing:
        axes = drawing.subplots()
        if error.dtype.kind == "b":
            share = np.array([error[rows].mean() for rows in groups])
            spread = [np.sqrt(p * (1 - p) / len(rows)) for p, rows in zip(share, groups, strict=True)]
            axes.errorbar(places, share, spread, **marks)
        else:
            x = np.searchsorted(np.unique(column), column) if words else column
            axes.plot(x, error, ".", ms=3, color="0.7")
            middle = [np.quantile(error[rows], [0.5, 0.05, 0.95]) for rows in groups]
            half, low, high = np.array(middle).T
            ends = [half - low, high - half]
            axes.errorbar(places, half, ends, **marks, label="median, 5 to 95 %")
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


def embedding_figure(features: Array, colour: Array, label: str, method: str, classes: Sequence[str] = ()) -> Figure:
    """Features `(n, D)`, projected to two dimensions by PCA or t-SNE and coloured by class or quantity `(n,)`."""
    most = min(30, *features.shape) if method == "t-SNE" else 2
    places = load_extra("sklearn.decomposition").PCA(most, random_state=0).fit_transform(features)
    if method == "t-SNE":
        perplexity = min(30.0, (len(features) - 1) / 3)
        tsne = load_extra("sklearn.manifold").TSNE(perplexity=perplexity, init="pca", random_state=0)
        places = tsne.fit_transform(places)
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
