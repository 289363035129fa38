"""Templates for one's own data: a model and settings that fit the size of the data."""

import math
from dataclasses import replace

from vitreous.core.errors import check_choice
from vitreous.data import Source
from vitreous.data.augment import Augment
from vitreous.data.scale import DERIVATIVES
from vitreous.nn import CNNConfig, ViTConfig
from vitreous.nn.models import Config
from vitreous.train.config import TrainConfig
from vitreous.train.supervised import SupervisedJob

_AUGMENT = {
    1: Augment(shift=1.0, gain=0.05, baseline=0.05, noise=0.01),
    2: Augment(shift=0.08, rotate=8, scale=0.1),
    3: Augment(noise=0.01),
}
_SPECTRUM = 50  # points; a shorter row of numbers is a table, not a spectrum
_TOKENS = {1: 64, 2: 10, 3: 6}  # approximate number of patches along an axis, by rank of the grid


def own_data_job(source: Source, model: str = "vit", scale: str = "") -> SupervisedJob:
    """A `vit` or `cnn` for any labelled source.

    `vitreous train DATA --target NAME:UNIT --out RUN`. The training takes 200 epochs, but at least 800 and at most
    8,000 steps. `scale` is chosen by the data if empty. With derivatives of spectra the tokens are not pooled: the head
    reads all of them, since each stands for a wavelength.
    """
    check_choice("model", model, ("vit", "cnn"))
    rank, count = len(source.axes), len(source)
    # spectra are scaled one by one, against scatter; a few numbers are a table, scaled by column
    scale = scale or ("channel" if rank > 1 else "sample" if source.input[1] >= _SPECTRUM else "point")
    batch = 32 if count < 2_000 else 64 if count < 20_000 else 256
    steps = min(8_000, max(800, 200 * count // batch))
    settings = TrainConfig(steps=steps, batch=batch, lr=3e-3, ema=0.99, evaluate_every=max(20, steps // 20))
    config: Config = CNNConfig(input=source.input, widths=(24, 48, 96))
    if model == "vit":
        settings = replace(settings, lr=1e-3, optimiser="muon")
        config = _vit(source, all_tokens=scale in DERIVATIVES)
    smoothing = 0.1 if source.classes else 0.0
    return SupervisedJob(source, config, settings, _AUGMENT[rank], scale=scale, label_smoothing=smoothing)


def _vit(source: Source, all_tokens: bool) -> Config:
    patch = tuple(max(1, math.ceil(n / _TOKENS[len(source.axes)])) for n in source.input[1:])
    origin, spacing = zip(*((axis.origin, axis.spacing) for axis in source.axes), strict=True)
    config = ViTConfig(input=source.input, patch=patch, dim=64, depth=4, heads=4, mlp=(2.0,))
    pool = "flatten" if all_tokens else "cls"
    return config.replace(cls=not all_tokens, pool=pool, origin=origin, spacing=spacing)
