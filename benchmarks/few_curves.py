"""Light curves with few labels: training from scratch beside denoising curves without labels first.

    python -m benchmarks.few_curves --device cuda --out few_curves.json      # a GPU, with the recipe's model
    python -m benchmarks.few_curves --small --out few_curves.json            # a CPU, with a smaller one
    python -m benchmarks.few_curves --small --validate                       # to choose settings: no test curve

`--labels` curves are drawn anew for every seed, with the kinds of supernovae that they are of. The pre-training sees
new curves at every step and no label; one serves all seeds. Rows share the model, the labels and the test part.
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
from vitreous.atomic import write_atomically
from vitreous.data import Source
from vitreous.nn import ViTConfig
from vitreous.nn.pretraining import PretrainConfig
from vitreous.sim.drawn import drawn
from vitreous.train import pretrain, read_start, train
from vitreous.train.pretrain import pretraining
from vitreous.train.recipes.series import light_curves

_OWN = 1 << 21  # added to the seed: labelled curves are drawn apart from those that are scored


def few(source: Source, labels: int, seed: int, validate: bool = False) -> Source:
    """So many curves with their labels, drawn by the seed, and those that are scored.

    Those are the test part or, to `validate`, the validation part.
    """
    fresh = source.fresh
    assert fresh is not None
    assert source.y is not None
    x, y = drawn(lambda count: fresh(count, torch.device("cpu")), labels, seed + _OWN)
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
        seeds: of labels, weights and batches, counted from 0.
        labels: curves with a label.
        steps: of pre-training; 6,000, or 1,000 of a small model, if not given.
        scratch_steps: of training from scratch.
        fine_steps: of training after pre-training.
        lr: learning rate of pre-training and of training from scratch.
        fine_lr: learning rate of training after pre-training.
        layer_decay: of that training.
        validate: score the validation part in place of the test part.
        small: a smaller model and smaller batches, for a CPU.
        device: cpu or cuda.
        out: JSON file of the results.
    """
    made = light_curves()
    steps = steps or (1000 if small else 6000)
    if small:
        assert isinstance(made.model, ViTConfig)
        made = replace(made, model=replace(made.model, dim=96, depth=3, heads=4, head=(96,)))
    method = "denoise"
    rows: dict[str, list[dict[str, float]]] = {SCRATCH: [], method: []}
    with tempfile.TemporaryDirectory() as temporary:
        folder, begun = Path(temporary), time.monotonic()
        before = replace(made, train=settings(steps, 128 if small else 1024, lr, 0))
        pretrain(pretraining(before, PretrainConfig(method)), folder / method, device=device, bar=False)
        taken = time.monotonic() - begun
        for seed in range(seeds):
            known = replace(made, source=few(made.source, labels, seed, validate), validation=0.0, test=0.0)
            plain = replace(known, train=settings(scratch_steps, 64, lr, seed))
            result = train(plain, folder / f"scratch-{seed}", device=device, bar=False)
            rows[SCRATCH].append(scored(SCRATCH, result, 0.0))
            after = settings(fine_steps, 64, fine_lr, seed, layer_decay=layer_decay)
            fine = replace(known, train=after, start=read_start(folder / method))
            result = train(fine, folder / f"fine-{seed}", device=device, bar=False)
            rows[method].append(scored(method, result, taken))
    scored_on = f"{len(known.source.parts['test']):,} {'validation' if validate else 'test'} curves"
    show(rows, f"Light curves with {labels} labels: share of the {scored_on} that is wrong")
    if out is not None:
        about = {"labels": labels, "scored_on": scored_on, "small": small, "device": device, "lr": lr}
        about |= {"fine_lr": fine_lr, "layer_decay": layer_decay, "rows": rows}
        about |= {"steps": {"pretrain": steps, "scratch": scratch_steps, "fine": fine_steps}}
        write_atomically(out, (json.dumps(about, indent=1) + "\n").encode())


if __name__ == "__main__":
    tyro.cli(main)
