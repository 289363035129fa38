"""What is known narrows the search: angles that count, zero shift, volume, crystal system."""

import numpy as np
import pytest

from benchmarks.index_table import cases, made, off
from vitreous.core.errors import InputError
from vitreous.data.builtin import data_folder
from vitreous.powder import Known, index_pattern, index_peaks
from vitreous.powder.cell import volumes
from vitreous.powder.example import example
from vitreous.powder.indexing import IndexOptions
from vitreous.powder.known import parse_ranges
from vitreous.powder.lattice import same_lattice
from vitreous.powder.radiation import wavelength_of_energy
from vitreous.powder.search import lattice_systems

A, WAVELENGTH = 5.6402, 1.540593
SQUARES = np.array([3, 4, 8, 11, 12, 16, 19, 20, 24, 27])
LINES = 2 * np.degrees(np.arcsin(WAVELENGTH / 2 / A * np.sqrt(SQUARES)))


def test_excluded_angles_and_those_out_of_range_do_not_count() -> None:
    known = Known(two_theta=(20.0, 60.0), exclude=parse_ranges(["30", "40-41.5"]))
    angles = np.array([19.9, 20.0, 29.8, 30.1, 39.9, 40.5, 41.6, 60.1])
    assert known.uses(angles).tolist() == [False, True, True, False, True, False, True, False]


def test_excluded_lines_are_not_among_those_of_the_answer() -> None:
    lines = np.sort([*LINES, 30.0, 40.0])
    best = index_peaks(lines, wavelength=WAVELENGTH, systems=("cubic",), known=Known(exclude=((29, 31), (39.9, 40.1))))[
        0
    ]
    assert best.lines == best.indexed == len(LINES)


def test_a_known_zero_shift_is_corrected_and_not_fitted() -> None:
    best = index_peaks(LINES + 0.3, wavelength=WAVELENGTH, systems=("cubic",), known=Known(zero=0.3))[0]
    assert abs(best.zero) < 0.005
    assert best.conventional[0] == pytest.approx(A, rel=1e-4)


def test_solutions_have_a_volume_within_the_limits() -> None:
    solutions = index_peaks(LINES, wavelength=WAVELENGTH, known=Known(volume=(170.0, 190.0)))
    assert solutions
    assert same_lattice(solutions[0].cell, (A / 2**0.5,) * 3 + (60.0,) * 3, 1e-3)
    for solution in solutions:
        smallest = solution.volume / {"P": 1, "R": 3, "F": 4}.get(solution.centring, 2)
        assert smallest < 195
        assert 4 * smallest > 165


def test_a_pattern_is_cut_to_the_angles_that_count() -> None:
    pattern = example("thiosulfate")
    known = Known(two_theta=(5.0, 25.0), exclude=((10.0, 10.5),))
    used = known.select(pattern).two_theta
    assert used[0] >= 5
    assert used[-1] <= 25
    assert not ((used > 10) & (used < 10.5)).any()
    result = index_pattern(pattern, IndexOptions(known=known, hints=False))
    assert result.peaks is not None
    assert not ((result.peaks.two_theta > 10) & (result.peaks.two_theta < 10.5)).any()


@pytest.mark.parametrize("group", ["monoclinic", "orthorhombic", "tetragonal", "hexagonal"])
def test_a_true_hint_keeps_a_right_answer(group: str) -> None:
    if not (data_folder() / "crystals" / "minerals.jsonl.gz").is_file():
        pytest.skip("needs the minerals of the data folder (VITREOUS_DATA)")
    case = next(case for case in cases("minerals", 10) if case.group == group)
    pattern, truth = made(case)
    volume = float(volumes([truth])[0])
    for known in (Known(), Known(volume=(0.9 * volume, 4.4 * volume)), Known(two_theta=(8.0, 80.0))):
        best = index_pattern(pattern, IndexOptions(known=known, hints=False)).best
        assert best is not None
        assert off(np.array(best.cell), truth).max() < 0.005


def test_trigonal_is_searched_with_hexagonal() -> None:
    assert lattice_systems(["trigonal", "hexagonal", "cubic"]) == ("hexagonal", "cubic")


def test_an_energy_is_a_wavelength() -> None:
    assert wavelength_of_energy(8.0478) == pytest.approx(1.5406, abs=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Known(volume=(200.0, 100.0)), "volume: found 200 to 100, expected an ascending range"),
        (lambda: Known(two_theta=(10.0, 10.0)), "two_theta: found 10 to 10"),
        (lambda: Known(zero=7.0), "zero: found 7, expected less than 5°"),
        (lambda: parse_ranges(["1-2-3"]), "exclude: found '1-2-3', expected degrees such as 26.5 or 33.1-33.4"),
        (lambda: parse_ranges(["x"]), "exclude: found 'x'"),
        (lambda: wavelength_of_energy(0.1), "energy: found 0.1, expected 1.24 to 124 keV"),
        (lambda: lattice_systems(["cubical"]), "system: unknown choice 'cubical'"),
        (lambda: Known(two_theta=(0.0, 1.0)).select(example("triclinic")), "found 0 points in the chosen ranges"),
    ],
)
def test_impossible_hints_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=message):
        make()
