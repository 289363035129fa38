"""How good the answers are on samples that the run has not seen."""

import numpy as np
import torch

from vitreous.insight import behaviour
from vitreous.insight.report.run import COVERAGE, Run
from vitreous.page import Section, Table, percent
from vitreous.train.task import Regression

_LEVELS = np.arange(1, 20) / 20  # of coverage that are tested
_SHOWN = 8  # samples of the worst
_LISTED = 5  # commonest mistakes
_FEWEST = 10  # samples that make a map


def confusion(run: Run) -> Section | None:
    """Of classes: which was taken for which, and the commonest mistakes."""
    if run.answers is None or isinstance(run.predictor.task, Regression):
        return None
    answer, truth = run.prediction, run.answers.y
    assert answer.probabilities is not None
    matrix = behaviour.confusion(answer.probabilities.argmax(1), truth, len(answer.classes))
    wrong = int(matrix.sum() - np.trace(matrix))
    text = f"{wrong:,} of {matrix.sum():,} {run.noun} are wrong."
    mistakes = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-mistakes, axis=None, kind="stable")[:_LISTED]
    pairs = [(i, j) for i, j in zip(*np.unravel_index(order, matrix.shape), strict=True) if mistakes[i, j]]
    rows = [(answer.classes[i], answer.classes[j], str(mistakes[i, j])) for i, j in pairs]
    tables = [Table(("true", "predicted", "times"), rows, "Commonest mistakes")] if rows else []
    figure = behaviour.confusion_figure(matrix, answer.classes)
    return Section("Right and wrong", text, [("Confusion matrix: true classes down, predicted across", figure)], tables)


def parity(run: Run) -> Section | None:
    """Of quantities: each against its truth, with intervals and residuals."""
    task = run.predictor.task
    if run.answers is None or not isinstance(task, Regression):
        return None
    answer, truth = run.prediction, run.answers.y
    assert answer.values is not None
    figures, rows = [], []
    for i, target in enumerate(task.targets):
        values, true = answer.values[:, i], truth[:, i]
        lower, upper = (None if ends is None else ends[:, i] for ends in (answer.lower, answer.upper))
        figure = behaviour.parity_figure(values, true, target.label, lower, upper, target.log)
        bars = "" if lower is None else f"; bars are {percent(COVERAGE, 0)} intervals"
        figures.append((f"{target.label}: predicted against true, and the difference{bars}", figure))
        error = values - true
        spread = float(np.var(true))
        r2 = f"{1 - np.mean(error**2) / spread:.4f}" if spread else "–"
        bias, mean, rms = np.mean(error), np.abs(error).mean(), np.sqrt(np.mean(error**2))
        rows.append((target.label, f"{mean:.4g}", f"{rms:.4g}", f"{bias:+.3g}", r2))
    table = Table(("quantity", "mean |error|", "RMSE", "bias", "R²"), rows, f"{len(truth):,} {run.noun}")
    return Section("Predicted against true", "", figures, [table])


def worst(run: Run) -> Section | None:
    """The samples with the worst answers."""
    if run.answers is None:
        return None
    answer, task, places = run.prediction, run.predictor.task, run.answers.shown[:_SHOWN]
    truth = run.answers.y[places]
    if isinstance(task, Regression):
        assert answer.values is not None
        captions = [
            f"{task.targets[k].name}: {answer.values[i, k]:.4g}, true {true[k]:.4g} {task.targets[k].unit}".rstrip()
            for i, k, true in zip(places, run.furthest, truth, strict=False)
        ]
        text = f"The {run.noun} with the largest errors, each with the quantity that is furthest off."
    else:
        assert answer.probabilities is not None
        labels, sure = answer.labels, answer.probabilities.max(1)
        captions = [
            f"{labels[i]} ({percent(sure[i], 0)}), true {task.classes[true]}"
            for i, true in zip(places, truth, strict=True)
        ]
        wrong = sum(labels[i] != task.classes[true] for i, true in zip(places, truth, strict=True))
        text = (
            f"The {run.noun} whose true class was thought least likely, with what the model said and how surely; "
            f"{wrong} of these {len(places)} are wrong."
        )
    figure = behaviour.samples_figure(run.answers.samples[: len(places)], captions, run.predictor.axes)
    return Section("The worst answers", text, [("The worst first, row by row", figure)])


