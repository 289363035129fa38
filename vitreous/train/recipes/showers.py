"""Which nucleus made a shower, and how deep was its maximum? (S2.8)"""

from vitreous.errors import check_choice
from vitreous.nn import CNNConfig, ViTConfig
from vitreous.nn.models import Config
from vitreous.sim.shower_source import COORDINATES, shower_source
from vitreous.sim.showers import SAMPLES
from vitreous.train.config import TrainConfig
from vitreous.train.run import Experiment

_TRACE = (8, 16, 32, 32)  # convolutions along a trace, the same before both
SHOWER_MODELS: dict[str, tuple[str, Config]] = {
    "vit": (
        "set",
        ViTConfig(
            input=(SAMPLES + 4, 61), tokens="packed", axes=len(COORDINATES), stem=_TRACE, bias="offset", dim=128,
            depth=4, heads=8, mlp=(2.0,),
        ),
    ),
    "hexagonal": (
        "grid",
        CNNConfig(
            input=(SAMPLES + 2, 9, 9), samples=SAMPLES, traces=_TRACE, hexagonal=True, widths=(64, 128), blocks=(2, 2)
        ),
    ),
}  # fmt: skip
"""Layout of the data and model: stations as a set, mixed by attention; as a map, by hexagonal convolution."""


def showers(model: str = "vit") -> Experiment:
    """Traces encoded station by station, then stations mixed by attention, or by hexagonal convolution.

    `vitreous train showers --out RUN [--model hexagonal]`; showers are simulated as the training goes on. Not
    measured on a GPU yet.
    """
    check_choice("model", model, SHOWER_MODELS)
    layout, config = SHOWER_MODELS[model]
    settings = TrainConfig(steps=4000, batch=256, lr=1e-3, optimiser="muon", ema=0.998, evaluate_every=500, keep="last")
    return Experiment(shower_source(layout), config, settings, scale="none", loss="gaussian")
