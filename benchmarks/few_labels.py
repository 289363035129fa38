"""MNIST with 1 % of the labels: training from scratch beside pre-training on all images without labels.

    python -m benchmarks.few_labels --device cuda --out few_labels.json        # a GPU
    python -m benchmarks.few_labels --small --out few_labels.json              # a trial on a CPU, with a smaller model
    python -m benchmarks.few_labels --validate --methods contrast masked       # to choose settings: no test image

600 labelled images, 60 of each digit, are drawn anew for every seed; the 60,000 training images are seen without their
labels. All rows share the model, the 600 labels and the augmentation of the training on them (views that are contrasted
differ by more), and are scored once on the 10,000 test images. `--validate` chooses settings by 5,000 other labels.
"""

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from vitreous.atomic import write_atomically
from vitreous.data import Source, mnist
from vitreous.data.augment import Augment
from vitreous.nn import ViTConfig
from vitreous.nn.pretraining import PretrainConfig
from vitreous.train import Experiment, PretrainExperiment, TrainConfig, pretrain, read_start, train

SCRATCH = "from scratch"
Method = Literal["masked", "denoise", "contrast"]
TURNED = Augment(shift=0.1, rotate=15, scale=0.15, shear=0.2)  # leaves a digit the digit that it is
VIEWS = replace(TURNED, shift=0.15, rotate=20, scale=0.25, shear=0.3, noise=0.1, erase=0.5)
METHODS = {
    "masked": PretrainConfig("masked", ratio=0.65, dim=96, depth=2),
    "denoise": PretrainConfig("denoise", dim=96, depth=2),
    "contrast": PretrainConfig("contrast", dim=128, temperature=0.2),
}


