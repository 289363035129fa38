"""Sections on the quality of the predictions."""

from collections.abc import Sequence

import numpy as np
import torch

from vitreous.insight import evaluation
from vitreous.insight.html_page import Section, Table, percent
from vitreous.insight.report.run import COVERAGE, Run

_LEVELS = np.arange(1, 20) / 20  # tested coverages
_SHOWN = 8  # worst samples that are drawn
_LISTED = 5  # most frequent mistakes in the table
_MIN_FEATURES = 10  # samples that a map of features needs


def confusion(run: Run) -> Section | None:
    """Classification: the confusion matrix and the most frequent mistakes."""
    if run.answers is None or not run.predictor.classes:
        return None
    prediction, truth = run.prediction, run.answers.y
    assert prediction.probabilities is not None
    matrix = evaluation.confusion_matrix(prediction.probabilities.argmax(1), truth, len(prediction.classes))
    wrong = int(matrix.sum() - np.trace(matrix))
    text = f"{wrong:,} of {matrix.sum():,} {run.samples_noun} are wrong."
    mistakes = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-mistakes, axis=None, kind="stable")[:_LISTED]
    pairs = [(i, j) for i, j in zip(*np.unravel_index(order, matrix.shape), strict=True) if mistakes[i, j]]
    rows = [(prediction.classes[i], prediction.classes[j], str(mistakes[i, j])) for i, j in pairs]
    tables = [Table(("true", "predicted", "times"), rows, "Most frequent mistakes")] if rows else []
    figure = evaluation.confusion_figure(matrix, prediction.classes)
    return Section("Confusion matrix", text, [("Rows: true classes; columns: predicted classes", figure)], tables)


def parity(run: Run) -> Section | None:
    """Regression: predicted against true values, with intervals and residuals."""
    if run.answers is None or not run.predictor.targets:
        return None
    prediction, truth = run.prediction, run.answers.y
    assert prediction.values is not None
    figures, rows = [], []
    for i, target in enumerate(prediction.targets):
        values, true = prediction.values[:, i], truth[:, i]
        lower, upper = (None if ends is None else ends[:, i] for ends in (prediction.lower, prediction.upper))
        figure = evaluation.parity_figure(values, true, target.label, lower, upper, target.log)
        bars = "" if lower is None else f"; bars are {percent(COVERAGE, 0)} intervals"
        figures.append((f"{target.label}: predicted against true, and the difference{bars}", figure))
        error = values - true
        variance = float(np.var(true))
        r2 = f"{1 - np.mean(error**2) / variance:.4f}" if variance else "–"
        bias, mean, rms = np.mean(error), np.abs(error).mean(), np.sqrt(np.mean(error**2))
        rows.append((target.label, f"{mean:.4g}", f"{rms:.4g}", f"{bias:+.3g}", r2))
    table = Table(("quantity", "mean |error|", "RMSE", "bias", "R²"), rows, f"{len(truth):,} {run.samples_noun}")
    return Section("Predicted against true", "", figures, [table])


def worst(run: Run) -> Section | None:
    """The samples with the worst predictions."""
    if run.answers is None:
        return None
    shown = run.answers.shown[:_SHOWN]
    captions, text = (_worst_values if run.predictor.targets else _worst_classes)(run, shown.tolist())
    figure = evaluation.samples_figure(run.answers.samples[: len(shown)], captions, run.predictor.axes)
    return Section("Worst predictions", text, [("The worst first, row by row", figure)])


def _worst_values(run: Run, shown: Sequence[int]) -> tuple[list[str], str]:
    assert run.answers is not None
    assert run.prediction.values is not None
    targets, values, truth = run.predictor.targets, run.prediction.values, run.answers.y
    captions = [
        f"{targets[k].name}: {values[i, k]:.4g}, true {truth[i, k]:.4g} {targets[k].unit}".rstrip()
        for i, k in zip(shown, run.worst_targets, strict=False)
    ]
    return captions, f"The {run.samples_noun} with the largest errors, each with the quantity that is furthest off."


def _worst_classes(run: Run, shown: Sequence[int]) -> tuple[list[str], str]:
    assert run.answers is not None
    assert run.prediction.probabilities is not None
    labels, confidence, classes = run.prediction.labels, run.prediction.probabilities.max(1), run.predictor.classes
    true = {i: classes[run.answers.y[i]] for i in shown}
    captions = [f"{labels[i]} ({percent(confidence[i], 0)}), true {true[i]}" for i in shown]
    wrong = sum(labels[i] != true[i] for i in shown)
    return captions, (
        f"The {run.samples_noun} whose true class has the lowest probability, with the predicted class and its "
        f"probability; {wrong} of these {len(shown)} are wrong."
    )


