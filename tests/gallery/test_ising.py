"""Ising spins of any temperature: errors away from the ends, beside the least possible."""

import numpy as np
import pytest
import torch

from vitreous.data import Axis, Target
from vitreous.data.scale import Scaling
from vitreous.gallery.ising import scores
from vitreous.nn import ViTConfig, build
from vitreous.sim.ising import Lattice, energy, microstates, onsager_energy
from vitreous.train.answers import Answers
from vitreous.train.predictor import Predictor
from vitreous.train.task import Regression

SIZE = 16


def said(true: torch.Tensor, answer: torch.Tensor) -> dict[str, float]:
    """Scores of a run that gives these answers."""
    model = build(ViTConfig(input=(1, SIZE, SIZE), patch=(4,), out=1, dim=8, depth=1, heads=2))
    predictor = Predictor(
        model, Regression((Target("T"),), (0.0,), (1.0,)), Scaling(), (Axis("row"), Axis("column")), ("spin",)
    )
    none = np.zeros(0, dtype=int)
    few = np.zeros((0, 1, SIZE, SIZE))
    y, out = (values.double().numpy()[:, None] for values in (true, answer))
    return scores(predictor, Answers(np.arange(len(true)), y, out, none, few, none, np.zeros((0, 8))))


def test_only_temperatures_away_from_the_ends_count() -> None:
    true = torch.tensor([1.0, 2.0, 3.0, 3.5])
    found = said(true, true + torch.tensor([5.0, 0.1, -0.1, 5.0]))
    assert found["rmse, 1.7 to 3.2"] == pytest.approx(0.1)


def test_the_energy_tells_temperatures_as_well_as_anything_can() -> None:
    """Far above the critical point, where the lattice is as good as infinite and the energy is all that matters."""
    true, lattice = torch.full((2000,), 3.0), Lattice(SIZE)
    slope = (onsager_energy(3.01) - onsager_energy(2.99)) / 0.02
    found = said(true, 3.0 + (energy(microstates(true, lattice), lattice) - onsager_energy(3.0)) / slope)
    assert found["rmse, 1.7 to 3.2"] == pytest.approx(found["least possible"], rel=0.06)
