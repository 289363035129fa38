"""What train, pretrain, prune, eval, compare, sweep, report, export and explain do, apart from their flags."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.table import Table

from vitreous import texts
from vitreous.atomic import write_atomically
from vitreous.data import BUILTIN, Source, read, read_columns, split
from vitreous.data.source import PARTS
from vitreous.errors import InputError, check_choice
from vitreous.export.int8 import CALIBRATION
from vitreous.export.make import Exported, check_file, make, make_int8
from vitreous.export.parity import examples
from vitreous.gallery import ENTRIES
from vitreous.insight.attention import attends
from vitreous.insight.explain import explain as explain_sample
from vitreous.insight.explain import explain_heads
from vitreous.insight.pretraining import pretraining_figure
from vitreous.insight.report import Run, read_run, write_report
from vitreous.insight.style import check_format, save
from vitreous.insight.sweep import effects_figure
from vitreous.kind import translates
from vitreous.nn.pretraining import PretrainConfig
from vitreous.nn.vit import ViT
from vitreous.predict import inputs, sample_at
from vitreous.train.answers import collect, evenly, read_answers
from vitreous.train.folder import read_experiment, read_result
from vitreous.train.predictor import Predictor, load
from vitreous.train.pretrain import PretrainExperiment, panels, pretrain
from vitreous.train.pretrain import pretraining as as_pretraining
from vitreous.train.prune import prune
from vitreous.train.recipes import RECIPES, TEXTS
from vitreous.train.recipes.own import own
from vitreous.train.run import Experiment, adjusted, train
from vitreous.train.start import read_start
from vitreous.train.sweep import FACTORS, sweep
from vitreous.train.task import Regression
from vitreous.train.translate import TextExperiment, train_text
from vitreous.zoo.show import console


def experiment(
    what: str,
    targets: Sequence[str],
    model: str | None,
    changes: dict[str, Any],
    system: str | None = None,
    start: Path | None = None,
) -> Experiment:
    """A recipe by its name, or the template for data of one's own; `changes` to its training, None for none.

    `model` and, where the recipe is for one, the crystal `system` are the recipe's own if None. `start` is the run
    whose encoder it begins with.
    """
    chosen = {name: value for name, value in (("model", model), ("system", system)) if value is not None}
    if start is not None and changes.get("scale"):
        raise InputError("scale: samples are scaled as the run scaled them that the training begins from")
    if start is None and changes.get("layer_decay") is not None:
        raise InputError("layer_decay: is for a training that begins with the encoder of a run (--from)")
    begun = None if start is None else read_start(start)
    if what in RECIPES:
        if targets:
            raise InputError(f"target: the recipe {what!r} knows its own; targets are named for data of your own")
        if system is not None and not _has_system(what):
            raise InputError(f"system: the recipe {what!r} has none")
        found = RECIPES[what](**chosen)
    elif what in BUILTIN or Path(what).exists():
        if system is not None:
            raise InputError("system: data of your own have none")
        scale = changes.get("scale") if begun is None else begun.scaling.kind
        found = own(read(what, targets), **chosen, scale=scale or "")
    else:
        if what in TEXTS:
            raise InputError(f"{what}: is a recipe of texts, which vitreous train alone takes")
        raise InputError(f"train: {what!r} is neither a file or folder nor a recipe ({', '.join([*RECIPES, *TEXTS])})")
    command = _words("train", what, targets, chosen | changes | {"from": start})
    return replace(adjusted(found, changes), command=command, start=begun)


def pretraining(
    what: str,
    targets: Sequence[str],
    method: dict[str, Any],
    changes: dict[str, Any],
    system: str | None = None,
) -> PretrainExperiment:
    """The pre-training for a recipe's samples or for those of one's own, whose `targets` are left out."""
    made = experiment(what, targets, None, changes, system)
    chosen = {name: value for name, value in method.items() if value is not None}
    command = _words("pretrain", what, targets, chosen | {"system": system} | changes)
    return replace(as_pretraining(made, PretrainConfig(**chosen)), command=command)


def run_pretraining(made: PretrainExperiment, out: Path, resume: bool, device: str, tensorboard: bool) -> None:
    """Pre-train, print how it went and draw what became of a few samples."""
    result = pretrain(made, out, resume, device, tensorboard)
    figure = out / "pretraining.png"
    save(pretraining_figure(panels(made, out), made.method.method), figure)
    _print_run(out, result)
    console().print(f"What the model made of a few samples is drawn in {figure}", highlight=False)


def text_experiment(
    what: str,
    targets: Sequence[str],
    model: str | None,
    changes: dict[str, Any],
    system: str | None = None,
    start: Path | None = None,
) -> TextExperiment:
    """The same for a recipe of texts."""
    if targets or any(option is not None for option in (system, start, changes.get("scale"))):
        raise InputError(f"target, system, from, scale: the recipe {what!r} has none")
    found = texts.adjusted(TEXTS[what](**({} if model is None else {"model": model})), changes)
    return replace(found, command=_words("train", what, (), {"model": model} | changes))


def _words(verb: str, what: str, targets: Sequence[str], options: Mapping[str, Any]) -> tuple[str, ...]:
    """The command that makes a run; options that are None were not given."""
    words = ["vitreous", verb, what, *(["--target", *targets] if targets else [])]
    for name, value in options.items():
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            words += [flag] if value is True else [flag, str(value)]
    return tuple(words)


def _has_system(recipe: str) -> bool:
    return "system" in inspect.signature(RECIPES[recipe]).parameters


def pruning(run: Path, budget: float, data: str | None, targets: Sequence[str], changes: dict[str, Any]) -> Experiment:
    """The training of a run's thresholds on the data that it was trained on, or on others."""
    predictor, told = load(run), read_experiment(run)
    what, options = _command(told)
    if what is None and data is None:
        raise InputError(f"{run}: does not say on which data it was trained; name them with --data")
    model, system = (options.get(name, (None,))[0] for name in ("model", "system"))
    made = experiment(data or what or "", targets or options.get("target", ()), model, {}, system)
    _check_labels(made.source, predictor)
    words = [f"--{name}={value}" for name, value in (("data", data), *changes.items()) if value is not None]
    words += ["--target", *targets] if targets else []
    command = ("vitreous", "prune", str(run), f"--budget={budget:g}", *words)
    return prune(predictor, replace(made, command=command), told, budget, changes)


