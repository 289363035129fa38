"""The report of a run: its data, training, predictions, explanations and settings in one HTML file.

A section is a function of a `Run` that returns a `Section`, or None if it does not apply. `SECTIONS` lists them.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vitreous.core.atomic import write_atomically
from vitreous.core.errors import InputError
from vitreous.data.source import Source
from vitreous.insight.html_page import Section, render_page
from vitreous.insight.report import explanations, overview, predictions
from vitreous.insight.report.run import Columns, Run, SectionBuilder, read_run
from vitreous.run.folder import EXPERIMENT, METRICS

__all__ = ["SECTIONS", "Run", "Section", "read_run", "write_report"]

SECTIONS: Sequence[SectionBuilder] = (
    overview.data,
    overview.learning,
    predictions.confusion,
    predictions.parity,
    predictions.worst,
    predictions.calibration,
    predictions.familiarity,
    predictions.errors_by_column,
    predictions.features,
    explanations.single_predictions,
    explanations.faithfulness,
    explanations.heads,
    explanations.positions,
    overview.scores,
    overview.configuration,
)
_MODEL_NAMES = {"ViT": "A Vision Transformer", "CNN": "A residual CNN"}


def write_report(
    run: Run | Path,
    path: Path | None = None,
    source: Source | None = None,
    rows: NDArray[np.intp] | None = None,
    part: str = "all",
    columns: Columns | None = None,
    options: Sequence[str] = (),
    sections: Sequence[SectionBuilder] | None = None,
) -> Path:
    """Write the report of a run to an HTML file, and return the path of the file.

    Args:
        run: a run folder, or a `Run` from `read_run`.
        path: the HTML file; `report.html` in the run folder if None.
        source: labelled data to predict; if None, the report covers the test predictions that the run folder stores.
        rows: rows of `source` to predict; all if None.
        part: what the rows are: train | validation | test | all.
        columns: further columns of `source` by label; errors are drawn against them.
        options: command-line options that give this report, for the section on how to reproduce it.
        sections: `SECTIONS` if None.
    """
    run = run if isinstance(run, Run) else read_run(run)
    path = path or run.folder / "report.html"
    if not path.parent.is_dir():
        raise InputError(f"{path}: cannot be written (there is no folder {path.parent})")
    if source is not None:
        run = run.predict_source(source, rows, part, columns or {}, options)
    content, missing = list[Section](), _missing_files(run)
    for section in SECTIONS if sections is None else sections:
        try:
            content += filter(None, [section(run)])
        except InputError as fault:  # e.g. a package that is not installed: only this section is missing
            missing.append(f"{fault}.")
    content += [Section("Missing information", "\n\n".join(dict.fromkeys(missing)))] if missing else []
    content.append(overview.reproduce(run))
    page = render_page(f"Report of {run.name}", _lead(run), overview.headline(run), content)
    write_atomically(path, page.encode())
    return path


def _lead(run: Run) -> str:
    model = run.predictor.model
    task = "regression" if run.predictor.targets else "classification"
    size = sum(parameter.numel() for parameter in model.parameters())
    lead = f"{_MODEL_NAMES[type(model).__name__]} for {task} of {run.predictor.data}, with {size:,} parameters."
    return lead + (f" This report evaluates it on {run.subset}." if run.answers is not None else "")


def _missing_files(run: Run) -> list[str]:
    """A sentence for each kind of information that the folder does not hold."""
    missing = [
        (not run.experiment, f"How the run was made: the folder has no `{EXPERIMENT}`."),
        (not run.log, f"Training curves: the folder has no `{METRICS}`."),
        (run.answers is None, "Test predictions: the folder has none; name labelled data with `--data`."),
    ]
    return [text for absent, text in missing if absent]
