"""`Recipe`: data, models and settings that go together, under one name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vitreous.core.errors import InputError, check_choice
from vitreous.run.provenance import Provenance
from vitreous.train.job import Job


@dataclass(frozen=True)
class Recipe:
    """A training that `vitreous train NAME` runs.

    Args:
        title: what the data are, e.g. `Ising spins`.
        question: what the model answers, in a line.
        source: makes the data, called with `model=` and `system=` (words of the lists below) and, for tests and trials,
            numbers of samples such as `train=` and `test=`.
        job: makes the job, called with the data, the model and the system; its docstring states the command, the
            hardware, the time and the result.
        models: its models, the default first.
        systems: its systems, the default first; empty if there is no choice.
        figures: draws the figures of a finished run into its folder and returns their paths; None if there are none.
        extra: the extra that must be installed, e.g. `jets`; empty if none.
    """

    name: str
    title: str
    question: str
    source: Callable[..., Any]
    job: Callable[[Any, str, str], Job]
    models: Sequence[str]
    systems: Sequence[str] = ()
    figures: Callable[[Path], list[Path]] | None = None
    extra: str = ""

    def choose(self, model: str | None = None, system: str | None = None) -> tuple[str, str]:
        """Model and system by name, the defaults for None; `InputError` for others than the recipe has."""
        if system is not None and not self.systems:
            raise InputError(f"system: the recipe {self.name!r} has none")
        model = self.models[0] if model is None else model
        check_choice("model", model, self.models)
        system = next(iter(self.systems), "") if system is None else system
        check_choice("system", system, self.systems or ("",))
        return model, system

    def create(self, model: str | None = None, system: str | None = None, **samples: int) -> Any:
        """The job for a model and a system, the defaults if None; `samples` are numbers of samples for `source`."""
        model, system = self.choose(model, system)
        job = self.job(self.source(model=model, system=system, **samples), model, system)
        job.provenance = Provenance(recipe=self.name, model=model, system=system)
        return job

    def load_data(self, model: str | None = None, system: str | None = None, **samples: int) -> Any:
        """The data alone, as for `create`."""
        model, system = self.choose(model, system)
        return self.source(model=model, system=system, **samples)
