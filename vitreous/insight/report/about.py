"""What the run is: its data, its training, its settings, and how to make it again."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vitreous.data import PARTS
from vitreous.insight import behaviour
from vitreous.insight.report.run import Run
from vitreous.nn.models import describe
from vitreous.page import Section, Table, percent
from vitreous.train.task import Regression

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_EXAMPLES = 4  # typical samples
_SHARES = ("accuracy", "f1", "top5", "mape", "coverage90")
_NAMES = {
    "r2": "R²",
    "mae": "mean error",
    "mape": "mean relative error",
    "f1": "F1",
    "coverage90": "90 % intervals hold",
}


def headline(run: Run) -> list[tuple[str, str]]:
    """The few numbers that matter."""
    part, scores = next(reversed(run.known_scores.items()), ("", {}))
    several = "mae" in scores and any(name.startswith("mae/") for name in scores)  # whose units may differ
    wanted = [name for name in ("accuracy", *_NAMES) if name in scores and not (several and name == "mae")]
    found = [(f"{_NAMES.get(name, name)}, {part}", _score(name, scores[name])) for name in wanted]
    return [*found, *((name, f"{run.result[name]:,.0f}") for name in ("steps", "seconds") if name in run.result)]


def _score(name: str, value: float) -> str:
    return percent(value, 2) if name.partition("/")[0] in _SHARES else f"{value:.4g}"


def data(run: Run) -> Section:
    """What goes in and what comes out, with a few samples."""
    predictor, task = run.predictor, run.predictor.task
    channels, *grid = predictor.model.config.input
    ends = [
        f"{axis.name} from {axis.origin:g} to {axis.origin + axis.spacing * (count - 1):g} {axis.unit}".rstrip()
        for axis, count in zip(predictor.axes, grid, strict=True)
    ]
    text = (
        f"{predictor.data}: samples of {' × '.join(map(str, grid))} points, {', '.join(ends)}; "
        f"{'channel' if channels == 1 else 'channels'} {_several(predictor.channels)}. "
        f"Scaling: {predictor.scaling.kind}."
    )
    tables = []
    if run.experiment:
        tables.append(Table(("part", "samples"), [(part, f"{run.experiment['samples'][part]:,}") for part in PARTS]))
    if isinstance(task, Regression):
        tables.append(Table(("quantity", "mean", "spread"), [_spread(task, i) for i in range(len(task.targets))]))
    else:
        text += f"\n\n{len(task.classes)} classes: {_several(task.classes)}."
    return Section("The data", text, _examples(run), tables)


def _examples(run: Run) -> "list[tuple[str, Figure]]":
    if run.answers is None:
        return []
    few, task = run.answers.shown[-_EXAMPLES:], run.predictor.task
    truth = run.answers.y[few]
    if isinstance(task, Regression):
        target = task.targets[0]
        captions = [f"{target.name} {value:.4g} {target.unit}".rstrip() for value in truth[:, 0]]
    else:
        captions = [task.classes[i] for i in truth]
    figure = behaviour.samples_figure(run.answers.samples[-_EXAMPLES:], captions, run.predictor.axes)
    return [(f"{len(few)} of the {run.noun}, with the truth", figure)]


def _spread(task: Regression, i: int) -> tuple[str, str, str]:
    target, mean, scale = task.targets[i], task.mean[i], task.scale[i]
    if target.log:
        return target.label, f"{np.exp(mean):.4g} (geometric)", f"a factor of {np.exp(scale):.3g}"
    return target.label, f"{mean:.4g}", f"{scale:.3g}"


def _several(names: Sequence[str], most: int = 30) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def learning(run: Run) -> Section | None:
    """The learning curves."""
    if not any("validation" in line for line in run.log):
        return None
    score = run.score
    seen = [(line["step"], line["validation"][score]) for line in run.log if "validation" in line]
    best = (min if score == "rmse" else max)(seen, key=lambda point: point[1])
    text = f"The best validation {score}, {_score(score, best[1])}, was reached at step {best[0]:,} of {seen[-1][0]:,}."
    figure = behaviour.learning_figure(run.log, score)
    return Section("How the training went", text, [(f"Loss and validation {score} against steps", figure)])


def scores(run: Run) -> Section | None:
    """Every score that the run knows of itself."""
    parts = run.known_scores
    names = dict.fromkeys(name for found in parts.values() for name in found)
    rows = [(name, *(_score(name, found[name]) if name in found else "" for found in parts.values())) for name in names]
    return Section("All scores", tables=[Table(("score", *parts), rows)]) if parts else None


def configuration(run: Run) -> Section:
    """All settings, and what the run was made with."""
    settings = {"Model": describe(run.predictor.model.config)}
    if run.experiment:
        others = ("scale", "loss", "label_smoothing", "hypotheses", "validation", "test")
        settings["Training"] = run.experiment["train"] | {name: run.experiment[name] for name in others}
        settings["Augmentation"] = {name: value for name, value in run.experiment["augment"].items() if value}
        settings["Made with"] = run.experiment["made_with"]
    tables = [
        Table(("setting", "value"), [(name, _plain(value)) for name, value in values.items()], caption)
        for caption, values in settings.items()
    ]
    return Section("Configuration", tables=tables)


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value)) or "–"
    return f"{value:g}" if isinstance(value, float) else str(value) or "–"


def again(run: Run) -> Section:
    """The commands that make the run and its report."""
    command = run.experiment.get("command", [])
    made = [[*command, "--out", run.name]] if command else []
    report = ["vitreous", "report", run.name, *run.options, "--out", "report.html"]
    python = run.experiment and not command
    text = "The run was put together in Python; the settings above are all that decides it." if python else ""
    return Section("Make it again", text, code="\n".join(map(shlex.join, [*made, report])))
