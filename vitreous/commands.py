"""What the commands train, prune, eval, predict, compare, sweep, report and explain do, apart from their flags."""

import csv
import inspect
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from vitreous.data import BUILTIN, Source, read, read_image_files, split
from vitreous.data.source import PARTS
from vitreous.errors import InputError, check_choice
from vitreous.insight.explain import explain as explain_sample
from vitreous.insight.explain import explain_heads
from vitreous.insight.report import read_run, write_report
from vitreous.insight.style import check_format, save
from vitreous.insight.sweep import effects_figure
from vitreous.nn.merge import merged
from vitreous.nn.vit import ViT
from vitreous.powder.files import read_pattern, to_grid
from vitreous.sim.source import Q_AXIS
from vitreous.train.answers import collect
from vitreous.train.predictor import Prediction, Predictor, load
from vitreous.train.prune import prune
from vitreous.train.recipes import RECIPES
from vitreous.train.recipes.own import own
from vitreous.train.run import RESULT, Experiment, adjusted, read_experiment, train
from vitreous.train.sweep import FACTORS, sweep
from vitreous.train.task import Regression
from vitreous.zoo.show import console


def experiment(
    what: str, targets: Sequence[str], model: str | None, changes: dict[str, Any], system: str | None = None
) -> Experiment:
    """A recipe by its name, or the template for data of one's own; `changes` to its training, None for none.

    `model` and, where the recipe is for one, the crystal `system` are the recipe's own if None.
    """
    chosen = {name: value for name, value in (("model", model), ("system", system)) if value is not None}
    if what in RECIPES:
        if targets:
            raise InputError(f"target: the recipe {what!r} knows its own; targets are named for data of your own")
        if system is not None and "system" not in inspect.signature(RECIPES[what]).parameters:
            raise InputError(f"system: the recipe {what!r} has none")
        found = RECIPES[what](**chosen)
    elif what in BUILTIN or Path(what).exists():
        if system is not None:
            raise InputError("system: data of your own have none")
        found = own(read(what, targets), **chosen)
    else:
        raise InputError(f"train: {what!r} is neither a file or folder nor a recipe ({', '.join(RECIPES)})")
    options = [*chosen.items(), *((name, value) for name, value in changes.items() if value is not None)]
    words = ["vitreous", "train", what, *(["--target", *targets] if targets else [])]
    for name, value in options:
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return replace(adjusted(found, changes), command=tuple(words))


def pruning(run: Path, budget: float, data: str | None, targets: Sequence[str], changes: dict[str, Any]) -> Experiment:
    """The training of a run's thresholds on the data that it was trained on, or on others."""
    predictor, told = load(run), read_experiment(run)
    what, options = _command(told.get("command", ()))
    if what is None and data is None:
        raise InputError(f"{run}: does not say on which data it was trained; name them with --data")
    model, system = (options.get(name, (None,))[0] for name in ("model", "system"))
    made = experiment(data or what or "", targets or options.get("target", ()), model, {}, system)
    _check_labels(made.source, predictor)
    words = [f"--{name}={value}" for name, value in (("data", data), *changes.items()) if value is not None]
    command = (
        "vitreous",
        "prune",
        str(run),
        f"--budget={budget:g}",
        *words,
        *(["--target", *targets] if targets else []),
    )
    return prune(predictor, replace(made, command=command), told, budget, changes)


def _command(words: Sequence[str]) -> tuple[str | None, dict[str, list[str]]]:
    """What a `vitreous train` command was given, and its options, as `experiment` wrote them down."""
    if list(words[:2]) != ["vitreous", "train"]:
        return None, {}
    options: dict[str, list[str]] = {}
    for word in words[3:]:
        if word.startswith("--"):
            options[word.removeprefix("--")] = []
        else:
            options[list(options)[-1]].append(word)
    return words[2], options


def run_training(made: Experiment, out: Path, resume: bool, device: str, tensorboard: bool) -> None:
    """Train, and print how good the result is."""
    result = train(made, out, resume=resume, device=device, tensorboard=tensorboard)
    print_results([out])
    console().print(f"{result['steps']} steps, {result['seconds']:.0f} s; the run is in {out}", highlight=False)


