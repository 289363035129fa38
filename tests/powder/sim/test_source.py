"""Simulated sources: one grid in q whatever the wavelength, fixed samples that stay, fresh ones that train."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from vitreous.data.source import Source
from vitreous.nn import ViTConfig
from vitreous.powder.cell import check_cell, free_parameters, full_cell, targets
from vitreous.powder.grid import POINTS, Q_AXIS, Q_MAX
from vitreous.powder.sim.crystals import Lines
from vitreous.powder.sim.effects import CLEAN, Effects
from vitreous.powder.sim.measurement import measure
from vitreous.powder.sim.source import fixed_patterns, powder_source, q_grid, simulate_samples, to_q
from vitreous.powder.sim.space_groups import SYSTEMS
from vitreous.train import SupervisedJob, TrainConfig, load, train

S = [0.08, 0.1734, 0.25, 0.4111, 0.6, 0.85]  # 1/Å
COARSE = replace(Effects(), points=1500)


def single_lines() -> Lines:
    """A crystal for each line."""
    count = len(S)
    return Lines(torch.tensor(S), torch.ones(count), torch.arange(count), torch.zeros(count, 3), torch.eye(3), count)


def tops(patterns: Tensor) -> Tensor:
    return q_grid()[patterns[:, 0].argmax(1)]


@pytest.mark.parametrize("wavelength", [0.7, 1.0, 1.540598])
def test_lines_have_their_q_at_any_wavelength(wavelength: float) -> None:
    effects = replace(CLEAN, wavelength=wavelength, wavelength2=wavelength, width=(0.05, 0.05))
    patterns = to_q(measure(single_lines(), effects), effects)
    assert patterns.shape == (len(S), 1, POINTS)
    expected = 2 * math.pi * torch.tensor(S, dtype=torch.float64)
    step = Q_AXIS.spacing * max(1.0, 1.540598 / wavelength)  # of the coarser of the two grids
    assert (tops(patterns) - expected).abs().max() <= step


def test_patterns_of_two_wavelengths_have_lines_at_the_same_q() -> None:
    other = replace(CLEAN, wavelength=0.7, wavelength2=0.7, two_theta=(0.0, 40.0), width=(0.05, 0.05))
    ours, theirs = (tops(to_q(measure(single_lines(), e), e)) for e in (CLEAN, other))
    assert (ours - theirs).abs().max() <= 1.001 * Q_AXIS.spacing


def test_unmeasured_points_are_zero() -> None:
    short = replace(CLEAN, two_theta=(10.0, 40.0), background=(0.5, 0.5))
    pattern = to_q(measure(single_lines(), short), short)[0, 0]
    first, last = (4 * math.pi * math.sin(math.radians(t / 2)) / CLEAN.wavelength for t in (10, 40))
    q = q_grid()
    assert (pattern[(q < first) | (q > last)] == 0).all()
    inside = (q > first + 0.01) & (q < last - 0.01)
    assert (pattern[inside] > 0).float().mean() > 0.5
    assert pattern[inside].max() > 0.4


def test_the_grid_ends_at_copper_radiation_and_90_degrees() -> None:
    q = q_grid()
    assert len(q) == POINTS
    assert (q[0].item(), q[1].item()) == (0.0, Q_AXIS.spacing)
    assert q[-1].item() == pytest.approx(Q_MAX - Q_AXIS.spacing)
    assert pytest.approx(2 * math.pi * CLEAN.s_max) == Q_MAX


def test_fixed_samples_depend_only_on_their_seed() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    x, y = fixed_patterns("cubic", COARSE, 5, seed=7)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    again = fixed_patterns("cubic", COARSE, 5, seed=7)
    other = fixed_patterns("cubic", COARSE, 5, seed=8)
    assert np.array_equal(x, again[0])
    assert np.array_equal(y, again[1])
    assert not np.array_equal(y, other[1])
    assert (x.shape, x.dtype, y.shape) == ((5, 1, POINTS), np.float32, (5, 1))


def test_fixed_samples_of_several_chunks_are_all_different() -> None:
    x, y = fixed_patterns("cubic", replace(COARSE, points=300), 300, seed=0)  # more than are made at once
    assert (x.max(axis=(1, 2)) > 0).all()
    assert len(np.unique(y)) > 290


@pytest.mark.parametrize("system", SYSTEMS)
def test_targets_are_the_free_parameters_of_valid_cells(system: str) -> None:
    x, y = simulate_samples(system, COARSE, 6, "cpu")
    assert x.shape == (6, 1, POINTS)
    assert x.isfinite().all()
    assert y.shape == (6, len(targets(system)))
    for cell in full_cell(system, y).tolist():
        check_cell(cell)
    torch.testing.assert_close(
        free_parameters(system, full_cell(system, y)), y, atol=1e-3, rtol=1e-4
    )  # in the one form already


def small(system: str, effects: Effects | None = None) -> Source:
    return powder_source(system, effects or COARSE, train=24, validation=12, test=12)


def test_parts_do_not_overlap_and_fresh_samples_are_new() -> None:
    source = small("hexagonal")
    rows = np.concatenate([source.parts[part] for part in ("train", "validation", "test")])
    assert np.array_equal(rows, np.arange(48))
    assert source.fresh is not None
    (x, y), (_, other) = (source.fresh(4, torch.device("cpu")) for _ in range(2))
    assert x.shape == (4, *source.input)
    assert not torch.equal(y, other)
    assert not np.isin(y.numpy(), source.y).any()


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_trains(system: str, tmp_path: Path) -> None:
    model = ViTConfig(input=(1, POINTS), patch=(100,), dim=8, depth=1, heads=2)
    config = TrainConfig(steps=2, batch=4, evaluate_every=1)
    result = train(
        SupervisedJob(small(system), model, config, scale="root", loss_name="l1"), tmp_path / "run", bar=False
    )
    assert result["steps"] == 2
    assert math.isfinite(result["test"]["mape"])
    assert 0 <= result["test"]["coverage90"] <= 1
    prediction = load(tmp_path / "run")(small(system).x[:3])
    assert prediction.values is not None
    lengths = [target.log for target in targets(system)]
    assert (np.asarray(prediction.values)[:, lengths] > 0).all()  # lengths are positive before anything is learned
