"""`vitreous pretrain`: train an encoder without labels."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

from vitreous.cli.options import NO_LOOP_OPTIONS, DataArgument, DeviceOption, LoopOption, ResumeOption, ScaleOption


def pretrain(
    data: DataArgument,
    out: Path,
    *,
    method: Literal["masked", "denoise", "contrast"] = "masked",
    ratio: float | None = None,
    target: tuple[str, ...] = (),
    system: str | None = None,
    scale: ScaleOption = None,
    resume: ResumeOption = False,
    loop: LoopOption = NO_LOOP_OPTIONS,
    device: DeviceOption = "auto",
    tensorboard: bool = False,
) -> None:
    """Train an encoder without labels, and leave a run folder for vitreous train ... --from.

    masked: hide most tokens and predict their content. denoise: restore damaged samples. contrast: recognise two views
    of one sample among those of others; the recipe's augmentation makes the views.

    vitreous pretrain spectra.csv --target assay:mg --out before

    vitreous train spectra.csv --target assay:mg --from before --layer-decay 0.75 --out run

    Args:
        out: folder of the run.
        method: how to learn without labels.
        ratio: with masked: share of the tokens that is hidden.
        target: columns that are labels; they are left out.
        system: which of a recipe's systems, e.g. the crystal system monoclinic.
        tensorboard: also write curves for TensorBoard.
    """
    from vitreous.cli.output import print_line, print_run
    from vitreous.insight.style import save
    from vitreous.insight.training import pretraining_figure
    from vitreous.nn.pretraining import PretrainConfig
    from vitreous.recipes.jobs import supervised_job
    from vitreous.run.provenance import command_words
    from vitreous.train.pretrain import pretrain_job, show_samples
    from vitreous.train.trainer import train

    changes = asdict(loop) | {"scale": scale}
    settings = {"method": method} | ({} if ratio is None else {"ratio": ratio})
    job = pretrain_job(supervised_job(data, target, None, system, changes), PretrainConfig(**settings))  # type: ignore[arg-type]
    words = command_words("pretrain", data, target, settings | {"system": system} | changes)
    job.provenance = replace(job.provenance, command=words)
    result = train(job, out, resume, device, tensorboard)
    figure = out / "pretraining.png"
    save(pretraining_figure(show_samples(job, out), method), figure)
    print_run(out, result)
    print_line(f"Samples before and after the model: {figure}")