def print_results(runs: Sequence[Path]) -> None:
    """One table of all runs: their size, time and scores on the test part."""
    results = {str(run): _result(run) for run in runs}
    part = {run: "test" if "test" in result else "validation" for run, result in results.items()}
    scores = list(dict.fromkeys(name for run, result in results.items() for name in result.get(part[run], {})))
    scores = [name for name in scores if name not in ("loss", "rmse_scaled")]
    if any("/" in name for name in scores):  # of several targets: all of their scores would not fit on a screen
        scores = [name for name in scores if name.startswith("mae/") or name in ("r2", "coverage90")]
    table = Table(title=f"Scores on the {' or '.join(dict.fromkeys(part.values()))} part")
    for heading in ("run", "parameters", "steps", "seconds", *scores):
        table.add_column(heading, justify="left" if heading == "run" else "right")
    for run, result in results.items():
        found = result.get(part[run], {})
        cells = [f"{found[name]:.4g}" if name in found else "" for name in scores]
        table.add_row(run, f"{result['parameters']:,}", f"{result['steps']:,}", f"{result['seconds']:.0f}", *cells)
    console().print(table)


def run_sweep(made: Experiment, folder: Path, space: dict[str, Sequence[int]], device: str) -> None:
    """Train every combination; print one table, best first, and draw the effect of each factor."""
    records = sweep(made, folder, space, device)
    name, sign = ("accuracy", -1) if made.source.classes else ("rmse", 1)
    table = Table(title=f"Sweep, best test {name} first")
    for heading in records[0]:
        table.add_column(heading, justify="right")
    for record in sorted(records, key=lambda found: sign * found["score"]):
        table.add_row(*(f"{value:.4f}" if key == "score" else f"{value:g}" for key, value in record.items()))
    console().print(table)
    figure = folder / "effects.png"
    effects_figure(records, FACTORS, f"test {name}", figure)
    console().print(f"The effect of each factor is drawn in {figure}", highlight=False)


