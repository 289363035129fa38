"""`Run`: the content of a run folder, as the sections of a report need it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.core.terminal import track
from vitreous.data.source import Source, label_names
from vitreous.insight.attribution import ExplainedSample, compute_maps
from vitreous.insight.explanation import Faithfulness, deletion_test
from vitreous.insight.html_page import Section
from vitreous.run.answers import ANSWERS, Answers, collect, read_answers
from vitreous.run.embedding import check_answers
from vitreous.run.folder import METRICS, read_experiment, read_log, read_result
from vitreous.run.predictor import Prediction, Predictor, load

Columns = Mapping[str, NDArray[Any]]
COVERAGE = 0.9
"""Coverage of the intervals in a report."""


class ExplainedAnswer(NamedTuple):
    """One sample with its maps and the faithfulness of each."""

    sample: ExplainedSample
    maps: Mapping[str, NDArray[Any]]
    tests: Sequence[Faithfulness]


@dataclass(frozen=True)
class Run:
    """A finished run: its files, and its answers for the samples that the report covers.

    Args:
        data: name of the data of `answers`; empty for the run's own data.
        part: part of the data: train | validation | test | all.
        scores: on named data.
        columns: further columns of the data by label; NaN or an empty string where a value is missing.
        options: command-line options that give this report.
        explained: number of worst samples, and of typical ones, to explain; each needs hundreds of forward passes.
    """

    folder: Path
    predictor: Predictor
    result: Mapping[str, Any]
    experiment: Mapping[str, Any] = field(default_factory=dict)
    log: Sequence[Mapping[str, Any]] = ()
    answers: Answers | None = None
    data: str = ""
    part: str = "test"
    scores: Mapping[str, float] = field(default_factory=dict)
    columns: Columns = field(default_factory=dict)
    options: Sequence[str] = ()
    explained: int = 4

    def predict_source(
        self, source: Source, rows: NDArray[np.intp] | None, part: str, columns: Columns, options: Sequence[str]
    ) -> "Run":
        """The same run with its predictions on labelled data; see `write_report`."""
        predictor, task = self.predictor, self.predictor.task
        if source.y is None:
            raise InputError(f"{source.name}: has no labels, expected {', '.join(label_names(task))}")
        rows = np.arange(len(source)) if rows is None else rows
        x = predictor.on_axis(source)
        predictor.check(x[rows[:1]])
        known = predictor.familiarity
        out, answers = collect(predictor.model, task, predictor.scaling, x, source.y, rows, familiarity=known)
        scores = task.metrics(out, task.encode(source.y[rows]))
        columns = {label: values[answers.rows] for label, values in columns.items()}
        run = replace(self, answers=answers, data=source.name, part=part)
        return replace(run, scores=scores, columns=columns, options=options)

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.resolve().name

    @property
    def samples_noun(self) -> str:
        """A noun for the samples, e.g. test samples."""
        return "samples" if self.part == "all" else f"{self._part_name} samples"

    @property
    def subset(self) -> str:
        """A phrase for the data that the report covers, e.g. its test part."""
        if self.part == "all":
            return self.data
        return f"the {self._part_name} part of {self.data}" if self.data else f"its {self._part_name} part"

    @property
    def _part_name(self) -> str:
        return "training" if self.part == "train" else self.part

    @property
    def all_scores(self) -> dict[str, Mapping[str, float]]:
        """Scores by part; those of the data that the report covers come last."""
        own = {part: self.result[part] for part in ("validation", "test") if part in self.result}
        return own | ({self.subset: self.scores} if self.data else {})

    @cached_property
    def prediction(self) -> Prediction:
        """The predictions in physical quantities, with intervals if the run is calibrated."""
        assert self.answers is not None
        coverage = COVERAGE if self.predictor.targets and self.predictor.task.bounds(COVERAGE) else None
        return self.predictor.answer(torch.from_numpy(self.answers.out), coverage)

    @cached_property
    def worst_targets(self) -> list[int]:
        """Index of the target with the largest standardised error, for each stored sample of a regression."""
        assert self.answers is not None
        task: Any = self.predictor.task  # a regression
        out, y = self.answers.out[self.answers.shown], self.answers.y[self.answers.shown]
        indices: list[int] = task.errors(torch.from_numpy(out), task.encode(y)).argmax(1).tolist()
        return indices

    @cached_property
    def typical(self) -> list[int]:
        """Indices of the evenly drawn stored samples, in order of the distance of their error from the median."""
        assert self.answers is not None
        task, drawn = self.predictor.task, np.arange(len(self.answers.shown))[self.answers.drawn]
        misfit = task.misfit(torch.from_numpy(self.answers.out), task.encode(self.answers.y)).numpy()
        deviation = np.abs(misfit[self.answers.shown[drawn]] - np.median(misfit))
        indices: list[int] = drawn[np.argsort(deviation, kind="stable")].tolist()
        return indices

    @cached_property
    def explanations(self) -> dict[int, ExplainedAnswer]:
        """The worst and the most typical samples, by index among the stored ones, explained for their worst target."""
        assert self.answers is not None
        targets, explanations = self.predictor.targets, dict[int, ExplainedAnswer]()
        worst = range(min(self.explained, len(self.answers.shown)))
        for index in track(list(dict.fromkeys([*worst, *self.typical[: self.explained]])), "explaining"):
            target = targets[self.worst_targets[index]].name if targets else None
            sample = ExplainedSample(self.predictor, self.answers.samples[index], target)
            maps = compute_maps(sample)
            explanations[index] = ExplainedAnswer(sample, maps, deletion_test(sample, maps, seed=index))
        return explanations


SectionBuilder = Callable[[Run], Section | None]


def with_answers(section: Callable[[Run, Answers], Section | None]) -> SectionBuilder:
    """A section that is left out of the report of a run without answers."""

    @wraps(section)
    def build(run: Run) -> Section | None:
        return None if run.answers is None else section(run, run.answers)

    return build


def read_run(folder: Path) -> Run:
    """Read a run folder. Information that the folder lacks stays empty."""
    predictor, log, answers = load(folder), read_log(folder), read_answers(folder)
    check_answers(predictor.task, folder)
    run = Run(folder, predictor, read_result(folder), read_experiment(folder), log, answers)
    score = predictor.task.main_score
    if any(score not in line["validation"] for line in log if "validation" in line):
        raise InputError(f"{folder / METRICS}: belongs to another run (it has no {score})")
    if answers is not None and not answers.fit(predictor.task, predictor.model.config.input):
        raise InputError(f"{folder / ANSWERS}: belongs to another run; delete it to continue without it")
    return run
