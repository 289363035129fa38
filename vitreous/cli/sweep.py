"""`vitreous sweep`: train every combination of width, patch and depth."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from vitreous.cli.options import DeviceOption


def sweep(
    data: Annotated[str, Positional, arg(metavar="RECIPE_OR_DATA")],
    out: Path,
    *,
    target: tuple[str, ...] = (),
    dim: tuple[int, ...] = (32, 64, 128),
    patch: tuple[int, ...] = (2, 4, 7),
    depth: tuple[int, ...] = (1, 3, 6),
    steps: int | None = None,
    epochs: float | None = None,
    seed: int | None = None,
    device: DeviceOption = "auto",
) -> None:
    """Train every combination of width, patch and depth, and draw their effect on the score.

    It continues after a stop; start it several times on the same folder to share the work.

    Args:
        data: a recipe, a folder of images or a file of spectra.
        out: folder of the study.
        target: columns to predict, as in train.
        dim: widths to try.
        patch: patch sizes to try, in samples.
        depth: numbers of blocks to try.
        steps: optimiser steps of each training.
        epochs: how often every sample is used in each training.
        seed: of all random numbers.
    """
    from rich.table import Table

    from vitreous.core.terminal import console
    from vitreous.insight.training import effects_figure
    from vitreous.recipes.jobs import supervised_job
    from vitreous.train.sweep import FACTORS
    from vitreous.train.sweep import sweep as run_sweep

    job = supervised_job(data, target, "vit", None, {"steps": steps, "epochs": epochs, "seed": seed})
    records = run_sweep(job, out, {"dim": dim, "patch": patch, "depth": depth}, device)
    name, sign = ("accuracy", -1) if job.source.classes else ("rmse", 1)
    table = Table(title=f"Sweep, best test {name} first")
    for heading in records[0]:
        table.add_column(heading, justify="right")
    for record in sorted(records, key=lambda record: sign * record["score"]):
        table.add_row(*(f"{value:.4f}" if key == "score" else f"{value:g}" for key, value in record.items()))
    console().print(table)
    figure = out / "effects.png"
    effects_figure(records, FACTORS, f"test {name}", figure)
    console().print(f"Effect of each factor: {figure}", highlight=False)