def calibration(run: Run) -> Section | None:
    """Whether probabilities and intervals say how good the answers are."""
    task = run.predictor.task
    if run.answers is None:
        return None
    if isinstance(task, Regression):
        return _coverage(task, run)
    probabilities, truth = run.prediction.probabilities, run.answers.y
    assert probabilities is not None
    sure, right = probabilities.max(1).mean(), (probabilities.argmax(1) == truth).mean()
    verdict = "modest" if sure < right else "sure of itself"
    text = (
        f"On average the model gives its answer a probability of {percent(sure)} and is right in {percent(right)} of "
        f"cases: too {verdict} by {percent(abs(sure - right))}. "
        f"Expected calibration error: {percent(behaviour.calibration_error(probabilities, truth))}."
    )
    figure = behaviour.reliability_figure(probabilities, truth)
    return Section("Does it know when it is right?", text, [("How often it is right against how sure it is", figure)])


def _coverage(task: Regression, run: Run) -> Section | None:
    assert run.answers is not None
    out = torch.from_numpy(run.answers.out).double()
    error = (task.physical(out) - torch.from_numpy(run.answers.y)).abs()
    levels = [level for level in _LEVELS.tolist() if task.bounds(level)]
    if not levels:
        return None
    found = np.array([(error <= task.half_width(out, level)).double().mean(0).numpy() for level in levels])
    nearest = int(np.abs(np.array(levels) - COVERAGE).argmin())
    text = (
        f"Intervals that were asked to cover {percent(levels[nearest], 0)} of the truths cover "
        f"{percent(found[nearest].mean())} of them. They are split-conformal, calibrated on "
        f"{task.calibrated_on:,} validation samples."
    )
    figure = behaviour.coverage_figure(np.array(levels), found, [target.label for target in task.targets])
    return Section("Do the intervals hold?", text, [(f"Coverage found on {run.about} against coverage asked", figure)])


def against(run: Run) -> Section | None:
    """Errors against the columns that were asked for."""
    if run.answers is None or not run.columns:
        return None
    answer, truth, figures = run.prediction, run.answers.y, []
    text = "Errors against what else is known of the samples."
    if answer.probabilities is not None:
        errors = {"share wrong": answer.probabilities.argmax(1) != truth}
    else:
        assert answer.values is not None
        both = zip(answer.targets, answer.values.T, truth.T, strict=True)
        errors = {f"|error| of {target.label}": np.abs(values - true) for target, values, true in both}
    for label, column in run.columns.items():
        known = column != "" if column.dtype.kind == "U" else np.isfinite(column)
        text += "" if known.all() else f" {label} is not known of {(~known).sum():,} of {len(known):,}."
        for name, error in errors.items() if known.any() else ():
            figure = behaviour.error_figure(error[known], column[known], label, name)
            figures.append((f"{name} against {label}", figure))
    return Section("Where the errors come from", text, figures)


def features(run: Run) -> Section | None:
    """The samples on a plane, by what the model's head is given."""
    if run.answers is None or len(run.answers.mapped) < _FEWEST:
        return None
    task, truth = run.predictor.task, run.answers.y[run.answers.mapped]
    colour, label = (truth[:, 0], task.targets[0].label) if isinstance(task, Regression) else (truth, "class")
    classes = () if isinstance(task, Regression) else task.classes
    features = run.answers.features
    text = (
        f"{len(features):,} {run.noun} by the {features.shape[1]} features that the model's head is given. PCA is "
        "the flat view of the largest spread; t-SNE keeps neighbours, and distances between its groups mean nothing."
    )
    figures = []
    for method in behaviour.EMBEDDINGS:
        drawing = behaviour.embedding_figure(features, colour, f"true {label}", method, classes)
        figures.append((f"{method} of the features, coloured by {label}", drawing))
    return Section(f"The {run.noun} as the model sees them", text, figures)
