"""Air showers (S2.8): traces of stations, mixed by attention or by hexagonal convolution."""

from vitreous.data import Source
from vitreous.gallery.showers.figures import draw
from vitreous.gallery.showers.simulate import COORDINATES, SAMPLES, shower_source
from vitreous.nn import CNNConfig, ViTConfig
from vitreous.nn.models import Config
from vitreous.train.config import TrainConfig
from vitreous.train.recipe import Recipe
from vitreous.train.supervised import SupervisedJob

_TRACE = (8, 16, 32, 32)  # convolutions along a trace, the same before both
SHOWER_MODELS: dict[str, tuple[str, Config]] = {
    "vit": ("set", ViTConfig(
        input=(SAMPLES + 4, 61), tokens="packed", axes=len(COORDINATES), stem=_TRACE, bias="offset", dim=128, depth=4,
        heads=8, mlp=(2.0,),
    )),
    "hexagonal": ("grid", CNNConfig(
        input=(SAMPLES + 2, 9, 9), samples=SAMPLES, traces=_TRACE, hexagonal=True, widths=(64, 128), blocks=(2, 2)
    )),
}  # fmt: skip
"""Layout of the data and model: stations as a set, mixed by attention; as a map, by hexagonal convolution."""


def showers(source: Source, model: str, system: str) -> SupervisedJob:
    """Traces encoded station by station, then stations mixed by attention, or by hexagonal convolution.

    `vitreous train showers --out RUN [--model hexagonal]`: two minutes of an H200. Showers are simulated as the
    training goes on. X_max to 16.3 g/cm² (hexagonal: 20.3), merit factor of the mass 2.63 (2.47), 3 seeds.
    """
    settings = TrainConfig(steps=4000, batch=256, lr=1e-3, optimiser="muon", ema=0.998, evaluate_every=500, keep="last")
    return SupervisedJob(source, SHOWER_MODELS[model][1], settings, scale="none", loss_name="gaussian")


RECIPE = Recipe(
    "showers", "Cosmic-ray showers", "which nucleus, how deep?",
    lambda model, system, **samples: shower_source(SHOWER_MODELS[model][0], **samples), showers,
    tuple(SHOWER_MODELS), figures=draw,
)  # fmt: skip