def _command(made: Mapping[str, Any]) -> tuple[str | None, dict[str, list[str]]]:
    """What the `vitreous train` that made a run was given, and the words after each of its flags."""
    words: Sequence[str] = made.get("command") or ()
    if list(words[:2]) != ["vitreous", "train"]:
        return None, {}
    options: dict[str, list[str]] = {}
    for word in words[3:]:
        if word.startswith("--"):
            options[word.removeprefix("--")] = []
        else:
            options[next(reversed(options))].append(word)
    return words[2], options


def run_training(made: Experiment | TextExperiment, out: Path, resume: bool, device: str, tensorboard: bool) -> None:
    """Train, and print how good the result is."""
    others = resume, device, tensorboard
    result = train_text(made, out, *others) if isinstance(made, TextExperiment) else train(made, out, *others)
    _print_run(out, result)
    recipe = made.command[2] if made.command else ""
    for path in ENTRIES[recipe].draw(out) if recipe in ENTRIES else ():
        console().print(f"The physics is drawn in {path}", highlight=False)


def _print_run(out: Path, result: Mapping[str, Any]) -> None:
    """How good a run is that has just ended, and where it is."""
    print_results([out])
    console().print(f"{result['steps']} steps, {result['seconds']:.0f} s; the run is in {out}", highlight=False)


def print_results(runs: Sequence[Path]) -> None:
    """One table of all runs: their size, time and scores on the test part."""
    results = {str(run): read_result(run) for run in runs}
    part = {run: "test" if "test" in result else "validation" for run, result in results.items()}
    scores = list(dict.fromkeys(name for run, result in results.items() for name in result.get(part[run], {})))
    scores = _worth_showing(scores)
    title = f"Scores on the {' or '.join(dict.fromkeys(part.values()))} part"
    forms = {"parameters": ",", "steps": ",", "seconds": ".0f"} | dict.fromkeys(scores, ".4g")
    rows = [["run", *forms]]
    for run, result in results.items():
        known = result | result.get(part[run], {})
        rows.append([run, *(f"{known[name]:{form}}" if name in known else "" for name, form in forms.items())])
    table, turned = _table(title, rows), _table(title, [*zip(*rows, strict=True)])  # a line each run, or each score
    console().print(table if _width(table) <= max(console().width, _width(turned)) else turned)


def _width(table: Table) -> int:
    """Of a table that has all the room that it wants."""
    return console().measure(table, options=console().options.update_width(1 << 20)).maximum


