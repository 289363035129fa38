"""Symmetry operations leave the energy of spins exactly unchanged and reach every position."""

import json

import pytest
import torch

from vitreous.core.errors import InputError
from vitreous.data.augment import Augment
from vitreous.data.transforms import ROLLS, TURNS, roll, turn
from vitreous.gallery.ising.simulate import Lattice, energy

ALL = {"roll": "antiperiodic", "turn": "square", "negate": True}
SAME = [("periodic", "square"), ("antiperiodic", "square"), ("skewed", "half")]


def spins(count: int, size: int = 8) -> torch.Tensor:
    return torch.randint(2, (count, 1, size, size)).float() * 2 - 1


@pytest.mark.parametrize(("boundary", "turns"), SAME)
@pytest.mark.parametrize("ferromagnetic", [True, False])
def test_the_energy_of_a_microstate_stays_the_same(boundary: str, turns: str, ferromagnetic: bool) -> None:
    lattice, x = Lattice(8, boundary, ferromagnetic), spins(100)
    moved, _ = Augment(roll=boundary, turn=turns, negate=True)(x, torch.zeros(100, 1))
    assert torch.equal(energy(moved[:, 0], lattice), energy(x[:, 0], lattice))
    assert not torch.equal(moved, x)


@pytest.mark.parametrize("rule", [rule for rule in ROLLS if rule != "periodic"])
def test_a_different_boundary_changes_the_energy(rule: str) -> None:
    x = spins(100)
    moved, _ = Augment(roll=rule)(x, torch.zeros(100, 1))
    assert not torch.equal(energy(moved[:, 0], Lattice(8)), energy(x[:, 0], Lattice(8)))


def test_a_periodic_roll_equals_that_of_torch() -> None:
    x, shift = torch.randn(3, 2, 5, 7), torch.tensor([[0, 0], [2, 3], [6, 9]])
    moved_grids = roll(x, shift, "periodic")
    for sample, (rows, columns), expected in zip(moved_grids, shift.tolist(), x, strict=True):
        assert torch.equal(sample, expected.roll((-rows, -columns), (1, 2)))


def test_once_around_turns_the_sign_of_an_antiperiodic_grid_and_moves_a_skewed_one_by_a_row() -> None:
    x = torch.randn(1, 1, 6, 6)
    assert torch.equal(roll(x, torch.tensor([[6, 0]]), "antiperiodic"), -x)
    assert torch.equal(roll(x, torch.tensor([[6, 6]]), "antiperiodic"), x)
    assert torch.equal(roll(x, torch.tensor([[0, 6]]), "skewed"), roll(x, torch.tensor([[1, 0]]), "skewed"))


@pytest.mark.parametrize(("kind", "count"), [("half", 2), ("square", 8)])
def test_turns_are_as_many_as_the_group_has_and_the_first_is_none(kind: str, count: int) -> None:
    x = torch.randn(1, 1, 4, 4)
    moved_grids = turn(x.expand(count, -1, -1, -1), torch.arange(count), kind)
    assert len(TURNS[kind]) == count == len({tuple(one.flatten().tolist()) for one in moved_grids})
    assert torch.equal(moved_grids[0], x[0])
    assert any(torch.equal(one, x[0].flip((1, 2))) for one in moved_grids)


def test_every_place_and_sign_is_reached_as_often_as_any_other() -> None:
    x = torch.zeros(20000, 1, 4, 4)
    x[:, :, 1, 2] = 1
    moved, _ = Augment(**ALL)(x, torch.zeros(20000, 1))
    counts = torch.stack([(moved == sign).sum((0, 1)) for sign in (1, -1)])
    assert counts.sum() == 20000
    assert (counts - 625).abs().max() < 5 * 625**0.5


def test_all_of_them_compile_repeat_and_survive_json() -> None:
    x, y, augment = spins(6), torch.eye(6), Augment(**ALL)
    assert Augment.from_dict(json.loads(json.dumps(augment.to_dict()))) == augment
    assert augment(x.to("meta"), y.to("meta"))[0].shape == x.shape
    torch.manual_seed(1)
    expected = augment(x, y)[0]
    compiled = torch.compile(lambda x, y: augment(x, y), fullgraph=True, backend="aot_eager")
    torch.manual_seed(1)
    assert torch.equal(compiled(x, y)[0], expected)


@pytest.mark.parametrize(
    ("settings", "shape", "message"),
    [
        ({"roll": "periodic"}, (20,), r"roll: found periodic with inputs of rank 1, but it is for images"),
        ({"turn": "half"}, (4, 4, 4), r"turn: found half with inputs of rank 3, but it is for images"),
        ({"turn": "square"}, (4, 6), "turn: found a grid of 4 × 6, expected a square one"),
    ],
)
def test_unsupported_grids_are_reported_in_one_line(
    settings: dict[str, str], shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Augment(**settings)(torch.zeros(2, 1, *shape), torch.zeros(2, 1))  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{"roll": "open"}, {"turn": "quarter"}, {"negate": 1}])
def test_unknown_choices_are_reported_in_one_line(settings: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(settings))):
        Augment(**settings)  # type: ignore[arg-type]
