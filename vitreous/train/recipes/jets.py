"""Which particle did a jet come from? (S2.10)"""

from dataclasses import replace

from vitreous.errors import check_choice
from vitreous.nn import ViTConfig
from vitreous.sim.jet_source import COORDINATES, MOST, jet_source
from vitreous.train.config import TrainConfig
from vitreous.train.run import Experiment

_PLAIN = ViTConfig(
    input=(12, MOST), tokens="packed", axes=len(COORDINATES), position="none", dim=128, depth=6, heads=8, mlp=(4.0,),
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
    jets are made, by all cores. Not measured on a GPU yet.
    """
    check_choice("model", model, JET_MODELS)
    settings = TrainConfig(
        steps=3000, batch=512, lr=1e-3, optimiser="muon", weight_decay=0.05, ema=0.998, evaluate_every=500, keep="best"
    )
    return Experiment(jet_source(), JET_MODELS[model], settings, scale="none")