def calibration(run: Run) -> Section | None:
    """Calibration of probabilities, or coverage of intervals."""
    if run.answers is None:
        return None
    return (_coverage if run.predictor.targets else _reliability)(run)


def _reliability(run: Run) -> Section:
    assert run.answers is not None
    probabilities, truth = run.prediction.probabilities, run.answers.y
    assert probabilities is not None
    confidence, accuracy = probabilities.max(1).mean(), (probabilities.argmax(1) == truth).mean()
    direction = "underconfident" if confidence < accuracy else "overconfident"
    text = (
        f"The mean probability of the predicted class is {percent(confidence)}, and {percent(accuracy)} of the "
        f"predictions are correct: {direction} by {percent(abs(confidence - accuracy))}. "
        f"Expected calibration error: {percent(evaluation.calibration_error(probabilities, truth))}."
    )
    figure = evaluation.reliability_figure(probabilities, truth)
    return Section("Calibration of probabilities", text, [("Share of correct predictions against probability", figure)])


def _coverage(run: Run) -> Section | None:
    assert run.answers is not None
    predictor, truth = run.predictor, run.answers.y
    levels = [level for level in _LEVELS.tolist() if predictor.task.bounds(level)]
    if not levels:
        return None
    measured = []
    for level in levels:
        prediction = predictor.answer(torch.from_numpy(run.answers.out), level)
        assert prediction.lower is not None
        assert prediction.upper is not None
        measured.append(((prediction.lower <= truth) & (truth <= prediction.upper)).mean(0))
    coverage = np.array(measured)
    nearest = int(np.abs(np.array(levels) - COVERAGE).argmin())
    text = (
        f"Intervals with a nominal coverage of {percent(levels[nearest], 0)} contain "
        f"{percent(coverage[nearest].mean())} of the true values. They are split-conformal, calibrated on "
        f"{predictor.task.to_dict()['calibrated_on']:,} validation samples."
    )
    figure = evaluation.coverage_figure(np.array(levels), coverage, [target.label for target in predictor.targets])
    return Section("Coverage of intervals", text, [(f"Measured coverage on {run.subset} against nominal", figure)])


def errors_by_column(run: Run) -> Section | None:
    """Errors against the requested columns of the data."""
    if run.answers is None or not run.columns:
        return None
    prediction, truth, figures = run.prediction, run.answers.y, []
    text = "Errors against other columns of the data."
    if prediction.probabilities is not None:
        errors = {"share wrong": prediction.probabilities.argmax(1) != truth}
    else:
        assert prediction.values is not None
        pairs = zip(prediction.targets, prediction.values.T, truth.T, strict=True)
        errors = {f"|error| of {target.label}": np.abs(values - true) for target, values, true in pairs}
    for label, column in run.columns.items():
        valid = column != "" if column.dtype.kind == "U" else np.isfinite(column)
        text += "" if valid.all() else f" {label} is missing for {(~valid).sum():,} of {len(valid):,}."
        for name, error in errors.items() if valid.any() else ():
            figure = evaluation.error_figure(error[valid], column[valid], label, name)
            figures.append((f"{name} against {label}", figure))
    return Section("Errors by column", text, figures)


def features(run: Run) -> Section | None:
    """The input of the model's head, projected to two dimensions."""
    if run.answers is None or len(run.answers.mapped) < _MIN_FEATURES:
        return None
    truth, targets = run.answers.y[run.answers.mapped], run.predictor.targets
    colour, label = (truth[:, 0], targets[0].label) if targets else (truth, "class")
    features = run.answers.features
    text = (
        f"The {features.shape[1]} features before the model's head, for {len(features):,} {run.samples_noun}. PCA "
        "shows the directions of largest variance. t-SNE preserves neighbours; distances between groups mean nothing."
    )
    figures = []
    for method in evaluation.EMBEDDINGS:
        drawing = evaluation.embedding_figure(features, colour, f"true {label}", method, run.predictor.classes)
        figures.append((f"{method} of the features, coloured by {label}", drawing))
    return Section(f"Features of the {run.samples_noun}", text, figures)
