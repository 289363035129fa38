"""scikit-learn's digits: 1,797 images of 8×8, 360 of them for testing."""

from vitreous.data import Source
from vitreous.data import digits as read_digits
from vitreous.data.augment import Augment
from vitreous.nn import CNNConfig, ViTConfig
from vitreous.train.config import TrainConfig
from vitreous.train.recipe import Recipe
from vitreous.train.supervised import SupervisedJob


def digits(source: Source, model: str, system: str) -> SupervisedJob:
    """A ViT of 77,530 parameters, as good as the CNN on 1,293 training images.

    `vitreous train digits --out RUN [--model cnn]`. On two CPU cores 30 to 41 s (CNN: 4 s). Test accuracy with
    seeds 0, 1 and 2: ViT 98.6, 99.2 and 99.2 %, CNN (13,646 parameters) 99.4, 98.6 and 99.4 %.

    Muon makes the difference: without mixup, the same ViT ends at 95.8 and 97.8 % with AdamW and at 99.4 and 99.7 %
    with Muon (seeds 0 and 1). Without any augmentation it ends at 97.2 % (Muon, seed 0).
    """
    if model == "cnn":
        return SupervisedJob(
            source,
            CNNConfig(input=source.input, widths=(12, 28)),
            TrainConfig(steps=250, batch=64, lr=1e-2, evaluate_every=50),
            label_smoothing=0.1,
        )
    return SupervisedJob(
        source,
        ViTConfig(input=source.input, patch=(2,), dim=48, depth=4, heads=4, mlp=(2.0,)),
        TrainConfig(steps=1500, batch=64, lr=2e-3, optimiser="muon", ema=0.99, evaluate_every=100),
        Augment(shift=0.1, rotate=10, scale=0.1, mixup=0.2),
        label_smoothing=0.1,
    )


DIGITS = Recipe(
    "digits", "Handwritten digits, 8×8", "which digit?", lambda model, system: read_digits(), digits, ("vit", "cnn")
)
