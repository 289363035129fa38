"""Light curves with few labels: training from scratch, and after pre-training by denoising without labels.

    python -m benchmarks.few_curves --device cuda --out few_curves.json      # a GPU, with the recipe's model
    python -m benchmarks.few_curves --small --out few_curves.json            # a CPU, with a smaller one
    python -m benchmarks.few_curves --small --validate                       # to choose settings: no test curve

Each seed has its own `--labels` labelled curves. Pre-training uses new curves at every step and no labels; all seeds
share one pre-training. Rows share the model, the labels and the test part.
"""

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import tyro

from benchmarks.few_labels import SCRATCH, scored, settings, show
from vitreous.core.atomic import write_atomically
from vitreous.data import Source
from vitreous.data.simulated import fixed_samples
from vitreous.nn import ViTConfig
from vitreous.nn.pretraining import PretrainConfig
from vitreous.recipes import load_recipe
from vitreous.train import pretrain_job, read_start, train

_LABEL_SEED = 1 << 21  # added to the seed: labelled curves differ from those that are scored


def labelled_source(source: Source, labels: int, seed: int, validate: bool = False) -> Source:
    """Random labelled curves and the curves to score: the test part or, if `validate`, the validation part."""
    fresh = source.fresh
    assert fresh is not None
    assert source.y is not None
    x, y = fixed_samples(lambda count: fresh(count, torch.device("cpu")), labels, seed + _LABEL_SEED)
    rows = source.parts["validation" if validate else "test"]
    parts = {"train": np.arange(labels), "test": labels + np.arange(len(rows))}
    return replace(
        source, x=np.concatenate([x, source.x[rows]]), y=np.concatenate([y, source.y[rows]]), parts=parts, fresh=None
    )


def main(
    seeds: int = 3,
    labels: int = 400,
    steps: int | None = None,
    scratch_steps: int = 1200,
    fine_steps: int = 1200,
    lr: float = 2e-3,
    fine_lr: float = 2e-3,
    layer_decay: float = 0.8,
    validate: bool = False,
    small: bool = False,
    device: str = "auto",
    out: Path | None = None,
) -> None:
    """Train both ways for every seed, print the table and write it as JSON.

    Args:
        seeds: number of seeds, from 0.
        labels: number of labelled curves.
        steps: pre-training steps; by default 6,000, or 1,000 for a small model.
        scratch_steps: steps of training from scratch.
        fine_steps: steps of training after pre-training.
        lr: learning rate of pre-training and of training from scratch.
        fine_lr: learning rate of training after pre-training.
        layer_decay: layer-wise learning rate decay of training after pre-training.
        validate: score the validation part instead of the test part.
        small: use a smaller model and smaller batches, for a CPU.
        device: cpu or cuda.
        out: JSON file of the results.
    """
    training = load_recipe("light-curves").create()
    steps = steps or (1000 if small else 6000)
    if small:
        assert isinstance(training.config, ViTConfig)
        training = replace(training, config=replace(training.config, dim=96, depth=3, heads=4, head=(96,)))
    method = "denoise"
    rows: dict[str, list[dict[str, float]]] = {SCRATCH: [], method: []}
    with tempfile.TemporaryDirectory() as temporary:
        folder, start = Path(temporary), time.monotonic()
        before = replace(training, settings=settings(steps, 128 if small else 1024, lr, 0))
        train(pretrain_job(before, PretrainConfig(method)), folder / method, device=device, bar=False)
        pretrain_seconds = time.monotonic() - start
        for seed in range(seeds):
            labelled = replace(
                training, source=labelled_source(training.source, labels, seed, validate), validation=0.0, test=0.0
            )
            plain = replace(labelled, train=settings(scratch_steps, 64, lr, seed))
            result = train(plain, folder / f"scratch-{seed}", device=device, bar=False)
            rows[SCRATCH].append(scored(SCRATCH, result, 0.0))
            after = settings(fine_steps, 64, fine_lr, seed, layer_decay=layer_decay)
            fine = replace(labelled, train=after, start=read_start(folder / method))
            result = train(fine, folder / f"fine-{seed}", device=device, bar=False)
            rows[method].append(scored(method, result, pretrain_seconds))
    scored_on = f"{len(labelled.source.parts['test']):,} {'validation' if validate else 'test'} curves"
    show(rows, f"Light curves with {labels} labels: share of the {scored_on} that is wrong")
    if out is not None:
        record = {"labels": labels, "scored_on": scored_on, "small": small, "device": device, "lr": lr}
        record |= {"fine_lr": fine_lr, "layer_decay": layer_decay, "rows": rows}
        record |= {"steps": {"pretrain": steps, "scratch": scratch_steps, "fine": fine_steps}}
        write_atomically(out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    tyro.cli(main)
