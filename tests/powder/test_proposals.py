"""What the trained model proposes: near the truth for many lists, the same for the same lines, in their units."""

from pathlib import Path

import torch
from torch import Tensor

import vitreous.powder
from vitreous.powder.proposals import propose, proposer
from vitreous.powder.reduction import quadratic_from_lengths, superbase_lengths
from vitreous.powder.sim import line_lists


def drawn(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Lines of triclinic crystals `(count, n)`, their intensities, and the six lengths of their lattices."""
    torch.manual_seed(8)
    x, unit, inverse = line_lists.random_lists_of_system("triclinic", count, "cpu")
    return (
        (x[:, 0] * unit[:, None]).double().square(),
        torch.where(x[:, 0] > 0, x[:, 1].exp(), 0),
        superbase_lengths(inverse),
    )


def test_many_lattices_are_among_the_proposals() -> None:
    near = 0
    for q, intensity, truth in zip(*drawn(40), strict=True):
        there = intensity > 0
        found = propose(q[there], intensity[there], 3000)
        wanted = quadratic_from_lengths(truth.double())
        scale = truth.max()
        near += bool(((found - wanted).abs().amax(1) / scale).min() < 0.03)
    assert near >= 20  # where a blind draw of as many has none or one


def test_the_same_lines_have_the_same_proposals() -> None:
    q, intensity, _ = (part[0] for part in drawn(1))
    q, intensity = q[intensity > 0], intensity[intensity > 0]
    first = propose(q, intensity, 100)
    assert first.shape == (100, 6)
    assert torch.equal(propose(q, intensity, 100), first)
    torch.testing.assert_close(propose(q, 8 * intensity, 100), first)


def test_lines_at_another_scale_have_proposals_at_that_scale() -> None:
    q, intensity, _ = (part[0] for part in drawn(1))
    q, intensity = q[intensity > 0], intensity[intensity > 0]
    ratio = propose(1.1 * q, intensity, 8) / propose(q, intensity, 8)
    assert ((ratio[:, :3] > 0.7) & (ratio[:, :3] < 1.6)).float().mean() > 0.8


def test_a_few_lines_are_enough_to_ask() -> None:
    assert propose(torch.tensor([0.05, 0.1, 0.15, 0.2]).double(), torch.ones(4), 50).isfinite().all()


def test_the_weights_are_small_and_a_run_like_any_other() -> None:
    folder = Path(vitreous.powder.__file__).parent / "proposer"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 25_000_000
    assert proposer().channels == line_lists.ROWS
