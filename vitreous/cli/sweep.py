"""`vitreous sweep`: train every combination of width, patch and depth."""

from pathlib import Path

from vitreous.cli.options import DataArgument, DeviceOption


def sweep(
    data: DataArgument,
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
        out: folder of the study.
        target: columns to predict, as in train.
        dim: widths to try.
        patch: patch sizes to try, in samples.
        depth: numbers of blocks to try.
        steps: optimiser steps of each training.
        epochs: how often every sample is used in each training.
        seed: of all random numbers.
    """
    from vitreous.cli.output import print_line, print_table
    from vitreous.insight.training import effects_figure
    from vitreous.recipes.jobs import supervised_job
    from vitreous.train.sweep import FACTORS
    from vitreous.train.sweep import sweep as run_sweep

    job = supervised_job(data, target, changes={"steps": steps, "epochs": epochs, "seed": seed})
    records = run_sweep(job, out, {"dim": dim, "patch": patch, "depth": depth}, device)
    name, sign = ("accuracy", -1) if job.source.classes else ("rmse", 1)
    best_first = sorted(records, key=lambda record: sign * record["score"])
    rows = [[f"{record[key]:{'.4f' if key == 'score' else 'g'}}" for key in record] for record in best_first]
    print_table(f"Sweep, best test {name} first", records[0], rows, left=0)
    figure = out / "effects.png"
    effects_figure(records, FACTORS, f"test {name}", figure)
    print_line(f"Effect of each factor: {figure}")
