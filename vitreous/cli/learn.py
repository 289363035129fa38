"""Commands that train: on labels, without them, on several settings, and for fewer tokens."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

Scale = Literal["none", "channel", "sample", "point", "root", "slope", "curvature"]


@dataclass(frozen=True)
class Loop:
    """How long and how fast to train. What is not given is the recipe's.

    Args:
        epochs: times that every sample is seen.
        steps: optimiser steps, instead of epochs.
        minutes: time that the training may take; the learning rate then falls with the time.
        batch: samples of a step, of texts tokens; contrasting wants large ones.
        lr: highest learning rate.
        optimiser: AdamW, or Muon for the matrices.
        precision: auto is bfloat16 on a GPU that has it, float32 elsewhere; float8 has products of eight bits.
        seed: of everything that is random.
    """

    epochs: float | None = None
    steps: int | None = None
    minutes: float | None = None
    batch: int | None = None
    lr: float | None = None
    optimiser: Literal["adamw", "muon"] | None = None
    precision: Literal["auto", "float32", "bfloat16", "float8"] | None = None
    seed: int | None = None


_RECIPES_OWN = Loop()


def train(
    data: Annotated[str, Positional, arg(metavar="RECIPE_OR_DATA")],
    out: Path,
    *,
    target: tuple[str, ...] = (),
    model: str | None = None,
    system: str | None = None,
    scale: Scale | None = None,
    start: Annotated[Path | None, arg(name="from", metavar="RUN")] = None,
    freeze: bool = False,
    layer_decay: float | None = None,
    resume: bool = False,
    loop: OmitArgPrefixes[Loop] = _RECIPES_OWN,
    accumulate: int | None = None,
    shard: bool = False,
    stream: Literal["float32", "bfloat16"] | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    tensorboard: bool = False,
) -> None:
    """Train a model on a recipe's data or on your own, and leave a run folder.

    Recipes: digits, mnist, mnist-cpu; powder-best, powder-vit, powder-cnn, whose powder patterns are simulated as the
    training goes on; translate-en-de; those of 'vitreous gallery'. Your own data: a folder with one folder of images
    for each class, or a file of spectra (.csv, .parquet, .npz, .npy, .h5), one a row. Settings that are not given are
    the recipe's.

    Args:
        data: a recipe, a folder of images or a file of spectra.
        out: folder of the run.
        target: columns to predict, with units if they have any, e.g. 'assay:mg'.
        model: vit or cnn, Vision Transformer or residual CNN; for texts transformer or gru-SCORE, recurrent with one of
            the scores of attention, e.g. gru-additive; of the gallery, what it lists; the recipe's own if not given.
        system: which of a recipe's systems: crystal system of the powder recipes, e.g. monoclinic; those of the physics
            gallery are listed by 'vitreous gallery'.
        scale: what is done to samples first. sample: each by its own mean and deviation; point: every point by those of
            all samples; slope, curvature: the derivatives of a spectrum, by both, for bands on a background.
        start: begin with the encoder of a finished run, of vitreous pretrain or of other labels; the head is new.
        freeze: with --from: train the head alone.
        layer_decay: with --from: factor of the learning rate from each layer to the one below, e.g. 0.75.
        resume: go on with a run that was stopped, or begin it.
        loop: how long and how fast to train; what is not given is the recipe's.
        accumulate: parts into which each batch is cut to save memory.
        shard: share the model among the processes of a torchrun (FSDP) instead of giving each its own.
        stream: what tokens are kept in between the blocks; bfloat16 is faster, and fine where three digits are.
        device: where to train.
        tensorboard: write curves for TensorBoard too.
    """
    from vitreous import commands
    from vitreous.train.recipes import TEXTS

    changes = asdict(loop) | {
        "accumulate": accumulate, "shard": shard or None, "stream": stream, "layer_decay": layer_decay,
        "freeze": freeze or None, "scale": scale,
    }  # fmt: skip
    make = commands.text_experiment if data in TEXTS else commands.experiment
    made = make(data, target, model, changes, system, start)
    commands.run_training(made, out, resume, device, tensorboard)


def pretrain(
    data: Annotated[str, Positional, arg(metavar="RECIPE_OR_DATA")],
    out: Path,
    *,
    method: Literal["masked", "denoise", "contrast"] = "masked",
    ratio: float | None = None,
    target: tuple[str, ...] = (),
    system: str | None = None,
    scale: Scale | None = None,
    resume: bool = False,
    loop: OmitArgPrefixes[Loop] = _RECIPES_OWN,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    tensorboard: bool = False,
) -> None:
    """Train an encoder without labels, and leave a run folder for vitreous train ... --from.

    masked: hide most tokens and predict what they hold. denoise: restore damaged samples. contrast: recognise two views
    of one sample among those of others; views differ by what the recipe's augmentation does.

    vitreous pretrain spectra.csv --target assay:mg --out before

    vitreous train spectra.csv --target assay:mg --from before --layer-decay 0.75 --out run

    Args:
        data: a recipe, a folder of images or a file of spectra.
        out: folder of the run.
        method: how to learn without labels.
        ratio: with masked: share of the tokens that is hidden.
        target: columns that are labels; they are left out.
        system: crystal system of the powder recipes, e.g. monoclinic.
        scale: what is done to samples first. sample: each by its own mean and deviation; point: every point by those of
            all samples; slope, curvature: the derivatives of a spectrum, by both, for bands on a background.
        resume: go on with a run that was stopped, or begin it.
        loop: how long and how fast to train; what is not given is the recipe's.
        device: where to train.
        tensorboard: write curves for TensorBoard too.
    """
    from vitreous import commands

    changes = asdict(loop) | {"scale": scale}
    made = commands.pretraining(data, target, {"method": method, "ratio": ratio}, changes, system)
    commands.run_pretraining(made, out, resume, device, tensorboard)


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
    device: Literal["auto", "cpu", "cuda"] = "auto",
) -> None:
    """Make a run faster: teach its blocks which tokens to merge and which to drop, and leave a new run folder.

    Each block learns two thresholds: how alike tokens must be to be merged, and how much attention a token must receive
    to stay. The weights do not change, so that it takes a small part of the time that the training took. The new run is
    used like any other. Without any training: vitreous predict RUN ... --merge 8

    Args:
        run: folder of a finished run of a Vision Transformer.
        out: folder of the new run.
        budget: share of its blocks' operations that the new run may spend, up to 1.
        data: where the run's data lie now, if not where they were; or other data with the same labels.
        target: the label columns, if the run does not know them.
        resume: go on where it was stopped, or begin.
        steps: optimiser steps.
        batch: samples of a step; the recipe's own if not given.
        lr: highest learning rate of the thresholds.
        device: where to train.
    """
    from vitreous import commands

    made = commands.pruning(run, budget, data, target, {"steps": steps, "batch": batch, "lr": lr})
    commands.run_training(made, out, resume, device, tensorboard=False)


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
    device: Literal["auto", "cpu", "cuda"] = "auto",
) -> None:
    """Train every combination of width, patch and depth, and draw what each does to the score.

    It goes on where it stopped; start it again on the same folder, also beside itself, to share the work.

    Args:
        data: a recipe, a folder of images or a file of spectra.
        out: folder of the study.
        target: columns to predict, as in train.
        dim: widths to try.
        patch: patches to try, in samples.
        depth: numbers of blocks to try.
        steps: optimiser steps of each training.
        epochs: times that every sample is seen in each training.
        seed: of everything that is random.
        device: where to train.
    """
    from vitreous import commands

    made = commands.experiment(data, target, "vit", {"steps": steps, "epochs": epochs, "seed": seed})
    commands.run_sweep(made, out, {"dim": dim, "patch": patch, "depth": depth}, device)
