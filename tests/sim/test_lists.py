"""Lists of lines: in their own units, explained by the lattice that comes with them, of all systems."""

import pytest
import torch
from torch import Tensor

from vitreous.powder.search import reflections
from vitreous.powder.superbase import of_lengths
from vitreous.sim import lists
from vitreous.sim.groups import SYSTEMS, centring, numbers
from vitreous.sim.lists import FEWEST, LINES, as_lists, list_source, random_lists


@pytest.fixture(scope="module")
def drawn() -> tuple[Tensor, Tensor]:
    torch.manual_seed(3)
    return random_lists(600)


def misses(x: Tensor, y: Tensor) -> Tensor:
    """How far each line is from the nearest of its lattice, in units of the list's own 1/d; NaN where there is none."""
    calculated = (of_lengths(y.double()) @ reflections("triclinic", "P", (6, 6, 6)).T).clamp(min=0).sqrt()
    place = x[:, 0].double()
    miss = torch.stack([(p[:, None] - c).abs().amin(1) for p, c in zip(place, calculated, strict=True)])
    return miss.masked_fill(place == 0, torch.nan)


def test_lists_rise_end_and_are_in_units_of_their_reference(drawn: tuple[Tensor, Tensor]) -> None:
    x, y = drawn
    assert x.shape == (600, 3, LINES)
    assert y.shape == (600, 6)
    assert x.isfinite().all()
    assert (y > 0).all()
    there = x[:, 0] > 0
    assert (there.diff(dim=1).sum(1) <= 1).all()  # no line after the end
    rising = x[:, 0].diff(dim=1) > 0
    assert rising[there[:, 1:]].all()
    last = (there.sum(1) - 1).clamp(max=19)
    assert (x[:, 0].gather(1, last[:, None]) == 1).all()
    assert (there.sum(1) >= FEWEST).float().mean() > 0.9
    assert (x[:, :, -1][there[:, -1]][:, 1] <= 0.5).all()


def test_nearly_every_line_is_one_of_its_lattice(drawn: tuple[Tensor, Tensor]) -> None:
    miss = misses(*drawn)
    known = miss[~miss.isnan()]
    assert (known < 5e-3).float().mean() > 0.93
    shuffled = misses(drawn[0], drawn[1].roll(1, 0))
    assert (shuffled[~shuffled.isnan()] < 5e-3).float().mean() < 0.6


def test_without_errors_every_line_is_one_of_its_lattice(monkeypatch: pytest.MonkeyPatch) -> None:
    off = (0.0, 0.0)
    monkeypatch.setattr(lists, "_MIXED", 0.0)
    for name in ("_ZERO", "_DISPLACEMENT", "_LOST"):
        monkeypatch.setattr(lists, name, off)
    monkeypatch.setattr(lists, "_ERROR", (1e-9, 1e-9))
    monkeypatch.setattr(lists, "_RESOLUTION", (1e-9, 1e-9))
    monkeypatch.setattr(lists, "_FOREIGN", (1.0, 0.0, 0.0, 0.0))
    monkeypatch.setattr(lists, "_SHORT", 0.0)
    x, y = random_lists(400)
    miss = misses(x, y)
    assert (miss[:, :12].nan_to_num(0) < 2e-4).float().mean() > 0.995  # the box of 6 misses a few lines of long cells


def test_a_seed_decides_all() -> None:
    torch.manual_seed(5)
    first = random_lists(40)
    torch.manual_seed(5)
    assert all(torch.equal(a, b) for a, b in zip(first, random_lists(40), strict=True))


def test_short_lists_are_padded() -> None:
    x, unit = as_lists(torch.tensor([[0.1, 0.2, 0.4]]), torch.tensor([[1.0, 0.5, 0.1]]))
    assert unit.tolist() == pytest.approx([0.4])
    torch.testing.assert_close(x[0, 0, :3], torch.tensor([0.25, 0.5, 1.0]))
    assert (x[0, :, 3:] == 0).all()


def test_a_source_trains_on_new_lists_and_tests_on_the_same() -> None:
    source, again = list_source(64, 32, 32), list_source(64, 32, 32)
    assert (source.x == again.x).all()
    assert source.fresh is not None
    assert source.fresh(16, torch.device("cpu"))[0].shape == (16, 3, LINES)


def test_every_group_has_a_centring_of_its_system() -> None:
    allowed = {
        "triclinic": "P", "monoclinic": "PC", "orthorhombic": "PACIF", "tetragonal": "PI", "trigonal": "PR",
        "hexagonal": "P", "cubic": "PIF",
    }  # fmt: skip
    for system in SYSTEMS:
        assert {centring(n) for n in numbers(system)} == set(allowed[system])
