"""A stated cell is refined and judged like any other answer, without a search."""

import numpy as np
import pytest

from vitreous.core.errors import InputError
from vitreous.powder import IndexOptions, Known, index_pattern, index_peaks
from vitreous.powder.bragg import two_theta_from_s
from vitreous.powder.example import example
from vitreous.powder.known_cell import parse_cell
from vitreous.powder.reciprocal import metric_from_cell, reflection_basis
from vitreous.powder.solution import Solution

WAVELENGTH = 1.540593
THIOSULFATE = (5.9501, 21.6, 7.5349, 90.0, 103.785, 90.0)
CUBIC = (5.6402,) * 3 + (90.0,) * 3


def angles(system: str, centring: str, cell: tuple[float, ...], count: int) -> np.ndarray:
    import torch

    x = metric_from_cell(system, torch.tensor([cell], dtype=torch.float64))[0]
    q = np.unique(np.round((reflection_basis(system, centring, (6, 6, 6)) @ x).numpy(), 9))[:count]
    return np.asarray(two_theta_from_s(np.sqrt(q), WAVELENGTH))


def judged(lines: np.ndarray, cell: tuple[float, ...], **more: object) -> list[Solution]:
    return index_peaks(lines, wavelength=WAVELENGTH, known=Known(cell=cell), **more)  # type: ignore[arg-type]


def test_the_right_cell_is_refined_on_the_whole_pattern_and_probable() -> None:
    rough = (5.96, 21.55, 7.52, 90.0, 103.7, 90.0)
    result = index_pattern(example("thiosulfate"), IndexOptions(known=Known(cell=rough), hints=False, phases=1))
    assert result.fit is not None
    assert result.fit.cell == pytest.approx(THIOSULFATE, rel=1e-3)
    assert result.solutions[0].probability > 0.95
    assert result.to_dict()["known"] == {"cell": rough}


@pytest.mark.parametrize("centring", ["P", "I", "F"])
def test_the_centring_follows_from_the_lines(centring: str) -> None:
    solutions = judged(angles("cubic", centring, CUBIC, 12), (5.65, 5.65, 5.65, 90, 90, 90))
    assert (solutions[0].system, solutions[0].centring) == ("cubic", centring)
    assert solutions[0].conventional == pytest.approx(CUBIC, rel=1e-4)
    assert solutions[0].probability > 0.5


def test_a_rhombohedral_cell_is_found_in_hexagonal_axes() -> None:
    cell = (4.98, 4.98, 17.1, 90.0, 90.0, 120.0)
    best = judged(angles("hexagonal", "R", cell, 20), cell)[0]
    assert best.centring == "R"
    assert best.crystal_system == "trigonal"


@pytest.mark.parametrize("factor", [0.9, 0.5, 1.27])
def test_a_wrong_cell_has_a_low_probability_and_doubts(factor: float) -> None:
    cell = tuple(factor * x for x in CUBIC[:3]) + CUBIC[3:]
    solutions = judged(angles("cubic", "P", CUBIC, 20), cell)
    assert solutions[0].conventional[0] == pytest.approx(factor * CUBIC[0], rel=0.02)
    assert solutions[0].probability < 0.1
    assert solutions[0].doubts


def test_twice_the_right_cell_is_doubtful() -> None:
    cell = (5.6402, 5.6402, 11.2804, 90.0, 90.0, 90.0)
    solutions = judged(angles("cubic", "P", CUBIC, 20), cell)
    assert solutions[0].probability < 0.6
    assert "a related lattice" in solutions[0].doubts


def test_only_lattices_of_the_stated_cell_are_answers() -> None:
    for solution in judged(angles("cubic", "F", CUBIC, 12), CUBIC):
        assert solution.volume == pytest.approx(5.6402**3, rel=0.03)


@pytest.mark.parametrize(
    ("words", "systems", "cell"),
    [
        (["5.64"], (), CUBIC),
        (["5.64,5.64,5.64,90,90,90"], (), CUBIC),
        (["4", "5", "6"], (), (4, 5, 6, 90, 90, 90)),
        (["4", "5", "6", "100"], (), (4, 5, 6, 90, 100, 90)),
        (["4,6"], ("tetragonal",), (4, 4, 6, 90, 90, 90)),
        (["4", "6"], ("trigonal",), (4, 4, 6, 90, 90, 120)),
        (["4", "5", "6", "80", "85", "95"], (), (4, 5, 6, 80, 85, 95)),
    ],
)
def test_a_cell_may_be_stated_in_few_numbers(
    words: list[str], systems: tuple[str, ...], cell: tuple[float, ...]
) -> None:
    assert parse_cell(words, systems) == pytest.approx(cell, rel=1e-3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["4", "6"], "cell: found 2 numbers, expected system tetragonal, hexagonal or trigonal with them"),
        (["4", "5", "6", "7", "8"], "cell: found 5 number"),
        (["a", "b"], "cell: found 'a b', expected numbers"),
        ([","], "cell: found 0 number"),
        (["-4"], "cell: found lengths -4 -4 -4, expected 1 to 200 Å"),
        (["nan"], "cell: found nan"),
        (["4", "5", "6", "170", "10", "90"], "expected those of a cell with a volume above 0"),
    ],
)
def test_what_is_no_cell_is_an_error(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_cell(words)


def test_a_cell_that_a_stated_crystal_system_excludes_is_an_error() -> None:
    with pytest.raises(InputError, match="cell: found 4 5 6 Å, 90 95 90°, which is not cubic"):
        judged(angles("cubic", "P", CUBIC, 12), (4, 5, 6, 90, 95, 90), systems=("cubic",))