def _result(run: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((run / RESULT).read_text())
    except OSError:
        raise InputError(f"{run}: is no finished run ({RESULT} is missing)") from None
    except ValueError:
        raise InputError(f"{run / RESULT}: is damaged") from None
    return found


def evaluate(run: Path, data: str, targets: Sequence[str], part: str, merge: int = 0) -> dict[str, float]:
    """Scores of a run on labelled data: on one part of them, or on all; `merge` tokens in every block."""
    predictor = load(run)
    source = read(data, targets)
    rows = rows_of(run, predictor, source, part)
    samples = predictor.check(predictor.on_axis(source)[rows])
    assert source.y is not None
    with merged(predictor.model, merge):
        return predictor.score(samples, source.y[rows])


def report(
    run: Path, out: Path | None, data: str | None, targets: Sequence[str], part: str, against: Sequence[str]
) -> Path:
    """Write the report of a run, from its folder or on the named data; returns where it is."""
    told, out = read_run(run), out or run / "report.html"
    if not out.parent.is_dir():
        raise InputError(f"{out}: cannot be written (there is no folder {out.parent})")
    if data is None and (targets or against):
        raise InputError(f"{'target' if targets else 'against'}: is a column of data that are named with --data")
    if data is not None:
        source = RECIPES[data]().source if data in RECIPES else read(data, targets)
        predictor = told.predictor
        rows = rows_of(run, predictor, source, part)
        x = predictor.on_axis(source)
        predictor.check(x[rows[:1]])
        assert source.y is not None
        answers = collect(predictor.model, predictor.task, predictor.scaling, x, source.y, rows)
        columns = dict(_column(data, name, answers.rows) for name in against)
        about = source.name if part == "all" else f"the {part} part of {source.name}"
        told = replace(told, answers=answers, about=about, columns=columns)
    write_report(told, out)
    return out


def _column(data: str, name: str, rows: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """The label of a column and what it says of the rows."""
    source = read(data, (name,))
    assert source.y is not None
    if source.classes:
        return name, np.array(source.classes)[source.y[rows]]
    return source.targets[0].label, source.y[rows, 0]


def rows_of(run: Path, predictor: Predictor, source: Source, part: str) -> NDArray[np.intp]:
    """Rows of labelled data that make a part, split as the run split its own."""
    check_choice("part", part, ("all", *PARTS))
    _check_labels(source, predictor)
    if part == "all":
        return np.arange(len(source))
    made = read_experiment(run)
    shares = (made["validation"], made["test"], made["train"]["seed"]) if made else ()
    rows: NDArray[np.intp] = getattr(split(source, *shares), part)
    return rows


def _check_labels(source: Source, predictor: Predictor) -> None:
    task = predictor.task
    wanted = [t.name for t in task.targets] if isinstance(task, Regression) else list(task.classes)
    found = [t.name for t in source.targets] if source.targets else list(source.classes)
    if source.y is None or found != wanted:
        raise InputError(f"{source.name}: found labels {', '.join(found) or 'none'}, the run knows {', '.join(wanted)}")


def predict(
    run: Path,
    files: Sequence[Path],
    coverage: float | None,
    anode: str | None = None,
    wavelength: float | None = None,
    merge: int = 0,
) -> list[dict[str, Any]]:
    """One record for every sample of the files; `anode` or `wavelength` (Å) are for powder patterns."""
    predictor = load(run)
    with merged(predictor.model, merge):
        return [
            record
            for names, samples in _inputs(predictor, run, files, anode, wavelength)
            for record in _records(names, predictor(samples, coverage))
        ]


def explain(
    run: Path, file: str, out: Path, row: int, target: str | None, layers: Sequence[int], heads: bool,
    anode: str | None, wavelength: float | None, merge: int = 0,
) -> Sequence[str]:  # fmt: skip
    """Draw why a run answers as it does to one sample of a file; returns what there is to say about it."""
    check_format(out)
    predictor = load(run)
    if (heads or layers) and not isinstance(predictor.model, ViT):
        raise InputError(f"heads: {run} is a CNN, which has no attention; leave it out for attributions")
    if file in BUILTIN:
        samples = BUILTIN[file]().x
        names = [f"{file}:{i}" for i in range(len(samples))]
    else:
        ((names, samples),) = _inputs(predictor, run, [Path(file)], anode, wavelength)
    if not 0 <= row < len(names):
        raise InputError(f"row: found {row}, but {file} holds {len(names)} sample(s), counted from 0")
    with merged(predictor.model, merge):
        told = (
            explain_heads(predictor, samples[row], layers or None, target, Path(names[row]).name)
            if heads or layers
            else explain_sample(predictor, samples[row], target, Path(names[row]).name)
        )
    save(told.figure, out)
    return told.text


def _inputs(
    predictor: Predictor, run: Path, files: Sequence[Path], anode: str | None, wavelength: float | None
) -> Iterator[tuple[list[str], NDArray[Any]]]:
    """Names and samples of the files, as the run takes them: together where they have one a file."""
    names = [str(file) for file in files]
    if [(axis.name, axis.unit) for axis in predictor.axes] == [(Q_AXIS.name, Q_AXIS.unit)]:
        yield names, np.stack([_on_q(predictor, file, anode, wavelength) for file in files])
        return
    for name, value in (("anode", anode), ("wavelength", wavelength)):
        if value is not None:
            raise InputError(f"{name}: is for powder patterns; {run} was trained on {predictor.data}")
    if len(predictor.axes) == 2:
        channels, *size = predictor.model.config.input
        yield names, read_image_files(names, channels=channels, size=(size[0], size[1])).x
        return
    for name in names:
        source = read(name)
        yield [f"{name}:{row}" for row in range(len(source))], predictor.on_axis(source)


def _on_q(predictor: Predictor, file: Path, anode: str | None, wavelength: float | None) -> NDArray[np.float64]:
    """A measured pattern on the run's grid of the scattering vector."""
    (axis,) = predictor.axes
    grid = axis.origin + axis.spacing * np.arange(predictor.model.config.input[1], dtype=np.float64)
    pattern = read_pattern(file, wavelength, anode)
    values = to_grid(pattern, grid)
    if not np.any(values > 0):
        raise InputError(f"{file}: has nothing from q = {grid[0]:g} to {grid[-1]:.4g} {axis.unit}, where the run looks")
    return values


def _records(names: Sequence[str], answer: Prediction) -> list[dict[str, Any]]:
    return [{"sample": name, **row} for name, row in zip(names, answer.rows(), strict=True)]


def as_text(records: Sequence[dict[str, Any]], form: str) -> str:
    """Records as CSV or JSON."""
    check_choice("format", form, ("csv", "json"))
    if form == "json":
        return json.dumps(list(records), indent=1) + "\n"
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
