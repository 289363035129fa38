"""A ViT-B/16 at 224 that is trained: MNIST with every pixel drawn as 8×8, for what merging costs at that size.

python -m benchmarks.large_digits --out RUN                       # two minutes of an H200
python -m benchmarks.inference_gpu --run RUN --merge 16 20 24     # speed and accuracy, timm beside it
"""

from dataclasses import replace
from pathlib import Path

import tyro

from vitreous.data import Source, mnist
from vitreous.data.augment import Augment
from vitreous.train import SupervisedJob, TrainConfig, train
from vitreous.zoo.variants import model_config

MODEL = "vit_base_patch16_224"
ENLARGED = 8


def large_digits() -> Source:
    """70,000 images of 224×224, 3.5 GB; a patch of 16×16 is 2×2 pixels of the original."""
    source = mnist()
    return replace(source, name="large digits", x=source.x.repeat(ENLARGED, axis=2).repeat(ENLARGED, axis=3))


def main(
    out: Path, steps: int = 900, minutes: float = 0.0, batch: int = 256, lr: float = 1e-3, device: str = "auto"
) -> None:
    """Train, and print the scores.

    Args:
        out: folder of the run.
        steps: of training.
        minutes: that it may take; 0 for no limit.
        batch: images of a step.
        lr: highest learning rate.
        device: cpu or cuda.
    """
    source = large_digits()
    settings = TrainConfig(
        steps=steps, minutes=minutes, batch=batch, lr=lr, optimiser="muon", ema=0.99, evaluate_every=steps, keep="last",
        stream="bfloat16",
    )  # fmt: skip
    augment = Augment(shift=0.08, rotate=12, scale=0.12)
    made = SupervisedJob(source, model_config(MODEL, input=source.input), settings, augment, "sample", validation=0.02)
    result = train(made, out, device=device, bar=False)
    print(f"test accuracy {result['test']['accuracy']:.4f} after {result['steps']} steps in {result['seconds']:.0f} s")


if __name__ == "__main__":
    tyro.cli(main)
