"""Jobs and data by name: those of a recipe, or of one's own files."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError, check_choice
from vitreous.data import BUILTIN, PARTS, Source, read, split
from vitreous.data.source import label_names
from vitreous.recipes import RECIPES, load_recipe
from vitreous.run.embedding import check_answers
from vitreous.run.folder import read_experiment, read_provenance
from vitreous.run.predictor import Predictor, load
from vitreous.run.provenance import Provenance, command_words
from vitreous.train.embed import EmbedJob
from vitreous.train.finetune import read_start
from vitreous.train.own_data import own_data_job
from vitreous.train.prune import PruneJob, prune_job
from vitreous.train.recipe import Recipe
from vitreous.train.supervised import SupervisedJob


def create_job(
    name: str,
    targets: Sequence[str] = (),
    model: str | None = None,
    system: str | None = None,
    changes: Mapping[str, Any] | None = None,
    start: Path | None = None,
) -> Any:
    """The job of a recipe, or the template for data of one's own.

    Args:
        name: a recipe, a folder of images or a file of spectra.
        targets: columns to predict, for data of one's own.
        model, system: the defaults if None.
        changes: to the settings or `scale`, None for no change; `epochs` stands for a number of steps.
        start: a finished run whose encoder the training begins with.
    """
    changes = dict(changes or {})
    if start is not None and changes.get("scale"):
        raise InputError("scale: is that of the run which the training begins with")
    changes["start"] = None if start is None else read_start(start)
    if name in RECIPES:
        job = _recipe(name, targets).create(model, system)
    elif name in BUILTIN or Path(name).exists():
        if system is not None:
            raise InputError("system: your own data have none")
        scale = changes.get("scale") or ("" if changes["start"] is None else changes["start"].scaling.kind)
        job = own_data_job(read(name, targets), "vit" if model is None else model, scale)
        job.provenance = Provenance(data=name, targets=tuple(targets), model=model or "")
    else:
        raise InputError(f"train: {name!r} is neither a file or folder nor a recipe ({', '.join(RECIPES)})")
    options = {"model": model, "system": system} | changes | {"start": None, "from": start}
    command = command_words("train", name, targets, options)
    job.provenance = replace(job.provenance, start="" if start is None else str(start), command=command)
    return job.with_changes(changes)


def supervised_job(name: str, *args: Any, **options: Any) -> SupervisedJob:
    """The same, but `InputError` for a recipe that is not supervised."""
    job = create_job(name, *args, **options)
    if not isinstance(job, SupervisedJob):
        kind = "an embedding" if isinstance(job, EmbedJob) else "texts"
        raise InputError(f"{name}: is a recipe of {kind}, which only vitreous train takes")
    return job


def load_data(name: str, targets: Sequence[str] = (), provenance: Provenance | None = None) -> Source:
    """Labelled data of a recipe, of its default model and system or those of a run, or of one's own files."""
    if name not in RECIPES:
        return read(name, targets)
    recipe = _recipe(name, targets)
    if provenance is None:
        source = recipe.load_data()
    else:
        system = _system_of(provenance)
        if recipe.systems and system not in recipe.systems:
            raise InputError(f"{name}: the run does not say which of the systems it was trained on")
        model = provenance.model if provenance.model in recipe.models else None
        source = recipe.load_data(model, system or None)
    if not isinstance(source, Source):
        raise InputError(f"{name}: is a recipe of texts, which only vitreous train takes")
    return source


def _recipe(name: str, targets: Sequence[str]) -> Recipe:
    if targets:
        raise InputError(f"target: the recipe {name!r} has its own; name targets for your own data only")
    return load_recipe(name)


def _system_of(provenance: Provenance) -> str:
    """The system of a run. Earlier versions did not store it if it was the recipe's default."""
    if provenance.system or provenance.recipe not in RECIPES:
        return provenance.system
    return load_recipe(provenance.recipe).choose()[1]


def load_run_data(run: Path, data: str | None = None, targets: Sequence[str] = ()) -> Source:
    """The named data, or those that a run was trained on."""
    provenance = read_provenance(run)
    if data is not None:
        return load_data(data, targets, provenance)
    if not provenance.origin:
        raise InputError(f"{run}: does not say which data it was trained on; name them with --data")
    return load_data(provenance.origin, targets or provenance.targets, provenance)


def create_prune_job(
    run: Path, budget: float, data: str | None, targets: Sequence[str], changes: Mapping[str, Any]
) -> PruneJob:
    """The training of a run's thresholds on its own data, or on other data with the same labels."""
    predictor, provenance = load(run), read_provenance(run)
    check_answers(predictor.task, run)
    name = data or provenance.origin
    if not name:
        raise InputError(f"{run}: does not say which data it was trained on; name them with --data")
    if name in RECIPES:
        job = supervised_job(name, targets, provenance.model or None, _system_of(provenance) or None)
    else:
        job = supervised_job(name, targets or provenance.targets, provenance.model or None)
    check_labels(job.source, predictor)
    pruning = prune_job(predictor, job, read_experiment(run), budget, changes)
    pruning.provenance = replace(job.provenance, start=str(run))
    return pruning


def part_rows(run: Path, predictor: Predictor, source: Source, part: str) -> NDArray[np.intp]:
    """Rows of labelled data that form a part, split as the run split its own data."""
    check_choice("part", part, ("all", *PARTS))
    check_labels(source, predictor)
    if part == "all":
        return np.arange(len(source))
    experiment = read_experiment(run)
    shares = (experiment["validation"], experiment["test"], experiment["train"]["seed"]) if experiment else ()
    rows: NDArray[np.intp] = getattr(split(source, *shares), part)
    if not len(rows):
        raise InputError(f"part: {run} has no {part} part; choose another, or all of {source.name}")
    return rows


def check_labels(source: Source, predictor: Predictor) -> None:
    """Raise `InputError` unless the labels of the data are those of the run."""
    labels, expected = label_names(source), label_names(predictor)
    if source.y is None or labels != expected:
        actual = ", ".join(labels) or "none"
        raise InputError(f"{source.name}: found labels {actual}, the run has {', '.join(expected)}")
