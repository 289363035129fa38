"""What a run folder tells, for the sections of its report."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from vitreous.errors import InputError
from vitreous.train.answers import Answers, read_answers
from vitreous.train.predictor import Prediction, Predictor, load
from vitreous.train.run import METRICS, RESULT, read_experiment
from vitreous.train.task import Regression

COVERAGE = 0.9
"""Of the intervals that a report draws."""


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
        about: what those samples are.
        columns: what else is known of them, by name.
    """

    name: str
    predictor: Predictor
    result: Mapping[str, Any]
    experiment: Mapping[str, Any] = field(default_factory=dict)
    log: Sequence[Mapping[str, Any]] = ()
    answers: Answers | None = None
    about: str = "its test part"
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @cached_property
    def prediction(self) -> Prediction:
        """The answers in physical quantities, with intervals where the run can give them."""
        assert self.answers is not None
        task = self.predictor.task
        able = isinstance(task, Regression) and task.bounds(COVERAGE)
        return self.predictor.answer(torch.from_numpy(self.answers.out), COVERAGE if able else None)


def read_run(folder: Path) -> Run:
    """All that a run folder says; what it lacks is left out."""
    predictor = load(folder)
    try:
        result = json.loads((folder / RESULT).read_text())
        log = (folder / METRICS).read_text().splitlines() if (folder / METRICS).is_file() else []
        lines = [json.loads(line) for line in log]
    except ValueError:
        raise InputError(f"{folder}: {RESULT} or {METRICS} is damaged") from None
    return Run(folder.resolve().name, predictor, result, read_experiment(folder), lines, read_answers(folder))
