"""The report of a run: everything it tells about itself, in one HTML file.

A section is a small function of the run that gives what it can say, or nothing; `SECTIONS` lists them in their order.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from vitreous.atomic import write_atomically
from vitreous.errors import InputError
from vitreous.insight.report import about, answers, looks
from vitreous.insight.report.run import Run, read_run
from vitreous.page import Section, page
from vitreous.train.run import EXPERIMENT, METRICS
from vitreous.train.task import Regression

__all__ = ["SECTIONS", "Run", "Section", "read_run", "write_report"]

SECTIONS: Sequence[Callable[[Run], Section | None]] = (
    about.data,
    about.learning,
    answers.confusion,
    answers.parity,
    answers.worst,
    answers.calibration,
    answers.against,
    answers.features,
    looks.explanations,
    looks.faithfulness,
    looks.heads,
    looks.positions,
    about.scores,
    about.configuration,
)


def write_report(run: Run, path: Path) -> None:
    """Write the report of a run to an HTML file."""
    sections, lacking = list[Section](), _lacking(run)
    for make in SECTIONS:
        try:
            made = make(run)
        except InputError as fault:  # a package that is not installed, say, costs one section and not the report
            lacking.append(f"{fault}.")
        else:
            sections += [made] if made is not None else []
    sections += [Section("What is missing", "\n\n".join(dict.fromkeys(lacking)))] if lacking else []
    sections.append(about.again(run))
    model = run.predictor.model
    kind = {"ViT": "A Vision Transformer", "CNN": "A residual CNN"}[type(model).__name__]
    what = "regression" if isinstance(run.predictor.task, Regression) else "classification"
    size = sum(parameter.numel() for parameter in model.parameters())
    lead = f"{kind} for the {what} of {run.predictor.data}, with {size:,} parameters."
    lead += f" Its answers are looked at on {run.about}." if run.answers is not None else ""
    write_atomically(path, page(f"Report of {run.name}", lead, about.headline(run), sections).encode())


def _lacking(run: Run) -> list[str]:
    """What the folder does not say, and how it could."""
    found = [
        (not run.experiment, f"How the run was made: the folder has no `{EXPERIMENT}`."),
        (not run.log, f"How the training went: the folder has no `{METRICS}`."),
        (run.answers is None, "Answers on test samples: the folder has none; name labelled data with `--data`."),
    ]
    return [text for absent, text in found if absent]
