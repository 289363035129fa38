"""Chirps in the noise of an interferometer (S2.11): a ViT beside a CNN."""

from vitreous.data import Source
from vitreous.gallery.chirps.figures import draw
from vitreous.gallery.chirps.simulate import Chirps, chirps_source
from vitreous.nn import CNNConfig, ViTConfig
from vitreous.train.config import TrainConfig
from vitreous.train.recipe import Recipe
from vitreous.train.supervised import SupervisedJob

_INPUT = (1, Chirps().points)
_VIT = ViTConfig(
    input=_INPUT, patch=(128,), stride=(16,), bias="relative", dim=192, depth=5, heads=6, pool="mean", cls=False
)
_CNN = CNNConfig(input=_INPUT, widths=(32, 64, 128, 128, 128), kernel=15)


def chirps(source: Source, model: str, system: str) -> SupervisedJob:
    """Is there a chirp in a second of whitened strain? Half of the segments hold one, of signal-to-noise ratio 4 to 16.

    `vitreous train chirps --out RUN [--model cnn]`: under four minutes of an H200 (CNN: 87 s). At 1 % false alarms and
    ratios of 5, 6 and 7 it finds 97, 97 and 99 % of what the matched filter does (CNN: 77, 86, 94).

    Patches are 62 ms long and begin every 8 ms, so that their projection can learn what matched filters are: pieces of
    a wave of several oscillations. In trials on a CPU, shorter and longer patches were worse, a relative bias better.
    """
    if model == "cnn":
        settings = TrainConfig(steps=6000, batch=256, lr=1e-3, evaluate_every=500, compile="graph")
        return SupervisedJob(source, _CNN, settings, scale="none")
    settings = TrainConfig(steps=24_000, batch=512, lr=2e-3, optimiser="muon", ema=0.999, evaluate_every=3000)
    return SupervisedJob(source, _VIT, settings, scale="none")


RECIPE = Recipe(
    "chirps", "gravitational-wave chirps",
    "Is there a chirp in the noise? Beside matched filtering, the known optimum.",
    lambda model, system, **samples: chirps_source(**samples), chirps, ("vit", "cnn"), figures=draw,
)  # fmt: skip
