"""What the trained model proposes: near the truth for many lists, the same for the same lines, in their units."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import vitreous.powder
from vitreous.powder.bragg import two_theta_from_s
from vitreous.powder.observed_lines import ObservedLines, observe_lines
from vitreous.powder.proposals import propose, proposer
from vitreous.powder.radiation import CU_KALPHA1
from vitreous.powder.reduction import quadratic_from_lengths, superbase_lengths
from vitreous.powder.sim import line_lists
from vitreous.powder.tuning import SEARCH_TUNING


def drawn(count: int) -> list[tuple[ObservedLines, Tensor, Tensor]]:
    """Lists of triclinic crystals, copper radiation: lines, intensities, and the six lengths of the lattice."""
    torch.manual_seed(8)
    effects = line_lists.ListEffects(copper=1.0, clean=1.0, zero=(0.05, 0.05))
    lists, units, inverse, _ = line_lists.random_lists_of_system("triclinic", count, "cpu", effects)
    return [observed(*each) for each in zip(lists, units, superbase_lengths(inverse), strict=True)]


def observed(rows: Tensor, unit: Tensor, truth: Tensor) -> tuple[ObservedLines, Tensor, Tensor]:
    present = rows[0] > 0
    angle = two_theta_from_s((rows[0, present] * unit).double(), CU_KALPHA1).numpy()
    lines = observe_lines(angle, np.full(len(angle), 0.01), CU_KALPHA1)
    return lines, rows[1, present].exp(), truth


def test_many_lattices_are_among_the_proposals() -> None:
    near = 0
    for lines, intensity, truth in drawn(40):
        proposed, _ = propose(lines, intensity, CU_KALPHA1, 3000)
        wanted = quadratic_from_lengths(truth.double())
        scale = truth.max()
        near += bool(((proposed - wanted).abs().amax(1) / scale).min() < 0.03)
    assert near >= 20  # where a blind draw of as many has none or one


def test_the_same_lines_have_the_same_proposals() -> None:
    lines, intensity, _ = drawn(1)[0]
    first, zero = propose(lines, intensity, CU_KALPHA1, 100)
    assert first.shape == (100, 6)
    assert zero.shape == (100,)
    assert torch.equal(propose(lines, intensity, CU_KALPHA1, 100)[0], first)
    torch.testing.assert_close(propose(lines, 8 * intensity, CU_KALPHA1, 100)[0], first)


def test_lines_at_another_scale_have_proposals_at_that_scale() -> None:
    lines, intensity, _ = drawn(1)[0]
    wider = replace(lines, q=1.1 * lines.q, slope=1.1 * lines.slope)
    ratio = propose(wider, intensity, CU_KALPHA1, 8)[0] / propose(lines, intensity, CU_KALPHA1, 8)[0]
    assert ((ratio[:, :3] > 0.7) & (ratio[:, :3] < 1.6)).float().mean() > 0.8


def test_a_few_lines_are_enough_to_ask() -> None:
    lines = observe_lines(np.array([20.0, 28.0, 35.0, 41.0]), np.full(4, 0.01), CU_KALPHA1)
    assert propose(lines, torch.ones(4), CU_KALPHA1, 50)[0].isfinite().all()


def test_the_proposals_try_shifts_of_usual_size() -> None:
    lines, intensity, _ = drawn(1)[0]
    _, zero = propose(lines, intensity, CU_KALPHA1, 1000)
    assert 0.005 < zero.abs().median() < 0.1
    assert zero.abs().max() <= SEARCH_TUNING.largest_zero


def test_the_weights_are_small_and_a_run_like_any_other() -> None:
    folder = Path(vitreous.powder.__file__).parent / "proposer"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 25_000_000
    assert proposer().channels == line_lists.ROWS