def _table(title: str, rows: Sequence[Sequence[str]]) -> Table:
    """Of a line of headings and lines of numbers, each of which begins with its name."""
    table = Table(title=title)
    for heading in rows[0]:
        table.add_column(heading, justify="right" if table.columns else "left")
    for row in rows[1:]:
        table.add_row(*row)
    return table


def _worth_showing(scores: Iterable[str]) -> list[str]:
    """Of several targets all scores would not fit on a screen."""
    names = [name for name in scores if name not in ("loss", "rmse_scaled")]
    if not any("/" in name for name in names):
        return names
    return [name for name in names if name.startswith("mae/") or name in ("r2", "coverage90")]


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


def evaluate(
    run: Path, data: str | None, targets: Sequence[str], part: str, merge: Sequence[int] = ()
) -> dict[str, float]:
    """Scores of a run on labelled data: on one part of them, or on all; `merge` tokens in every block.

    A run that translates knows its own data.
    """
    if translates(run):
        texts.refuse(run, {"target": targets, "merge": merge})
        return texts.score(run, data, part)
    if data is None:
        raise InputError(f"data: name labelled data on which {run} is to be scored")
    predictor = load(run)
    source = read(data, targets)
    rows = rows_of(run, predictor, source, part)
    samples = predictor.check(predictor.on_axis(source)[rows])
    assert source.y is not None
    with predictor.merging(merge):
        return predictor.score(samples, source.y[rows])


def report(
    run: Path, out: Path | None, data: str | None, targets: Sequence[str], part: str, against: Sequence[str]
) -> Path:
    """Write the report of a run, from its folder or on the named data; returns where it is."""
    told, out = read_run(run), out or run / "report.html"
    if not out.parent.is_dir():
        raise InputError(f"{out}: cannot be written (there is no folder {out.parent})")
    for name, given in (("target", targets), ("against", against), ("part", part != "test")):
        if data is None and given:
            raise InputError(f"{name}: is of data that are named with --data; {run} keeps the answers on its test part")
    write_report(told if data is None else _on_data(told, run, data, targets, part, against), out)
    return out


def _on_data(told: Run, run: Path, data: str, targets: Sequence[str], part: str, against: Sequence[str]) -> Run:
    """What a run tells, but of its answers to the named data."""
    predictor, task = told.predictor, told.predictor.task
    source = labelled(data, targets, told.experiment)
    if against and not Path(data).is_file():
        raise InputError(f"against: is a column of a file of spectra; {data} has none")
    columns = read_columns(data, against) if against else {}
    rows = rows_of(run, predictor, source, part)
    x = predictor.on_axis(source)
    predictor.check(x[rows[:1]])
    assert source.y is not None
    out, answers = collect(predictor.model, task, predictor.scaling, x, source.y, rows)
    given = (("data", [data]), ("target", targets), ("part", [part] if part != "test" else []), ("against", against))
    return replace(
        told,
        answers=answers,
        data=source.name,
        part=part,
        scores=task.metrics(out, task.encode(source.y[rows])),
        columns={label: values[answers.rows] for label, values in columns.items()},
        options=[word for name, words in given if words for word in (f"--{name}", *words)],
    )


def labelled(data: str, targets: Sequence[str], made: Mapping[str, Any]) -> Source:
    """A recipe's data, of the crystal system that the run was made for, or data of one's own."""
    if data not in RECIPES:
        return read(data, targets)
    system = _command(made)[1].get("system", ())
    return experiment(data, targets, None, {}, *system if _has_system(data) else ()).source


def export(run: Path, out: Path, form: str, int8: bool, data: str | None, targets: Sequence[str]) -> None:
    """Write a run's model to one file that needs less to answer; print how far it is from the run."""
    check_file(out, form)
    if int8 and form != "onnx":
        raise InputError(f"int8: is for --format onnx, found {form}")
    if not int8 and (data is not None or targets):
        raise InputError("data, target: the labelled data on which the loss of --int8 is measured; leave them out here")
    predictor = load(run)
    samples = examples(predictor, read_answers(run))
    if not int8:
        made = make(predictor, form, samples)
    else:
        source = _of_run(run, data, targets)
        shown, rows = (rows_of(run, predictor, source, part) for part in ("train", "test"))
        if not len(rows):
            raise InputError(f"int8: {source.name} has no test part on which its loss could be measured")
        x, shown = predictor.on_axis(source), shown[evenly(len(shown), CALIBRATION)]
        made = make(predictor, form, samples)
        made = make_int8(made, predictor, samples, predictor.check(x[shown]))
        _print_loss(predictor, made, predictor.check(x[rows]), source, rows)
    apart = " and ".join(f"{value:.1e} at batch {size}" for size, value in made.parity.items())
    write_atomically(out, made.content)
    console().print(f"Largest difference from the run: {apart}", highlight=False)
    console().print(f"{len(made.content) / 1e6:.2f} MB; the model is in {out}", highlight=False)


