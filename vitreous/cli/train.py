"""`vitreous train`: train a model on a recipe or on one's own data."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import arg

from vitreous.cli.options import NO_LOOP_OPTIONS, DataArgument, DeviceOption, LoopOption, ResumeOption, ScaleOption


def train(
    data: DataArgument,
    out: Path,
    *,
    target: tuple[str, ...] = (),
    model: str | None = None,
    system: str | None = None,
    scale: ScaleOption = None,
    start: Annotated[Path | None, arg(name="from", metavar="RUN")] = None,
    freeze: bool = False,
    layer_decay: float | None = None,
    resume: ResumeOption = False,
    loop: LoopOption = NO_LOOP_OPTIONS,
    accumulate: int | None = None,
    shard: bool = False,
    stream: Literal["float32", "bfloat16"] | None = None,
    device: DeviceOption = "auto",
    tensorboard: bool = False,
) -> None:
    """Train a model on a recipe's data or on your own, and leave a run folder.

    Recipes: digits, mnist, mnist-cpu; powder-best, powder-vit, powder-cnn, which simulate powder patterns during the
    training; translate-en-de; those of 'vitreous gallery'. Your own data: a folder with one folder of images for each
    class, or a file of spectra (.csv, .parquet, .npz, .npy, .h5), one per row.

    Args:
        out: folder of the run.
        target: columns to predict, with units if they have any, e.g. 'assay:mg'.
        model: vit or cnn: Vision Transformer or residual CNN; for texts transformer or gru-SCORE, a GRU with one of the
            attention scores, e.g. gru-additive; those of the gallery are listed by 'vitreous gallery'.
        system: which of a recipe's systems: crystal system of the powder recipes, e.g. monoclinic; those of the gallery
            are listed by 'vitreous gallery'.
        start: begin with the encoder of a finished run of vitreous pretrain or train; the head is new.
        freeze: with --from: train only the head.
        layer_decay: with --from: factor of the learning rate from each layer to the one below, e.g. 0.75.
        accumulate: number of parts into which each batch is cut to save memory.
        shard: share the model among the processes of a torchrun (FSDP) instead of copying it to each.
        stream: type of the tokens between the blocks; bfloat16 is faster and keeps three digits.
        tensorboard: also write curves for TensorBoard.
    """
    from vitreous.cli.output import print_line, print_run
    from vitreous.recipes import RECIPES, load_recipe
    from vitreous.recipes.jobs import create_job
    from vitreous.train.trainer import train as run_training

    changes = asdict(loop) | {
        "accumulate": accumulate, "shard": shard or None, "stream": stream, "layer_decay": layer_decay,
        "freeze": freeze or None, "scale": scale,
    }  # fmt: skip
    job = create_job(data, target, model, system, changes, start)
    print_run(out, run_training(job, out, resume, device, tensorboard))
    figures = load_recipe(data).figures if data in RECIPES else None
    for path in figures(out) if figures is not None else ():
        print_line(f"Figure of the physics: {path}")
