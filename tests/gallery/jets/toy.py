"""Toy jets without a collision: random particles, more of them the higher the class."""

import numpy as np

from vitreous.gallery.jets.simulate import ORIGINS, RaggedJets
from vitreous.gallery.jets.source import LabelledJets


def toy_jets(each: int = 40, seed: int = 0) -> LabelledJets:
    """In place of `load_jets`."""
    rng = np.random.default_rng(seed)
    origin = np.repeat(np.arange(len(ORIGINS)), each)
    count = rng.integers(3, 20 + 20 * origin)
    total = int(count.sum())
    log_pt = rng.normal(1.0, 1.0, total)
    angles = rng.normal(0, 0.2, (total, 2))
    axis = np.stack([rng.uniform(-1, 1, len(count)), rng.uniform(-np.pi, np.pi, len(count))], axis=1)
    eta = angles[:, 0] + np.repeat(axis[:, 0], count)
    log_e = 0.5 * np.log(np.exp(2 * log_pt) * np.cosh(eta) ** 2 + 0.14**2)
    particles = np.column_stack([angles, log_pt, log_e, rng.integers(-1, 2, total)])
    return LabelledJets(
        RaggedJets(count.astype(np.int32), particles.astype(np.float32), axis.astype(np.float32)), origin
    )
