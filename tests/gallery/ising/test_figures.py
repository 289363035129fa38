"""Scores of continuous temperatures: errors away from the ends of the range, and the least possible error."""

import numpy as np
import pytest
import torch

from vitreous.data import Axis, Target
from vitreous.data.scale import Scaling
from vitreous.gallery.ising.exact import onsager_energy
from vitreous.gallery.ising.figures import scores
from vitreous.gallery.ising.simulate import Lattice, energy, microstates
from vitreous.nn import ViTConfig, build
from vitreous.run.answers import Answers
from vitreous.run.predictor import Predictor
from vitreous.run.task import Regression

SIZE = 16


def scores_of(true: torch.Tensor, answer: torch.Tensor) -> dict[str, float]:
    """Scores of a run with these answers."""
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
    result = scores_of(true, true + torch.tensor([5.0, 0.1, -0.1, 5.0]))
    assert result["rmse, 1.7 to 3.2"] == pytest.approx(0.1)


def test_an_estimate_from_the_energy_reaches_the_least_possible_error() -> None:
    """Far above the critical point, where the finite lattice behaves as the infinite one."""
    true, lattice = torch.full((2000,), 3.0), Lattice(SIZE)
    slope = (onsager_energy(3.01) - onsager_energy(2.99)) / 0.02
    result = scores_of(true, 3.0 + (energy(microstates(true, lattice), lattice) - onsager_energy(3.0)) / slope)
    assert result["rmse, 1.7 to 3.2"] == pytest.approx(result["least possible"], rel=0.06)
