"""Small untrained predictors of every kind of input, with a sample each."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vitreous.data.scale import Scaling
from vitreous.data.source import Axis, Target
from vitreous.nn import CNNConfig, ViTConfig, build
from vitreous.nn.models import Config
from vitreous.run.predictor import Predictor
from vitreous.run.task import Classification, Mixture, Regression, Task

CLASSES = Classification(("cat", "dog", "eel"))
QUANTITIES = Regression((Target("assay", "mg"), Target("water", "%")), (5.0, 1.0), (2.0, 0.5))
HYPOTHESES = Mixture((Target("a", "Å", log=True),), (1.0,), (0.3,), hypotheses=3)
SMALL: dict[str, Any] = {"dim": 16, "depth": 2, "heads": 2}

KINDS: dict[str, tuple[Config, Task]] = {
    "spectrum": (ViTConfig(input=(1, 47), patch=(5,), **SMALL), QUANTITIES),
    "overlapping": (ViTConfig(input=(2, 40), patch=(8,), stride=(4,), pool="mean", cls=False, **SMALL), QUANTITIES),
    "picture": (ViTConfig(input=(1, 12, 8), patch=(4,), registers=1, **SMALL), CLASSES),
    "colours": (ViTConfig(input=(3, 8, 8), patch=(4,), pool="attention", **SMALL), CLASSES),
    "volume": (ViTConfig(input=(1, 4, 8, 8), patch=(4,), pool="flatten", **SMALL), CLASSES),
    "peaks": (
        ViTConfig(input=(1, 300), tokens="peaks", peaks=12, position="none", spacing=(0.02,), **SMALL),
        HYPOTHESES,
    ),
    "lines": (ViTConfig(input=(2, 9), tokens="lines", position="none", **SMALL), QUANTITIES),
    "set": (ViTConfig(input=(3, 6), tokens="set", position="none", **SMALL), CLASSES),
    "packed": (ViTConfig(input=(5, 6), tokens="packed", axes=2, **SMALL), CLASSES),
    "jet": (ViTConfig(input=(6, 6), tokens="packed", axes=4, bias="lorentz", **SMALL), CLASSES),
    "stations": (ViTConfig(input=(20, 6), tokens="packed", axes=2, stem=(4,), samples=16, **SMALL), QUANTITIES),
    "deep set": (
        ViTConfig(input=(5, 6), tokens="packed", axes=2, attention="none", pool="mean", cls=False, **SMALL),
        CLASSES,
    ),
    "cnn spectrum": (CNNConfig(input=(1, 47), widths=(4, 8)), QUANTITIES),
    "cnn picture": (CNNConfig(input=(1, 12, 8), widths=(4, 8)), CLASSES),
}
VITS = [kind for kind in KINDS if not kind.startswith(("cnn", "deep"))]
"""Those with attention to look at."""


def predictor(kind: str, seed: int = 0) -> Predictor:
    """An untrained predictor whose weights are large enough to look at different things."""
    config, task = KINDS[kind]
    torch.manual_seed(seed)
    model = build(type(config).from_dict({**config.to_dict(), "out": task.outputs}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.15 * torch.randn_like(parameter))
    spacing = config.spacing[0] if isinstance(config, ViTConfig) and config.spacing else 2.0
    axes = {
        1: (Axis("wavelength", "nm", 0.0, spacing),),
        2: (Axis("y", "mm", 0.0, 0.5), Axis("x", "mm", 1.0, 0.5)),
        3: (Axis("z", "mm"), Axis("y", "mm"), Axis("x", "mm")),
    }
    names = tuple(f"channel {i}" for i in range(config.input[0]))
    return Predictor(model, task, Scaling(), axes[len(config.grid)], names, kind)


def sample(kind: str, seed: int = 0) -> NDArray[np.float32]:
    """A sample `(channels, *grid)` that suits the predictor of this kind."""
    config, _ = KINDS[kind]
    rng = np.random.default_rng(seed)
    if kind == "peaks":
        x, centres = np.arange(300), rng.uniform(20, 280, 7)
        peaks = np.exp(-0.5 * ((x[:, None] - centres) / 2) ** 2).sum(1)
        return (peaks + 0.002 * rng.normal(size=300)).astype(np.float32)[None]
    found = rng.normal(size=config.input).astype(np.float32)
    if kind == "lines":
        found[0] = [0.3, 0.5, 0.6, 0.8, 1.0, 1.1, 0, 0, 0]
    if kind in ("packed", "jet", "stations", "deep set"):
        found[:, 4:] = 0
    return found
