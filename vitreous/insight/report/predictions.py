"""Sections on the quality of the predictions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vitreous.insight import evaluation
from vitreous.insight.html_page import Section, Table, percent
from vitreous.insight.report.run import COVERAGE, Run, with_answers
from vitreous.run.answers import Answers

_LEVELS = np.arange(1, 20) / 20  # tested coverages
_SHOWN = 8  # worst samples that are drawn
_LISTED = 5  # most frequent mistakes in the table
_MIN_FEATURES = 10  # samples that a map of features needs


@with_answers
def confusion(run: Run, answers: Answers) -> Section | None:
    """Classification: the confusion matrix and the most frequent mistakes."""
    classes, probabilities = run.predictor.classes, run.prediction.probabilities
    if probabilities is None:
        return None
    matrix = evaluation.confusion_matrix(probabilities.argmax(1), answers.y, len(classes))
    mistakes = matrix - np.diag(np.diag(matrix))
    text = f"{mistakes.sum():,} of {matrix.sum():,} {run.samples_noun} are wrong."
    order = np.argsort(-mistakes, axis=None, kind="stable")[:_LISTED]
    pairs = [(i, j) for i, j in zip(*np.unravel_index(order, matrix.shape), strict=True) if mistakes[i, j]]
    rows = [(classes[i], classes[j], str(mistakes[i, j])) for i, j in pairs]
    tables = [Table(("true", "predicted", "times"), rows, "Most frequent mistakes")] if rows else []
    figure = evaluation.confusion_figure(matrix, classes)
    return Section("Confusion matrix", text, [("Rows: true classes; columns: predicted classes", figure)], tables)


@with_answers
def parity(run: Run, answers: Answers) -> Section | None:
    """Regression: predicted against true values, with intervals and residuals."""
    prediction, truth = run.prediction, answers.y
    if prediction.values is None:
        return None
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


@with_answers
def worst(run: Run, answers: Answers) -> Section:
    """The samples with the worst predictions."""
    shown = answers.shown[:_SHOWN].tolist()
    captions, text = (_worst_values if run.predictor.targets else _worst_classes)(run, answers, shown)
    figure = evaluation.samples_figure(answers.samples[: len(shown)], captions, run.predictor.axes)
    return Section("Worst predictions", text, [("The worst first, row by row", figure)])


def _worst_values(run: Run, answers: Answers, shown: Sequence[int]) -> tuple[list[str], str]:
    targets, values, truth = run.predictor.targets, run.prediction.values, answers.y
    assert values is not None
    captions = [
        f"{targets[k].name}: {values[i, k]:.4g}, true {truth[i, k]:.4g} {targets[k].unit}".rstrip()
        for i, k in zip(shown, run.worst_targets, strict=False)
    ]
    return captions, f"The {run.samples_noun} with the largest errors, each with the quantity that is furthest off."


def _worst_classes(run: Run, answers: Answers, shown: Sequence[int]) -> tuple[list[str], str]:
    labels, probabilities, classes = run.prediction.labels, run.prediction.probabilities, run.predictor.classes
    assert probabilities is not None
    true = {i: classes[answers.y[i]] for i in shown}
    captions = [f"{labels[i]} ({percent(probabilities[i].max(), 0)}), true {true[i]}" for i in shown]
    wrong = sum(labels[i] != true[i] for i in shown)
    return captions, (
        f"The {run.samples_noun} whose true class has the lowest probability, with the predicted class and its "
        f"probability; {wrong} of these {len(shown)} are wrong."
    )


@with_answers
def calibration(run: Run, answers: Answers) -> Section | None:
    """Calibration of probabilities, or coverage of intervals."""
    return (_coverage if run.predictor.targets else _reliability)(run, answers)


def _reliability(run: Run, answers: Answers) -> Section:
    probabilities = run.prediction.probabilities
    assert probabilities is not None
    confidence, right = probabilities.max(1), probabilities.argmax(1) == answers.y
    sure, accuracy = confidence.mean(), right.mean()
    direction = "underconfident" if sure < accuracy else "overconfident"
    text = (
        f"The mean probability of the predicted class is {percent(sure)}, and {percent(accuracy)} of the "
        f"predictions are correct: {direction} by {percent(abs(sure - accuracy))}. "
        f"Expected calibration error: {percent(evaluation.confidence_error(confidence, right))}."
    )
    figure = evaluation.reliability_figure(confidence, right)
    return Section("Calibration of probabilities", text, [("Share of correct predictions against probability", figure)])


def _coverage(run: Run, answers: Answers) -> Section | None:
    predictor, coverage = run.predictor, dict[float, NDArray[Any]]()  # by level, `(targets,)`
    for level in filter(predictor.task.bounds, _LEVELS.tolist()):
        prediction = predictor.answer(torch.from_numpy(answers.out), level)
        assert prediction.lower is not None
        assert prediction.upper is not None
        coverage[level] = ((prediction.lower <= answers.y) & (answers.y <= prediction.upper)).mean(0)
    if not coverage:
        return None
    nearest = min(coverage, key=lambda level: abs(level - COVERAGE))
    text = (
        f"Intervals with a nominal coverage of {percent(nearest, 0)} contain "
        f"{percent(coverage[nearest].mean())} of the true values. They are split-conformal, calibrated on "
        f"{predictor.task.to_dict()['calibrated_on']:,} validation samples."
    )
    names = [target.label for target in predictor.targets]
    figure = evaluation.coverage_figure(np.array(list(coverage)), np.array(list(coverage.values())), names)
    return Section("Coverage of intervals", text, [(f"Measured coverage on {run.subset} against nominal", figure)])


@with_answers
def familiarity(run: Run, answers: Answers) -> Section | None:
    """How familiar the samples are, by their distance to the training part."""
    p = answers.familiarity
    if not len(p):
        return None
    shares = " and ".join(f"{percent((p < level).mean())} have one below {percent(level, 0)}" for level in (0.01, 0.05))
    text = (
        f"The familiarity of a sample is the share of samples like the training data that are as unusual as it is. "
        f"Of {len(p):,} {run.samples_noun}, {shares}; if they are like the training data, as many are expected."
    )
    figure = evaluation.familiarity_figure(p)
    return Section(
        f"Familiarity of the {run.samples_noun}", text, [("The line is expected of familiar samples", figure)]
    )


@with_answers
def errors_by_column(run: Run, answers: Answers) -> Section | None:
    """Errors against the requested columns of the data."""
    if not run.columns:
        return None
    prediction, truth, figures = run.prediction, answers.y, []
    text = "Errors against other columns of the data."
    if prediction.probabilities is not None:
        errors = {"share wrong": prediction.probabilities.argmax(1) != truth}
    else:
        assert prediction.values is not None
        pairs = zip(prediction.targets, np.abs(prediction.values - truth).T, strict=True)
        errors = {f"|error| of {target.label}": error for target, error in pairs}
    for label, column in run.columns.items():
        valid = column != "" if column.dtype.kind == "U" else np.isfinite(column)
        text += "" if valid.all() else f" {label} is missing for {(~valid).sum():,} of {len(valid):,}."
        for name, error in errors.items() if valid.any() else ():
            figure = evaluation.error_figure(error[valid], column[valid], label, name)
            figures.append((f"{name} against {label}", figure))
    return Section("Errors by column", text, figures)


@with_answers
def features(run: Run, answers: Answers) -> Section | None:
    """The input of the model's head, projected to two dimensions."""
    if len(answers.mapped) < _MIN_FEATURES:
        return None
    truth, targets, features = answers.y[answers.mapped], run.predictor.targets, answers.features
    colour, label = (truth[:, 0], targets[0].label) if targets else (truth, "class")
    text = (
        f"The {features.shape[1]} features before the model's head, for {len(features):,} {run.samples_noun}. PCA "
        "shows the directions of largest variance. t-SNE preserves neighbours; distances between groups mean nothing."
    )
    figures = []
    for method in evaluation.EMBEDDINGS:
        drawing = evaluation.embedding_figure(features, colour, f"true {label}", method, run.predictor.classes)
        figures.append((f"{method} of the features, coloured by {label}", drawing))
    return Section(f"Features of the {run.samples_noun}", text, figures)