def _of_run(run: Path, data: str | None, targets: Sequence[str]) -> Source:
    """The named data, or those that a run says it was trained on."""
    if data is not None:
        return labelled(data, targets, read_experiment(run))
    what, options = _command(read_experiment(run))
    if what is None:
        raise InputError(f"int8: {run} does not say what it was trained on; name labelled data with --data")
    try:
        return experiment(what, options.get("target", ()), None, {}, *options.get("system", ())).source
    except InputError as fault:
        raise InputError(f"int8: its loss cannot be measured ({fault}); name labelled data with --data") from None


def _print_loss(predictor: Predictor, made: Exported, x: NDArray[Any], source: Source, rows: NDArray[np.intp]) -> None:
    """One table of a run's scores and of those that int8 leaves."""
    assert source.y is not None
    truth = predictor.task.encode(source.y[rows])
    both = [
        predictor.task.metrics(out, truth)
        for out in (predictor.outputs(x), torch.from_numpy(np.asarray(made.predictor.outputs(x))))
    ]
    table = Table(title=f"What int8 costs on the {len(rows):,} samples of the test part of {source.name}")
    for heading in ("score", "run", "int8", "change"):
        table.add_column(heading, justify="left" if heading == "score" else "right")
    for name in _worth_showing(both[0]):
        before, after = (scores[name] for scores in both)
        table.add_row(name, f"{before:.5g}", f"{after:.5g}", f"{after - before:+.2g}")
    console().print(table)


def rows_of(run: Path, predictor: Predictor, source: Source, part: str) -> NDArray[np.intp]:
    """Rows of labelled data that make a part, split as the run split its own."""
    check_choice("part", part, ("all", *PARTS))
    _check_labels(source, predictor)
    if part == "all":
        return np.arange(len(source))
    made = read_experiment(run)
    shares = (made["validation"], made["test"], made["train"]["seed"]) if made else ()
    rows: NDArray[np.intp] = getattr(split(source, *shares), part)
    if not len(rows):
        raise InputError(f"part: {run} was made without a {part} part; choose another, or all of {source.name}")
    return rows


def _check_labels(source: Source, predictor: Predictor) -> None:
    task = predictor.task
    wanted = [t.name for t in task.targets] if isinstance(task, Regression) else list(task.classes)
    found = [t.name for t in source.targets] if source.targets else list(source.classes)
    if source.y is None or found != wanted:
        raise InputError(f"{source.name}: found labels {', '.join(found) or 'none'}, the run knows {', '.join(wanted)}")


def explain(
    run: Path, file: str, out: Path, row: int, target: str | None, layers: Sequence[int], heads: bool,
    anode: str | None, wavelength: float | None, merge: Sequence[int] = (),
) -> Sequence[str]:  # fmt: skip
    """Draw why a run answers as it does to one sample of a file; returns what there is to say about it."""
    check_format(out)
    if translates(run):
        others = {"row": row, "target": target, "layer": layers, "heads": heads, "anode": anode}
        texts.refuse(run, others | {"wavelength": wavelength, "merge": merge})
        return texts.draw(run, file, out)
    predictor = load(run)
    if (heads or layers) and not attends(predictor.model):
        kind = "has blocks without mixing and" if isinstance(predictor.model, ViT) else "is a CNN, which"
        raise InputError(f"heads: {run} {kind} has no attention; leave it out for attributions")
    if file in BUILTIN:
        x = BUILTIN[file]().x
        name, sample = sample_at(row, [([f"{file}:{i}" for i in range(len(x))], x)], file)
    else:
        name, sample = sample_at(row, inputs(predictor, run, [Path(file)], anode, wavelength), file)
    with predictor.merging(merge):
        told = (
            explain_heads(predictor, sample, layers or None, target, Path(name).name)
            if heads or layers
            else explain_sample(predictor, sample, target, Path(name).name)
        )
    save(told.figure, out)
    return told.text
