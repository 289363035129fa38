"""What a run folder tells, for the sections of its report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from vitreous.errors import InputError
from vitreous.insight.attribution import Question, Trial, all_maps, deletion_test
from vitreous.track import track
from vitreous.train.answers import ANSWERS, Answers, read_answers
from vitreous.train.folder import read_experiment, read_log, read_result
from vitreous.train.predictor import Prediction, Predictor, load
from vitreous.train.run import METRICS
from vitreous.train.task import Regression

COVERAGE = 0.9
"""Of the intervals that a report draws."""
_EACH = 4  # samples of either kind that are explained: it takes the model hundreds of times


class Tried(NamedTuple):
    """One answer with its maps, and what the test of their truth found."""

    question: Question
    maps: Mapping[str, NDArray[Any]]
    trials: Sequence[Trial]


@dataclass(frozen=True)
class Run:
    """A finished run as its folder tells it.

    Args:
        name: of the folder.
        predictor: its model, and what goes in and comes out.
        result: sizes, time and scores.
        experiment: how it was made; empty if the folder does not say.
        log: lines of its metrics; empty if the folder does not say.
        answers: on the samples that the report is about.
        data: name of the data that these are of; empty for the run's own.
        part: train | validation | test | all of them.
        scores: on data that were named.
        columns: what else is known of the samples, by name; NaN or an empty word where there is nothing.
        options: words of the command that makes the report, after the run.
    """

    name: str
    predictor: Predictor
    result: Mapping[str, Any]
    experiment: Mapping[str, Any] = field(default_factory=dict)
    log: Sequence[Mapping[str, Any]] = ()
    answers: Answers | None = None
    data: str = ""
    part: str = "test"
    scores: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    options: Sequence[str] = ()

    @property
    def score(self) -> str:
        """The one that tells most of how good the answers are."""
        return "rmse" if isinstance(self.predictor.task, Regression) else "accuracy"

    @property
    def noun(self) -> str:
        """What the samples are called, e.g. test samples."""
        return "samples" if self.part == "all" else f"{self._which} samples"

    @property
    def about(self) -> str:
        """What the samples are."""
        if self.part == "all":
            return self.data
        return f"the {self._which} part of {self.data}" if self.data else f"its {self._which} part"

    @property
    def _which(self) -> str:
        return "training" if self.part == "train" else self.part

    @property
    def known_scores(self) -> dict[str, Mapping[str, float]]:
        """Scores by the part that they were found on; the one that the report is about comes last."""
        own = {part: self.result[part] for part in ("validation", "test") if part in self.result}
        return own | ({self.about: self.scores} if self.data else {})

    @cached_property
    def prediction(self) -> Prediction:
        """The answers in physical quantities, with intervals where the run can give them."""
        assert self.answers is not None
        task = self.predictor.task
        able = isinstance(task, Regression) and task.bounds(COVERAGE)
        return self.predictor.answer(torch.from_numpy(self.answers.out), COVERAGE if able else None)

    @cached_property
    def furthest(self) -> list[int]:
        """Which quantity is furthest off in each of the samples."""
        task = self.predictor.task
        assert self.answers is not None
        assert isinstance(task, Regression)
        out, y = self.answers.out[self.answers.shown], self.answers.y[self.answers.shown]
        found: list[int] = task.errors(torch.from_numpy(out), task.encode(y)).argmax(1).tolist()
        return found

    @cached_property
    def typical(self) -> list[int]:
        """The samples that were drawn evenly, those first whose errors are nearest the median of all."""
        assert self.answers is not None
        task, drawn = self.predictor.task, np.arange(len(self.answers.shown))[self.answers.drawn]
        misfit = task.misfit(torch.from_numpy(self.answers.out), task.encode(self.answers.y)).numpy()
        away = np.abs(misfit[self.answers.shown[drawn]] - np.median(misfit))
        places: list[int] = drawn[np.argsort(away, kind="stable")].tolist()
        return places

    @cached_property
    def tried(self) -> dict[int, Tried]:
        """The worst and the most typical samples, by their places, with all that explains them.

        Of several quantities it is the one that is furthest off.
        """
        assert self.answers is not None
        task, found = self.predictor.task, dict[int, Tried]()
        worst = range(min(_EACH, len(self.answers.shown)))
        for place in track(list(dict.fromkeys([*worst, *self.typical[:_EACH]])), "explaining"):
            target = task.targets[self.furthest[place]].name if isinstance(task, Regression) else None
            question = Question(self.predictor, self.answers.samples[place], target)
            maps = all_maps(question)
            found[place] = Tried(question, maps, deletion_test(question, maps, seed=place))
        return found


def read_run(folder: Path) -> Run:
    """All that a run folder says; what it lacks is left out."""
    predictor, log, answers = load(folder), read_log(folder), read_answers(folder)
    run = Run(folder.resolve().name, predictor, read_result(folder), read_experiment(folder), log, answers)
    if any(run.score not in line["validation"] for line in log if "validation" in line):
        raise InputError(f"{folder / METRICS}: belongs to another run (it has no {run.score})")
    if answers is not None and not answers.fit(predictor.task, predictor.model.config.input):
        raise InputError(f"{folder / ANSWERS}: belongs to another run; delete it to do without")
    return run
