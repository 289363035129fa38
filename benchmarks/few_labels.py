"""MNIST with 1 % of the labels: training from scratch compared with pre-training on all images without labels.

    python -m benchmarks.few_labels --device cuda --out few_labels.json        # a GPU
    python -m benchmarks.few_labels --small --out few_labels.json              # CPU, with a smaller model
    python -m benchmarks.few_labels --validate --methods contrast masked       # choose settings without test images

Every seed draws 600 labelled images, 60 of each digit; pre-training uses the 60,000 training images without labels. All
rows share the model, the labelled images and their augmentation (contrastive views are augmented more), and are scored
once on the 10,000 test images. `--validate` scores 5,000 other training images instead, to choose settings.
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

from vitreous.core.atomic import write_atomically
from vitreous.data import Source, mnist
from vitreous.data.augment import Augment
from vitreous.nn import ViTConfig
from vitreous.nn.pretraining import PretrainConfig
from vitreous.train import PretrainJob, SupervisedJob, TrainConfig, read_start, train

SCRATCH = "from scratch"
Method = Literal["masked", "denoise", "contrast"]
TURNED = Augment(shift=0.1, rotate=15, scale=0.15, shear=0.2)  # keeps the class of a digit
VIEWS = replace(TURNED, shift=0.15, rotate=20, scale=0.25, shear=0.3, noise=0.1, erase=0.5)
METHODS = {
    "masked": PretrainConfig("masked", ratio=0.65, dim=96, depth=2),
    "denoise": PretrainConfig("denoise", dim=96, depth=2),
    "contrast": PretrainConfig("contrast", dim=128, temperature=0.2),
}


def few(source: Source, labels: int, seed: int, validate: bool = False) -> Source:
    """A source with the same number of labelled images of each digit, drawn by the seed.

    Its test part is MNIST's or, with `validate`, up to 5,000 other training images.
    """
    assert source.y is not None
    rng, train_rows = np.random.default_rng(seed), source.parts["train"]
    rows = np.concatenate(
        [rng.permutation(train_rows[source.y[train_rows] == digit])[: labels // 10] for digit in range(10)]
    )
    scored = rng.permutation(np.setdiff1d(train_rows, rows))[:5000] if validate else source.parts["test"]
    return replace(source, parts={"train": np.sort(rows), "test": np.sort(scored)})


def model(small: bool) -> ViTConfig:
    """A ViT with 49 patches of 4×4 pixels."""
    if small:
        return ViTConfig(input=(1, 28, 28), patch=(4,), dim=64, depth=3, heads=4, mlp=(2.0,))
    return ViTConfig(input=(1, 28, 28), patch=(4,), dim=192, depth=6, heads=6, mlp=(2.0,), drop_path=0.1)


def settings(steps: int, batch: int, lr: float, seed: int, **others: Any) -> TrainConfig:
    """Training settings without validation; the last weights are used."""
    return TrainConfig(
        steps=steps, batch=batch, lr=lr, optimiser="muon", ema=0.995, evaluate_every=steps, keep="last", seed=seed,
        **others,
    )  # fmt: skip


def supervised(source: Source, config: ViTConfig, steps: int, lr: float, seed: int, **others: Any) -> SupervisedJob:
    """SupervisedJob on the labelled images."""
    decay = others.pop("layer_decay", 1.0)
    train_config = settings(steps, 128, lr, seed, layer_decay=decay)
    return SupervisedJob(source, config, train_config, TURNED, label_smoothing=0.1, validation=0.0, test=0.0, **others)


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
    """Train with each method for every seed, print the table and write it as JSON.

    Args:
        seeds: number of seeds of labels, weights and batches.
        labels: number of labelled images.
        methods: methods of pre-training.
        steps: steps of pre-training.
        scratch_steps: steps of training from scratch.
        fine_steps: steps of fine-tuning.
        batch: batch size of pre-training.
        lr: learning rate of pre-training and of training from scratch.
        fine_lr: learning rate of fine-tuning.
        layer_decay: learning-rate decay per layer of fine-tuning.
        validate: score 5,000 training images instead of the test images.
        small: use a smaller model and shorter trainings, for a CPU.
        device: cpu or cuda.
        out: JSON file of the results.
    """
    config, source = model(small), mnist()
    steps, batch = steps or (300 if small else 6000), batch or (256 if small else 1024)
    scratch_steps, fine_steps = scratch_steps or (600 if small else 2500), fine_steps or (400 if small else 1500)
    rows: dict[str, list[dict[str, float]]] = {SCRATCH: [], **{method: [] for method in methods}}
    with tempfile.TemporaryDirectory() as temporary:
        for seed in range(seeds):
            labelled, folder = few(source, labels, seed, validate), Path(temporary) / str(seed)
            experiment = supervised(labelled, config, scratch_steps, lr, seed)
            rows[SCRATCH].append(scored(SCRATCH, train(experiment, folder / "scratch", device=device, bar=False), 0.0))
            for method in methods:
                started = time.monotonic()
                augment = VIEWS if method == "contrast" else TURNED
                damage = Augment(noise=0.7) if method == "denoise" else Augment()
                pretraining = PretrainJob(
                    source, replace(config, drop_path=0.0), METHODS[method], settings(steps, batch, lr, seed),
                    augment, damage, validation=0.0,
                )  # fmt: skip
                train(pretraining, folder / method, device=device, bar=False)
                seconds, start = time.monotonic() - started, read_start(folder / method)
                experiment = supervised(
                    labelled, config, fine_steps, fine_lr, seed, start=start, layer_decay=layer_decay
                )
                result = train(experiment, folder / f"{method}-fine", device=device, bar=False)
                rows[method].append(scored(method, result, seconds))
    scored_on = f"{len(labelled.parts['test']):,} {'other training' if validate else 'test'} images"
    show(rows, f"MNIST with {labels} labels: share of the {scored_on} that is wrong")
    if out is not None:
        results = {"labels": labels, "scored_on": scored_on, "small": small, "device": device, "batch": batch}
        results |= {"lr": lr, "fine_lr": fine_lr, "layer_decay": layer_decay}
        results |= {"steps": {"pretrain": steps, "scratch": scratch_steps, "fine": fine_steps}, "rows": rows}
        write_atomically(out, (json.dumps(results, indent=1) + "\n").encode())


def scored(name: str, result: dict[str, Any], before: float) -> dict[str, float]:
    """Print and return error in % and seconds of one training."""
    score = {"error": 100 * (1 - result["test"]["accuracy"]), "before": before, "seconds": result["seconds"]}
    print(f"{name}: {score['error']:.2f} % wrong; {before:.0f} + {score['seconds']:.0f} s", flush=True)
    return score


def show(rows: dict[str, list[dict[str, float]]], title: str) -> None:
    """Print one row per method."""
    table = Table(title=title)
    for heading in ("training", "median error", "errors", "of scratch", "pre-training", "training time"):
        table.add_column(heading, justify="left" if heading == "training" else "right")
    first = median(score["error"] for score in rows[SCRATCH])
    for name, scores in rows.items():
        middle = {key: median(score[key] for score in scores) for key in scores[0]}
        errors = " ".join(f"{score['error']:.2f}" for score in scores)
        table.add_row(
            name if name == SCRATCH else f"{name}, then fine-tuning", f"{middle['error']:.2f} %", errors,
            f"{middle['error'] / first:.2f}", f"{middle['before']:.0f} s", f"{middle['seconds']:.0f} s",
        )  # fmt: skip
    Console(width=120).print(table)


if __name__ == "__main__":
    tyro.cli(main)
