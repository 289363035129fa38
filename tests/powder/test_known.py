"""What is known narrows the search: angles that count, zero shift, volume, crystal system."""

from functools import cache

import numpy as np
import pytest

from benchmarks.hints import HINTS, is_right, pattern_of, sample_of
from benchmarks.index_table import Case, cases, made, off
from vitreous.core.errors import InputError
from vitreous.data.builtin import data_folder
from vitreous.powder import Known, index_pattern, index_peaks
from vitreous.powder.cell import volumes
from vitreous.powder.example import example
from vitreous.powder.indexing import IndexOptions
from vitreous.powder.known import parse_ranges
from vitreous.powder.lattice import same_lattice
from vitreous.powder.radiation import wavelength_of_energy
from vitreous.powder.search import LATTICES, lattice_systems

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


QUICK = ("orthorhombic 6151", "tetragonal 16", "trigonal 6153")  # minerals: a search takes a second


@cache
def right_without_hint(name: str) -> bool:
    sample = sample_of(Case("minerals", *name.split()))
    return is_right(sample, pattern_of(sample), Known(), tuple(LATTICES), refine=False)


@pytest.mark.parametrize("name", HINTS)
def test_a_true_hint_never_costs_a_right_answer(name: str) -> None:
    """A sample of `benchmarks/hints.py`; with a foreign line or a standard, a hint makes up for it."""
    if not (data_folder() / "crystals" / "minerals.jsonl.gz").is_file():
        pytest.skip("needs the minerals of the data folder (VITREOUS_DATA)")
    hint, right = HINTS[name], 0
    for mineral in QUICK:
        sample = sample_of(Case("minerals", *mineral.split()))
        pattern = pattern_of(sample, hint.added)
        right += is_right(sample, pattern, hint.known(sample), hint.systems(sample), refine=False)
    assert right >= max(1, sum(map(right_without_hint, QUICK)))


def test_a_hexagonal_crystal_has_no_rhombohedral_lattice() -> None:
    h, k, l = (axis.ravel() for axis in np.meshgrid(*(np.arange(-6, 7),) * 3))  # noqa: E741 - the field's own names
    allowed = ((l + k - h) % 3 == 0) & ((h != 0) | (k != 0) | (l != 0))
    q = (4 / 3 * (h * h + h * k + k * k) / 4.99**2 + l * l / 17.06**2)[allowed]
    lines = 2 * np.degrees(np.arcsin(WAVELENGTH / 2 * np.sqrt(np.unique(np.round(q, 9))[:20])))
    trigonal = index_peaks(lines, wavelength=WAVELENGTH, systems=("trigonal",))
    assert (trigonal[0].crystal_system, trigonal[0].centring) == ("trigonal", "R")
    assert all(solution.centring in "PR" for solution in trigonal)
    hexagonal = index_peaks(lines, wavelength=WAVELENGTH, systems=("hexagonal",))
    assert all(solution.centring == "P" for solution in hexagonal)


def test_a_formula_shows_the_number_of_formula_units() -> None:
    known = Known(formula="NaCl", density=2.163)
    best = index_peaks(LINES, wavelength=WAVELENGTH, systems=("cubic",), known=known)[0]
    assert best.formula_units == pytest.approx(4, rel=0.01)
    assert "4.00 formula units in the cell" in best.text
    assert best.to_dict()["formula_units"] == pytest.approx(4, rel=0.01)
    assert "formula_units" not in index_peaks(LINES, wavelength=WAVELENGTH, systems=("cubic",))[0].to_dict()


def test_a_formula_only_changes_the_evidence_of_cells_with_a_broken_number_of_units() -> None:
    plain = index_peaks(LINES, wavelength=WAVELENGTH, systems=("cubic",))[0]
    true, false = (
        index_peaks(LINES, wavelength=WAVELENGTH, systems=("cubic",), known=Known(formula="NaCl", density=density))[0]
        for density in (2.163, 1.5)
    )
    assert true.evidence == pytest.approx(plain.evidence, abs=0.1)
    assert plain.evidence - 3.1 < false.evidence < plain.evidence - 1


def test_what_is_known_is_recorded() -> None:
    assert Known().to_dict() == {}
    known = Known(volume=(1.0, 2000.0), formula="NaCl", density=2.163)
    assert known.to_dict() == {"volume": (1.0, 2000.0), "formula": "NaCl", "density": 2.163}


def test_what_is_known_can_be_repeated_as_a_command() -> None:
    known = Known((100.0, 200.0), (5.0, 80.0), ((26.4, 26.6), (33.1, 33.4)), formula="Ca(OH)2", standard="Si")
    exclude = "--exclude 26.4-26.6 33.1-33.4"
    expected = f" --volume 100.0 200.0 --two-theta 5.0 80.0 {exclude} --standard Si --formula 'Ca(OH)2'"
    assert known.words == expected
    assert Known().words == ""


def test_trigonal_is_searched_with_hexagonal() -> None:
    assert lattice_systems(["trigonal", "hexagonal", "cubic"]) == ("hexagonal", "cubic")


def test_an_energy_is_a_wavelength() -> None:
    assert wavelength_of_energy(8.0478) == pytest.approx(1.5406, abs=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Known(volume=(200.0, 100.0)), "volume: found 200 to 100, expected an ascending range"),
        (lambda: Known(two_theta=(10.0, 10.0)), "two_theta: found 10 to 10"),
        (lambda: Known(zero=0.0, standard="Si"), "found both zero and standard"),
        (lambda: Known(standard="Tin"), "standard: found 'Tin', expected Si, LaB6, Al2O3, CeO2 or a CIF"),
        (lambda: Known(density=1.7), "density: found 1.7 g/cm³ alone, expected a formula with it"),
        (lambda: Known(formula="Nacl!"), "formula: found 'Nacl!', expected one such as"),
        (lambda: Known(formula="NaCl", density=-1), "density: found -1, expected g/cm³"),
        (
            lambda: Known(formula="NaCl", density=2.163, volume=(55.0, 65.0)),
            "density: found 1.20 to 1.48 formula units in 55 to 65 Å³, which volume states",
        ),
        (lambda: Known(cell=(5.0, 5.0, 5.0, 90.0, 90.0, 200.0)), "cell: found angles 90 90 200°"),
        (
            lambda: Known(cell=(5.0, 5.0, 5.0, 90.0, 90.0, 90.0), volume=(700.0, 800.0)),
            "cell: found a volume of 125.0 Å³, expected 700 to 800 as volume states",
        ),
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
