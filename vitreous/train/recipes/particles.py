"""What came in? Jets of a collider (S2.10) and showers of cosmic rays (S2.8), as sets of particles and of stations."""

from dataclasses import replace

from vitreous.errors import check_choice
from vitreous.nn import CNNConfig, ViTConfig
from vitreous.nn.models import Config
from vitreous.sim.jet_source import COORDINATES as JET_COORDINATES
from vitreous.sim.jet_source import MOST, jet_source
from vitreous.sim.shower_source import COORDINATES as SHOWER_COORDINATES
from vitreous.sim.shower_source import shower_source
from vitreous.sim.showers import SAMPLES
from vitreous.train.config import TrainConfig
from vitreous.train.run import Experiment

_PLAIN = ViTConfig(
    input=(12, MOST), tokens="packed", axes=len(JET_COORDINATES), position="none", dim=128, depth=6, heads=8,
    dropout=0.1, drop_path=0.1,
)  # fmt: skip
JET_MODELS = {
    "vit": replace(_PLAIN, bias="lorentz"),
    "plain": _PLAIN,
    "deep-sets": replace(_PLAIN, attention="none", pool="mean", cls=False),
}
"""Attention that knows every two particles' ΔR, k_T, z and mass; without; and no attention at all."""


def jets(model: str = "vit") -> Experiment:
    """Particle tokens with the interactions of every two as a bias, beside plain attention and Deep Sets.

    `vitreous train jets --out RUN [--model plain|deep-sets]`, with `pip install 'vitreous[jets]'`; at first 40,000
    jets are made, by all cores; then it is a minute of an H200. Right, 5 seeds: 0.822, plain
    attention 0.806, Deep Sets 0.755.
    """
    check_choice("model", model, JET_MODELS)
    settings = TrainConfig(
        steps=3000, batch=512, lr=1e-3, optimiser="muon", weight_decay=0.05, ema=0.998, evaluate_every=500, keep="best"
    )
    return Experiment(jet_source(), JET_MODELS[model], settings, scale="none")


_TRACE = (8, 16, 32, 32)  # convolutions along a trace, the same before both
SHOWER_MODELS: dict[str, tuple[str, Config]] = {
    "vit": (
        "set",
        ViTConfig(
            input=(SAMPLES + 4, 61), tokens="packed", axes=len(SHOWER_COORDINATES), stem=_TRACE, bias="offset", dim=128,
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

    `vitreous train showers --out RUN [--model hexagonal]`: two minutes of an H200. Showers are simulated as the
    training goes on. X_max to 16.3 g/cm² (hexagonal: 20.3), merit factor of the mass 2.63 (2.47), 3 seeds.
    """
    check_choice("model", model, SHOWER_MODELS)
    layout, config = SHOWER_MODELS[model]
    settings = TrainConfig(steps=4000, batch=256, lr=1e-3, optimiser="muon", ema=0.998, evaluate_every=500, keep="last")
    return Experiment(shower_source(layout), config, settings, scale="none", loss="gaussian")
