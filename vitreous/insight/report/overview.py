"""Sections on the run itself: its data, training curves, scores and settings, and how to reproduce it."""

import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np

from vitreous.data.source import PARTS, Target
from vitreous.insight import evaluation
from vitreous.insight.html_page import Section, Table, percent
from vitreous.insight.report.run import Run
from vitreous.insight.style import Figure
from vitreous.nn.models import describe
from vitreous.run.task import Regression

_EXAMPLES = 4  # typical samples that are drawn
_SHARES = ("accuracy", "f1", "top5", "mape", "coverage90")  # scores that are printed as a percentage
_SCORE_NAMES = {
    "r2": "R²",
    "mae": "mean error",
    "mape": "mean relative error",
    "f1": "F1",
    "coverage90": "coverage of 90 % intervals",
}


def headline(run: Run) -> list[tuple[str, str]]:
    """The most important numbers: main scores, steps and time."""
    part, scores = next(reversed(run.all_scores.items()), ("", {}))
    several = "mae" in scores and any(name.startswith("mae/") for name in scores)  # targets of different units
    chosen = [name for name in ("accuracy", *_SCORE_NAMES) if name in scores and not (several and name == "mae")]
    tiles = [(f"{_SCORE_NAMES.get(name, name)}, {part}", _format_score(name, scores[name])) for name in chosen]
    return [*tiles, *((name, f"{run.result[name]:,.0f}") for name in ("steps", "seconds") if name in run.result)]


def _format_score(name: str, value: float) -> str:
    return percent(value, 2) if name.partition("/")[0] in _SHARES else f"{value:.4g}"


def data(run: Run) -> Section:
    """Input, output and a few samples."""
    predictor = run.predictor
    channels, *grid = predictor.input
    ranges = [
        f"{axis.name} from {axis.origin:g} to {axis.origin + axis.spacing * (count - 1):g} {axis.unit}".rstrip()
        for axis, count in zip(predictor.axes, grid, strict=True)
    ]
    text = (
        f"{predictor.data}: samples of {' × '.join(map(str, grid))} points, {', '.join(ranges)}; "
        f"{'channel' if channels == 1 else 'channels'} {_join(predictor.channels)}. "
        f"Scaling: {predictor.scaling.kind}."
    )
    tables = []
    if run.experiment:
        tables.append(Table(("part", "samples"), [(part, f"{run.experiment['samples'][part]:,}") for part in PARTS]))
    if isinstance(predictor.task, Regression):
        statistics = zip(predictor.targets, predictor.task.mean, predictor.task.scale, strict=True)
        tables.append(Table(("quantity", "mean", "spread"), [_statistics(*each) for each in statistics]))
    else:
        text += f"\n\n{len(predictor.classes)} classes: {_join(predictor.classes)}."
    return Section("The data", text, _examples(run), tables)


def _examples(run: Run) -> list[tuple[str, Figure]]:
    if run.answers is None:
        return []
    targets, truth = run.predictor.targets, run.answers.y[run.answers.shown[-_EXAMPLES:]]
    if targets:
        captions = [f"{targets[0].name} {value:.4g} {targets[0].unit}".rstrip() for value in truth[:, 0]]
    else:
        captions = [run.predictor.classes[i] for i in truth]
    figure = evaluation.samples_figure(run.answers.samples[-_EXAMPLES:], captions, run.predictor.axes)
    return [(f"{len(truth)} of the {run.samples_noun}, with the true label", figure)]


def _statistics(target: Target, mean: float, scale: float) -> tuple[str, str, str]:
    if target.log:
        return target.label, f"{np.exp(mean):.4g} (geometric)", f"a factor of {np.exp(scale):.3g}"
    return target.label, f"{mean:.4g}", f"{scale:.3g}"


def _join(names: Sequence[str], most: int = 30) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def learning(run: Run) -> Section | None:
    """Training curves."""
    score = run.predictor.task.main_score
    steps, scores = evaluation.validation_curve(run.log, score)
    if not steps:
        return None
    best = (min if score == "rmse" else max)(scores)
    step = steps[scores.index(best)]
    text = f"Best validation {score}: {_format_score(score, best)}, at step {step:,} of {steps[-1]:,}."
    figure = evaluation.learning_figure(run.log, score)
    return Section("Training curves", text, [(f"Loss and validation {score} against steps", figure)])


def scores(run: Run) -> Section | None:
    """A table of all scores."""
    parts = run.all_scores
    if not parts:
        return None
    names = dict.fromkeys(name for values in parts.values() for name in values)
    columns = [
        [_format_score(name, values[name]) if name in values else "" for name in names] for values in parts.values()
    ]
    return Section("All scores", tables=[Table(("score", *parts), list(zip(names, *columns, strict=True)))])


def configuration(run: Run) -> Section:
    """All settings, and the versions of the software."""
    settings = {"Model": describe(run.predictor.model.config)}
    if run.experiment:
        others = ("scale", "loss", "label_smoothing", "hypotheses", "validation", "test")
        settings["Training"] = run.experiment["train"] | {name: run.experiment[name] for name in others}
        settings["Augmentation"] = {name: value for name, value in run.experiment["augment"].items() if value}
        settings["Made with"] = run.experiment["made_with"]
    tables = [
        Table(("setting", "value"), [(name, _format_setting(value)) for name, value in values.items()], caption)
        for caption, values in settings.items()
    ]
    return Section("Configuration", tables=tables)


def _format_setting(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_format_setting, value)) or "–"
    return f"{value:g}" if isinstance(value, float) else str(value) or "–"


def reproduce(run: Run) -> Section:
    """The commands that reproduce the run and this report."""
    command = run.experiment.get("command", [])
    training = [[*command, "--out", run.name]] if command else []
    report = ["vitreous", "report", run.name, *run.options, "--out", "report.html"]
    from_python = run.experiment and not command
    text = "The run was started from Python with the settings above." if from_python else ""
    return Section("How to reproduce it", text, code="\n".join(map(shlex.join, [*training, report])))