def few(source: Source, labels: int, seed: int, validate: bool = False) -> Source:
    """The source with as many labelled images of each digit, drawn by the seed, and the images that are scored.

    Those are the test images or, to `validate`, up to 5,000 other training images.
    """
    assert source.y is not None
    rng, known = np.random.default_rng(seed), source.parts["train"]
    rows = np.concatenate([rng.permutation(known[source.y[known] == digit])[: labels // 10] for digit in range(10)])
    scored = rng.permutation(np.setdiff1d(known, rows))[:5000] if validate else source.parts["test"]
    return replace(source, parts={"train": np.sort(rows), "test": np.sort(scored)})


def model(small: bool) -> ViTConfig:
    """49 patches of 4×4 pixels."""
    if small:
        return ViTConfig(input=(1, 28, 28), patch=(4,), dim=64, depth=3, heads=4, mlp=(2.0,))
    return ViTConfig(input=(1, 28, 28), patch=(4,), dim=192, depth=6, heads=6, mlp=(2.0,), drop_path=0.1)


def settings(steps: int, batch: int, lr: float, seed: int, **others: Any) -> TrainConfig:
    """A training without a validation part, whose end is kept."""
    return TrainConfig(
        steps=steps, batch=batch, lr=lr, optimiser="muon", ema=0.995, evaluate_every=steps, keep="last", seed=seed,
        **others,
    )  # fmt: skip


def supervised(source: Source, config: ViTConfig, steps: int, lr: float, seed: int, **others: Any) -> Experiment:
    """A training on the labelled images."""
    decay = others.pop("layer_decay", 1.0)
    made = settings(steps, 128, lr, seed, layer_decay=decay)
    return Experiment(source, config, made, TURNED, label_smoothing=0.1, validation=0.0, test=0.0, **others)


def main(
    seeds: int = 3,
    labels: int = 600,
    methods: tuple[Method, ...] = ("contrast",),
    steps: int | None = None,
    scratch_steps: int | None = None,
    fine_steps: int | None = None,
    batch: int | None = None,
    lr: float = 2e-3,
    fine_lr: float = 2e-3,
    layer_decay: float = 0.8,
    validate: bool = False,
    small: bool = False,
    device: str = "auto",
    out: Path | None = None,
) -> None:
    """Train each way for every seed, print the table and write it as JSON.

    Args:
        seeds: of labels, weights and batches, counted from 0.
        labels: images with a label.
        methods: of pre-training.
        steps: of pre-training.
        scratch_steps: of training from scratch.
        fine_steps: of training after pre-training.
        batch: images of a step of pre-training.
        lr: learning rate of pre-training and of training from scratch.
        fine_lr: learning rate of training after pre-training.
        layer_decay: of that training.
        validate: score 5,000 training images in place of the test images.
        small: a smaller model and shorter trainings, for a CPU.
        device: cpu or cuda.
        out: JSON file of the results.
    """
    config, source = model(small), mnist()
    steps, batch = steps or (300 if small else 6000), batch or (256 if small else 1024)
    scratch_steps, fine_steps = scratch_steps or (600 if small else 2500), fine_steps or (400 if small else 1500)
    rows: dict[str, list[dict[str, float]]] = {SCRATCH: [], **{method: [] for method in methods}}
    with tempfile.TemporaryDirectory() as temporary:
        for seed in range(seeds):
            known, folder = few(source, labels, seed, validate), Path(temporary) / str(seed)
            made = supervised(known, config, scratch_steps, lr, seed)
            rows[SCRATCH].append(scored(SCRATCH, train(made, folder / "scratch", device=device, bar=False), 0.0))
            for method in methods:
                begun = time.monotonic()
                augment = VIEWS if method == "contrast" else TURNED
                damage = Augment(noise=0.7) if method == "denoise" else Augment()
                before = PretrainExperiment(
                    source, replace(config, drop_path=0.0), METHODS[method], settings(steps, batch, lr, seed),
                    augment, damage, validation=0.0,
                )  # fmt: skip
                pretrain(before, folder / method, device=device, bar=False)
                taken, start = time.monotonic() - begun, read_start(folder / method)
                made = supervised(known, config, fine_steps, fine_lr, seed, start=start, layer_decay=layer_decay)
                result = train(made, folder / f"{method}-fine", device=device, bar=False)
                rows[method].append(scored(method, result, taken))
    scored_on = f"{len(known.parts['test']):,} {'other training' if validate else 'test'} images"
    show(rows, f"MNIST with {labels} labels: share of the {scored_on} that is wrong")
    if out is not None:
        about = {"labels": labels, "scored_on": scored_on, "small": small, "device": device, "batch": batch}
        about |= {"lr": lr, "fine_lr": fine_lr, "layer_decay": layer_decay}
        about |= {"steps": {"pretrain": steps, "scratch": scratch_steps, "fine": fine_steps}, "rows": rows}
        write_atomically(out, (json.dumps(about, indent=1) + "\n").encode())


def scored(name: str, result: dict[str, Any], before: float) -> dict[str, float]:
    """Error in % and seconds of one training, told as it ends."""
    found = {"error": 100 * (1 - result["test"]["accuracy"]), "before": before, "seconds": result["seconds"]}
    print(f"{name}: {found['error']:.2f} % wrong; {before:.0f} + {found['seconds']:.0f} s", flush=True)
    return found


def show(rows: dict[str, list[dict[str, float]]], title: str) -> None:
    """One row for each way to train."""
    table = Table(title=title)
    for heading in ("training", "median error", "errors", "of scratch", "pre-training", "training time"):
        table.add_column(heading, justify="left" if heading == "training" else "right")
    first = median(found["error"] for found in rows[SCRATCH])
    for name, each in rows.items():
        middle = {key: median(found[key] for found in each) for key in each[0]}
        errors = " ".join(f"{found['error']:.2f}" for found in each)
        table.add_row(
            name if name == SCRATCH else f"{name}, then fine-tuning", f"{middle['error']:.2f} %", errors,
            f"{middle['error'] / first:.2f}", f"{middle['before']:.0f} s", f"{middle['seconds']:.0f} s",
        )  # fmt: skip
    Console(width=120).print(table)


if __name__ == "__main__":
    tyro.cli(main)
