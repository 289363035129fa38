"""`vitreous prune`: teach a run to merge and drop tokens."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from vitreous.cli.options import DeviceOption


def prune(
    run: Annotated[Path, Positional, arg(metavar="RUN")],
    out: Path,
    *,
    budget: float = 0.5,
    data: str | None = None,
    target: tuple[str, ...] = (),
    resume: bool = False,
    steps: int | None = None,
    batch: int | None = None,
    lr: float | None = None,
    device: DeviceOption = "auto",
) -> None:
    """Make a run faster: teach its blocks which tokens to merge and which to drop, and leave a new run folder.

    Each block learns two thresholds: how similar tokens must be to be merged, and how much attention a token must
    receive to stay. The weights do not change, so this takes a small part of the training time. The new run is used
    like any other. Without any training: vitreous predict RUN ... --merge 8

    Args:
        run: folder of a finished run of a Vision Transformer.
        out: folder of the new run.
        budget: share of its blocks' operations that the new run may use, up to 1.
        data: path of the run's data if they have moved; or other data with the same labels.
        target: the label columns, if the run does not store them.
        resume: continue where it was stopped, or begin.
        steps: optimiser steps.
        batch: samples of a step; the recipe's own if not given.
        lr: highest learning rate of the thresholds.
    """
    from vitreous.cli.output import print_run
    from vitreous.recipes.jobs import create_prune_job
    from vitreous.run.provenance import command_words
    from vitreous.train.trainer import train

    changes = {"steps": steps, "batch": batch, "lr": lr}
    job = create_prune_job(run, budget, data, target, changes)
    words = command_words("prune", str(run), target, {"budget": f"{budget:g}", "data": data} | changes)
    job.provenance = replace(job.provenance, command=words)
    print_run(out, train(job, out, resume, device))
